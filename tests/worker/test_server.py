"""Ends of the measuring process, whatever the model's code raises; without a framework."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conducting import conduct_trial
from factories import TRIAL
from scripted import started_by

from xla_sweeps.schema.measurement import Phase
from xla_sweeps.trial import protocol
from xla_sweeps.worker import server

WRONG = (
    "from xla_sweeps.schema.measurement import ModeOutcome as Outcome; "
    "from xla_sweeps.trial.protocol import Warmed; "
    "return Warmed(outcome=Outcome(status='ok', steady_memory_bytes=-7), call_s=1.0, sync_s=0.0)"
)

STUB = """
import os, sys
from xla_sweeps.worker import server
descriptor = int(sys.argv[2])
def answer(request):
    {code}
server.main(lambda channel: answer)
"""


def test_a_clock_that_a_model_replaces_is_restored_with_the_next_message() -> None:
    before, descriptor = time.perf_counter, os.open(os.devnull, os.O_WRONLY)
    channel = server.Channel(descriptor)
    try:
        time.perf_counter = lambda: -1.0
        channel.send(protocol.Stage(phase=Phase.BUILD))
        assert time.perf_counter is before
    finally:
        time.perf_counter = before
        channel._out.close()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("sys.exit(3)", "the model's code called sys.exit(3)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: raised by the model's code"),
        ("raise BaseException('own')", "BaseException: own"),
        ("raise ValueError(sys.argv[1:])", "ValueError: []"),
        ("raise ValueError('a\\ud800b')", "ValueError: a?b"),
        ("raise ValueError('x' * 10**8)", "ValueError: xxx"),
        (
            "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()",
            "E: (its message cannot be shown)",
        ),
        (WRONG, "Expected `int` >= 0 - at `$.outcome.steady_memory_bytes`"),
        ("os.close(descriptor); raise ValueError", "closed a file descriptor that it did not open"),
    ],
)
def test_whatever_the_model_raises_is_reported_in_its_own_words(
    code: str, says: str, tmp_path: Path
) -> None:
    worker = started_by(sys.executable, "-c", STUB.format(code=code))
    result = conduct_trial(replace(TRIAL, modes=("graph",)), worker, tmp_path)
    assert result.failure is not None
    assert says in result.failure.message
    assert (tmp_path / "child.log").stat().st_size < 17 * 2**20
