"""Energy by mode: each alone, in rotated passes, between two readings of the counter."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from xla_sweeps.schema.measurement import Energy, Failure, Metered, Phase, Status
from xla_sweeps.system.energy import Counter, Meter
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.passes import IDLE, measure_energy

JOULES = {IDLE: 20, "graph": 300, "xla": 600}
"""Of each pass."""


@dataclass
class Machine:
    """A device whose counter rises by what runs on it.

    Attributes:
        dies: the mode whose worker ends in its second pass.
        stands: whether the counter does not rise.
    """

    dies: str = "-"
    stands: bool = False
    alive: dict[str, object] = field(default_factory=lambda: {"graph": 1, "xla": 2})
    ran: list[str] = field(default_factory=list)
    microjoules: int = 7

    def run(self, label: str) -> int:
        self.ran.append(label)
        if label == self.dies and self.ran.count(label) == 2:
            failure = Failure(phase=Phase.MEASURE, kind="Died", message="it died")
            raise WorkerLost([label], status=Status.RUN_ERROR, failure=failure)
        self.microjoules += 0 if self.stands else JOULES[label] * 10**6
        return 100 if label else 0

    def lose(self, lost: WorkerLost) -> None:
        del self.alive[self.dies]

    def measured(self, disturbance: str = "") -> tuple[Energy, dict[str, tuple[Metered, ...]]]:
        return measure_energy(
            Meter(name="GPU", counters=(Counter(read=lambda: self.microjoules),)),
            self.alive,
            ready=lambda label: None,
            run=self.run,
            disturbance=lambda began, ended: disturbance,
            lose=self.lose,
        )


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
    _, passes = Machine().measured("other processes used 1.0 cores")
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
