"""Energy by mode: each alone, in rotated passes, between two readings of the counter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from xla_sweeps.schema.measurement import Energy, Failure, Metered, ModeOutcome, Phase, Status
from xla_sweeps.system.energy import Counter, Meter
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.passes import IDLE, Passes
from xla_sweeps.trial.replicate import ReplicateResult

JOULES = {IDLE: 20, "graph": 300, "xla": 600}
"""Of each pass."""


class Machine(Passes):
    """A device whose counter rises by what runs on it.

    Attributes:
        dies: the mode whose worker ends in its second pass.
        stands: whether the counter does not rise.
        disturbance: what disturbs each pass.
    """

    def __init__(self, *, dies: str = "-", stands: bool = False, disturbance: str = "") -> None:
        self.dies, self.stands, self.ran, self.microjoules = dies, stands, list[str](), 7
        counters = (Counter(read=lambda: self.microjoules),)
        watcher = SimpleNamespace(
            gpu=None,
            meter=lambda: Meter(name="GPU", counters=counters),
            disturbance_between=lambda began, ended: disturbance,
        )
        crew: Any = SimpleNamespace(
            job=None,
            watcher=watcher,
            result=ReplicateResult(),
            warm={label: SimpleNamespace(call_s=0.1) for label in ("graph", "xla")},
            show=lambda phase, detail: None,
            lose=lambda lost: self.warm.pop(self.dies),
        )
        super().__init__(crew, 0.0, calls={"graph": 1, "xla": 1})
        self.result.modes = dict.fromkeys(self.warm, ModeOutcome(status=Status.OK))

    def _others(self, label: str) -> list[int]:
        return []

    def _time_block(self, label: str, *given: object, **more: object) -> Any:
        """Run as the mode did once before its pass."""

    def _run_alone(self, seconds: float, label: str) -> int:
        self.ran.append(label)
        if label == self.dies and self.ran.count(label) == 2:
            failure = Failure(phase=Phase.MEASURE, kind="Died", message="it died")
            raise WorkerLost([label], status=Status.RUN_ERROR, failure=failure)
        self.microjoules += 0 if self.stands else JOULES[label] * 10**6
        return 100 if label else 0

    def measured(self) -> tuple[Energy, dict[str, tuple[Metered, ...]]]:
        self._measure_energy(1.0)
        assert self.result.energy is not None
        outcomes = self.result.modes.items()
        passes = {label: outcome.energy for label, outcome in outcomes if outcome.energy}
        return self.result.energy, passes


def test_the_idle_device_comes_first_and_the_passes_rotate() -> None:
    machine = Machine()
    energy, passes = machine.measured()
    first, second, third = ("graph", "xla"), ("xla", "graph"), ("graph", "xla")
    assert machine.ran == [IDLE, IDLE, IDLE, *first, *second, *third]
    assert (energy.counter, energy.problem) == ("GPU", "")
    assert [one.joules for one in energy.idle] == [20.0] * 3
    assert [one.joules for one in passes["xla"]] == [600.0] * 3
    assert [(one.joules, one.calls) for one in passes["graph"]] == [(300.0, 100)] * 3


def test_what_disturbed_is_noted_with_each_pass() -> None:
    _, passes = Machine(disturbance="other processes used 1.0 cores").measured()
    assert {one.dirty for one in passes["graph"]} == {"other processes used 1.0 cores"}


def test_a_counter_that_stands_still_gives_no_figures() -> None:
    energy, passes = Machine(stands=True).measured()
    assert (energy.problem, passes) == ("the GPU's counter stands still", {})


@pytest.mark.parametrize("dies", ["graph", "xla"])
def test_a_worker_that_dies_ends_its_own_mode_only(dies: str) -> None:
    energy, passes = Machine(dies=dies).measured()
    (other,) = {"graph", "xla"} - {dies}
    assert not energy.problem
    assert {label: len(each) for label, each in passes.items()} == {other: 3}
