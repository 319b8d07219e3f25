"""What a driver is followed on, what it takes further tasks from, and what it answers with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from xla_sweeps.launchers import Ended
from xla_sweeps.planning import Task
from xla_sweeps.record import Record
from xla_sweeps.standing import WEAK, final_outcome


class Screen(Protocol):
    """What a person follows a sweep on; `terminal` has one."""

    def running(self, lane: str, what: str, log: Path) -> None:
        """A job runs on a device."""

    def ended(self, lane: str, what: str, outcome: str, detail: str) -> None:
        """A job ended, and how."""

    def progress(self, done: int, total: int, counts: Mapping[str, int], *, left_s: tuple[float, float] | None) -> None:
        """How far the sweep is."""

    def tick(self) -> None:
        """Time has passed."""

    def warn(self, message: str) -> None:
        """Something a person should know now."""


class Source(Protocol):
    """Where tasks come from while the sweep runs, beyond those that were planned; a search has one."""

    def next(self) -> Task | None:
        """The next task, or None where there is none for now."""

    def done(self, task: Task) -> None:
        """A task has all that it wants."""

    @property
    def exhausted(self) -> bool:
        """Whether there will be no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run of a sweep ended.

    Attributes:
        signal_number: of the signal that stopped it, or 0.
        broken: why the circuit breaker stopped it, or "".
        left: tasks that are not done.
        gave_up: why, for tasks that were left without a record that says it.
    """

    counts: Mapping[str, int]
    signal_number: int = 0
    broken: str = ""
    left: tuple[Task, ...] = ()
    gave_up: Mapping[str, str] = field(default_factory=dict)


def count_trials(tasks: Iterable[Task], *, gave_up: Container[str], died: Container[str]) -> dict[str, int]:
    """How many trials are how: by final status, `refused`, `died` or `missing`.

    Args:
        tasks: the sweep's, without anchors.
        gave_up: keys of those that were left without a record that says why.
        died: keys of those whose own process died.
    """
    words: Counter[str] = Counter()
    for task in tasks:
        outcome = final_outcome(task.outcomes)
        if outcome is not None and (not task.wanted or task.key in gave_up or outcome in WEAK):
            words[str(outcome)] += 1
        elif task.key in gave_up:
            words["died" if task.key in died else "refused"] += 1
        else:
            words["missing"] += 1
    return dict(words)


def detail_of(ended: Ended, new: Sequence[Record]) -> str:
    """One line on what went wrong, from the job's last record or else from how it ended; "" where nothing did."""
    if not new:
        return ended.detail
    failures = [outcome.failure for outcome in new[-1].modes.values() if outcome.failure]
    failure = new[-1].failure or (failures[0] if failures else None)
    return failure.message if failure else ""
