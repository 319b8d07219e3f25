"""Feeds a search steered by results (`method: bayes`) to the driver: asks for trials, tells what they measured."""

from __future__ import annotations

from xla_sweeps import analysis
from xla_sweeps.bayes import Search, metric_of
from xla_sweeps.index import Index, entry_of
from xla_sweeps.planning import Composer, Task, match
from xla_sweeps.record import Record
from xla_sweeps.store import Store
from xla_sweeps.sweep import Sweep
from xla_sweeps.trackers.summary import run_summary


class SearchSource:
    """Tasks of a search, as the driver asks for them.

    Args:
        sweep: with method bayes.
        store: where what was measured is read; a trial that is there already is told, not measured again.
    """

    def __init__(self, sweep: Sweep, composer: Composer, store: Store, *, seed: int) -> None:
        self._search = Search(sweep, seed=seed)
        self._composer, self._store = composer, store
        self._left = sweep.trials
        self._asked: dict[str, list[int]] = {}
        self.tasks: list[Task] = []

    @property
    def exhausted(self) -> bool:
        """Whether the search has proposed all its trials."""
        return self._left <= 0

    def next(self) -> Task | None:
        """The next trial; one that was proposed before is told at once and costs nothing."""
        while self._left > 0:
            number, values = self._search.ask()
            self._left -= 1
            task = self._composer.task(values)
            numbers = self._asked.setdefault(task.key, [])
            numbers.append(number)
            if len(numbers) > 1:
                self.done(task)
                continue
            entries = {name: [entry_of(record) for record in group] for name, group in self._records(task).items()}
            match([task], Index(entries), software=self._composer.software, retry=())
            self.tasks.append(task)
            return task
        return None

    def done(self, task: Task) -> None:
        """Tell the search what a trial measured."""
        records = [record for group in self._records(task).values() for record in group]
        value = None
        if records:
            one = [record for record in records if record.trial_id == records[0].trial_id]
            value = metric_of(run_summary(one, analysis.summarize(one)), self._search.metric)
        for number in self._asked.pop(task.key, []):
            self._search.tell(number, value)

    def _records(self, task: Task) -> dict[str, list[Record]]:
        if task.trial_ids:
            return {
                trial: group for identifier in task.trial_ids
                for trial, group in self._store.load(identifier).records.items()
            }  # fmt: skip
        return {
            trial: group for trial, group in self._store.load().records.items()
            if group[0].request_id == task.request_id
        }  # fmt: skip
