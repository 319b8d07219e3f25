"""The anchor trial: when it is measured, and whether devices of one machine disturb each other."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from xla_sweeps.analysis import noise
from xla_sweeps.analysis.noise import ANCHOR_TAG
from xla_sweeps.results.store import Store
from xla_sweeps.sweep.compose import Task
from xla_sweeps.sweep.launchers import End, Ended, Job
from xla_sweeps.sweep.launchers.local import LocalLauncher
from xla_sweeps.system.process import TURNS_VARIABLE

ANCHOR = (
    "model=mobilenet_v2",
    "resolution=96",
    "modes=[graph,graph]",
    "effort=quick",
    f"tracker.tags=[{ANCHOR_TAG}]",
)
"""The trial that is measured again and again during a long sweep: an A/A pair, so that it serves the floor as well."""

EVERY_S = 1800.0


class Anchors:
    """The anchor trial's turns.

    Args:
        tasks: the anchor trial, one for each device, so that all can be measured at once; or none.

    Attributes:
        due: what is to be measured next: an anchor, and the device it must run on or None.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = list(tasks)
        self._called = -math.inf
        self._since = False
        self.due: list[tuple[Task, str | None]] = []

    def includes(self, task: Task) -> bool:
        """Whether a task is an anchor."""
        return any(task is anchor for anchor in self._tasks)

    def call(self, lanes: Sequence[str | None], *, now: float) -> None:
        """Have the anchor trial measured next, on each of these devices."""
        if self._tasks:
            self._called, self._since = now, False
            self.due = list(zip(self._tasks, lanes, strict=False))

    def overdue(self, *, now: float) -> bool:
        """Whether half an hour has passed since they were called."""
        return now >= self._called + EVERY_S

    def note(self) -> None:
        """Something else was measured."""
        self._since = True

    @property
    def owed(self) -> bool:
        """Whether something else was measured since they were called: then they close the sweep."""
        return bool(self._tasks) and self._since


TOLERANCE = 0.01


def take_turns_if_needed(
    launcher: LocalLauncher,
    store: Store,
    anchors: Sequence[Task],
    *,
    extra: Sequence[str],
    logs: Path,
    say: Callable[[str], None],
) -> float | None:
    """Measure the anchor alone on the first device, then on all at once.

    Past 1 % only one measures at a time.

    There is an anchor for each device, since a trial is measured by one process at a time.

    Returns:
        How much longer a call took with all devices busy (1.0: no longer); None where it could not
        be measured.
    """
    lanes = launcher.lanes()

    def measure(names: Sequence[str], phase: str) -> float | None:
        """The latency on the first of the lanes with all of them busy, seconds."""
        known = set(_known_keys(store, anchors[0]))
        futures = []
        for name, anchor in zip(names, anchors, strict=False):
            arguments = (*anchor.words, *extra, f"known_records={len(_known_keys(store, anchor))}")
            log = logs / f"interference-{phase}-{name.replace(':', '')}.log"
            futures.append(launcher.submit(Job(arguments=arguments, lane=name, log=log)))
        ended: list[Ended] = [future.result() for future in futures]
        records = [
            record
            for identifier in anchors[0].trial_ids
            for group in store.load(identifier).records.values()
            for record in group
            if (record.trial_id, record.replicate) not in known
        ]
        seconds = [value for record in records if (value := noise.call_s(record)) is not None]
        measured = all(item.how is End.FINISHED for item in ended)
        return seconds[0] if seconds and measured else None

    alone, together = measure(lanes[:1], "alone"), measure(lanes, "together")
    if alone is None or together is None:
        say(
            f"interference between {', '.join(lanes)} could not be measured; they take turns at measuring"
        )
    elif abs(together / alone - 1) <= TOLERANCE:
        return together / alone
    else:
        say(
            f"{', '.join(lanes)} disturb each other: with all busy a call takes {together / alone:.2f} times as long; "
            "they build and compile side by side and take turns at measuring (flag took_turns)"
        )
    turns = store.results_dir / "claims" / f"turns-{os.getpid()}.lock"
    turns.parent.mkdir(parents=True, exist_ok=True)
    launcher.environment[TURNS_VARIABLE] = str(turns.resolve())
    return None if alone is None or together is None else together / alone


def _known_keys(store: Store, task: Task) -> list[tuple[str, int]]:
    return [key for identifier in task.trial_ids for key in store.keys(identifier)]
