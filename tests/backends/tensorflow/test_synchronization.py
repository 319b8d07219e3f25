"""The synchronization self-test: every mode, on fakes that queue and on the CPU itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from factories import TRIAL
from timed_devices import Clock, Device

from xla_sweeps.backends.tensorflow.bench import Bench, prove
from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.worker.stand_in import VARIABLE

pytestmark = pytest.mark.tf


@dataclass
class Fake(Device):
    """Satisfies what the self-test asks of a `ModeExecutable`; its waits can be broken."""

    work_s: float = 5e-3
    enqueue_s: float = 1e-5
    read_waits: bool = True

    def synchronize(self) -> None:
        if not ModeExecutable.sync_by_reading:
            super().synchronize()
        elif self.read_waits:
            self.drain()


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModeExecutable, "sync_by_reading", False)


def proved(clock: Clock, **executables: Fake) -> dict[str, Any]:
    return prove(cast(Any, executables), clock=clock)


def test_a_synchronization_that_waits_in_every_mode_is_used() -> None:
    clock = Clock()
    sync = proved(clock, graph=Fake(clock), xla=Fake(clock))
    assert (sync["works"], sync["queued"], sync["by_reading"]) == (True, True, False)
    for figures in sync["modes"].values():
        assert 0.1 < figures["synced_s"] < 0.25
        assert figures["after_s"] < 0.001


def test_where_one_mode_does_not_wait_all_modes_read_a_scalar() -> None:
    clock = Clock()
    modes = {"graph": Fake(clock), "xla": Fake(clock, waits=False)}
    sync = proved(clock, **modes)
    assert (sync["works"], sync["by_reading"]) == (True, True)
    assert ModeExecutable.sync_by_reading


def test_where_nothing_waits_nothing_is_measured() -> None:
    clock = Clock()
    with pytest.raises(XlaSweepsError, match="cannot be timed"):
        proved(clock, graph=Fake(clock), xla=Fake(clock, waits=False, read_waits=False))


def test_a_worker_tests_its_own_modes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = ("graph", "xla", "torch_export", "jax_xla")
    trial = replace(TRIAL, device="gpu:0", modes=modes)
    bench = Bench(
        trial=trial,
        device="/device:GPU:0",
        built=cast(Any, None),
        facts=ModelFacts.of(trial.model),
        modes=("graph", "xla"),
    )
    monkeypatch.setenv(VARIABLE, "1")
    assert list(bench.synchronization()["modes"]) == ["graph", "xla"]
