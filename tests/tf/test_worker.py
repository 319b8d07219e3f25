"""How the measuring process ends, whatever the model's code raises; without TensorFlow."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import TRIAL

from xla_sweeps.measure.process import Stop, run_attempt
from xla_sweeps.schema.measurement import Load, Round
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.leases import Leases

STUB = """
import os, sys, types
def measure(job, channel, import_s):
    {code}
stub = types.ModuleType("xla_sweeps.tf.replicate")
stub.measure = measure
sys.modules["xla_sweeps.tf.replicate"] = stub
import xla_sweeps.tf
xla_sweeps.tf.replicate = stub
from xla_sweeps.tf import worker
worker.end(worker.main())
"""


class _Nobody:
    gpu = None

    def review(self, rounds: Sequence[Round]) -> Mapping[int, str]:
        return {}

    def loads(self, rounds: Sequence[Round]) -> Mapping[int, Load]:
        return {}

    def disturbance(self) -> str:
        return ""

    def summary(self) -> Mapping[str, Any]:
        return {}


@contextlib.contextmanager
def _watch(pid: int, exceeded: Callable[[], None]) -> Iterator[_Nobody]:
    yield _Nobody()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("sys.exit(3)", "the model's code called sys.exit(3)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: raised by the model's code"),
        ("raise BaseException('own')", "BaseException: own"),
        ("raise ValueError('a\\ud800b')", "ValueError: a?b"),
        ("raise ValueError('x' * 10**8)", "ValueError: xxx"),
        (
            "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()",
            "E: (its message cannot be shown)",
        ),
        (
            "os.close(int(sys.argv[2])); raise ValueError",
            "closed a file descriptor that it did not open",
        ),
    ],
)
def test_whatever_the_model_raises_is_reported_in_its_own_words(
    code: str, says: str, tmp_path: Path
) -> None:
    with Stop() as stop:
        attempt = run_attempt(
            ReplicateJob(trial=TRIAL, replicate=0, modes=("graph",), order_seed=1),
            environment=dict(os.environ),
            log=tmp_path / "child.log",
            watch=_watch,
            stop=stop,
            leases=Leases((), holder=""),
            on_event=lambda event: None,
            command=(sys.executable, "-c", STUB.format(code=code)),
        )
    assert attempt.failure is not None
    assert says in attempt.failure.message
    assert (tmp_path / "child.log").stat().st_size < 17 * 2**20
