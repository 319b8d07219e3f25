"""Brings in what jobs recorded: sent home by them, or found in the store. What it means is decided elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from xla_sweeps.launchers import Ended
from xla_sweeps.planning import Task
from xla_sweeps.record import Record, RecordFormatError
from xla_sweeps.store import Store


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
        return frozenset(key for identifier in task.trial_ids for key in self._store.keys(identifier))

    def of(self, task: Task) -> list[Record]:
        """A task's records in the store, where its ids are known."""
        loaded = [self._store.load(identifier) for identifier in task.trial_ids]
        for problem in (problem for part in loaded for problem in part.problems):
            self._warn(problem)
        return [record for part in loaded for group in part.records.values() for record in group]

    def save(self, delivery: Delivery) -> None:
        """Store what was sent home; what is no record is dropped with a word.

        Raises:
            StoreError: the store does not take it now; what is left stays in the delivery, to be tried again.
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
