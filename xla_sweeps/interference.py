"""Whether trials on several devices of one machine disturb each other: the anchor, alone and then on all, tells."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from xla_sweeps import drift
from xla_sweeps.launchers import End, Ended, Job
from xla_sweeps.launchers.local import LocalLauncher
from xla_sweeps.lifeline import TURNS_VARIABLE
from xla_sweeps.planning import Task
from xla_sweeps.store import Store

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
    """Measure the anchor alone on the first device, then on all at once; past 1 % only one measures at a time.

    There is an anchor for each device, since a trial is measured by one process at a time.

    Returns:
        How much longer a call took with all devices busy (1.0: no longer); None where it could not be measured.
    """
    lanes = launcher.lanes()

    def measure(names: Sequence[str], phase: str) -> float | None:
        """The latency on the first of the lanes with all of them busy, seconds."""
        known = set(_keys(store, anchors[0]))
        futures = []
        for name, anchor in zip(names, anchors, strict=False):
            arguments = (*anchor.words, *extra, f"known_records={len(_keys(store, anchor))}")
            log = logs / f"interference-{phase}-{name.replace(':', '')}.log"
            futures.append(launcher.submit(Job(arguments=arguments, lane=name, log=log)))
        ended: list[Ended] = [future.result() for future in futures]
        records = [
            record for identifier in anchors[0].trial_ids for group in store.load(identifier).records.values()
            for record in group if (record.trial_id, record.replicate) not in known
        ]  # fmt: skip
        seconds = [value for record in records if (value := drift.call_s(record)) is not None]
        measured = all(item.how is End.FINISHED for item in ended)
        return seconds[0] if seconds and measured else None

    alone, together = measure(lanes[:1], "alone"), measure(lanes, "together")
    if alone is None or together is None:
        say(f"interference between {', '.join(lanes)} could not be measured; they take turns at measuring")
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


def _keys(store: Store, task: Task) -> list[tuple[str, int]]:
    return [key for identifier in task.trial_ids for key in store.keys(identifier)]
