"""How jobs of a sweep ended, the records that they left, and what the sweep came to."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from xla_sweeps.results.store import Store
from xla_sweeps.schema.record import Record, RecordFormatError
from xla_sweeps.sweep.compose import Task
from xla_sweeps.sweep.launchers import Ended
from xla_sweeps.sweep.plan import WEAK, final_outcome


class Screen(Protocol):
    """What a person follows a sweep on; `terminal` has one."""

    def running(self, lane: str, what: str, log: Path) -> None:
        """A job runs on a device."""

    def ended(self, lane: str, what: str, outcome: str, detail: str) -> None:
        """A job ended, and how."""

    def progress(
        self,
        done: int,
        total: int,
        counts: Mapping[str, int],
        *,
        left_s: tuple[float, float] | None,
    ) -> None:
        """How far the sweep is."""

    def tick(self) -> None:
        """Time has passed."""

    def warn(self, message: str) -> None:
        """Something a person should know now."""


class Source(Protocol):
    """Where tasks come from while the sweep runs, beyond those that were planned.

    A search has one.
    """

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


def count_trials(
    tasks: Iterable[Task], *, gave_up: Container[str], died: Container[str]
) -> dict[str, int]:
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
    """One line on what went wrong, from the job's last record or else from how it ended.

    "" where nothing did.
    """
    if not new:
        return ended.detail
    failures = [outcome.failure for outcome in new[-1].modes.values() if outcome.failure]
    failure = new[-1].failure or (failures[0] if failures else None)
    return failure.message if failure else ""


@dataclass(eq=False)
class Delivery:
    """The records that one job sent home, on their way into the store.

    Attributes:
        where: the node that they come from.
        unsaved: those that are not in the store yet, as they were sent.
        saved: those that are, as stored.
    """

    where: str
    unsaved: deque[bytes]
    saved: list[Record] = field(default_factory=list)

    @classmethod
    def of(cls, ended: Ended) -> Delivery:
        """What a job sent that ended so."""
        return cls(ended.where, deque(ended.records))


class Harvest:
    """Reads and keeps the records of a sweep's tasks.

    Args:
        store: where they are.
        warn: told of what cannot be read or kept.
    """

    def __init__(self, store: Store, warn: Callable[[str], None]) -> None:
        self._store, self._warn = store, warn

    def known(self, task: Task) -> frozenset[tuple[str, int]]:
        """Trial and number of each record of a task in the store, unread, where its ids are known."""
        return frozenset(
            key for identifier in task.trial_ids for key in self._store.keys(identifier)
        )

    def of(self, task: Task) -> list[Record]:
        """A task's records in the store, where its ids are known."""
        loaded = [self._store.load(identifier) for identifier in task.trial_ids]
        for problem in (problem for part in loaded for problem in part.problems):
            self._warn(problem)
        return [record for part in loaded for group in part.records.values() for record in group]

    def save(self, delivery: Delivery) -> None:
        """Store what was sent home; what is no record is dropped with a word.

        Raises:
            StoreError: the store does not take it now; what is left stays in the delivery, to be
                tried again.
        """
        while delivery.unsaved:
            try:
                delivery.saved.append(self._store.save(Record.from_json(delivery.unsaved[0]))[0])
            except RecordFormatError as error:
                self._warn(f"a record from {delivery.where} could not be kept: {error}")
            delivery.unsaved.popleft()

    def found(self, task: Task, ended: Ended, known: Iterable[tuple[str, int]]) -> list[Record]:
        """What a job left in the store itself: all of its task's records but those that were known before it."""
        found = self._store.load_paths(ended.paths) if ended.paths else self.of(task)
        before = set(known)
        return [record for record in found if (record.trial_id, record.replicate) not in before]
