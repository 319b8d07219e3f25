"""The anchor trial, which a sweep repeats; it also tells whether slots slow each other down."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from xla_sweeps.analysis import noise
from xla_sweeps.schema.columns import ANCHOR_TAG
from xla_sweeps.schema.row import Figure
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.compose import Task
from xla_sweeps.sweeps.launchers import Launcher
from xla_sweeps.sweeps.launchers.job import End, Job

ANCHOR = (
    *("model=mobilenet_v2", "resolution=96", "modes=[graph,graph]", "effort=quick"),
    f"tracker.tags=[{ANCHOR_TAG}]",
)
"""The trial that a long sweep repeats: an A/A pair, so that it counts for the A/A floor as well."""

DEVICE_ANCHOR = ("model=resnet50", "batch_size=64", *ANCHOR[2:])
"""That of a GPU, which waits for the host in the other; its day is that of trials alike."""

TOLERANCE = 0.01
"""Slots do not interfere where the whole interval of the change lies within it."""


def take_turns_if_needed(
    launcher: Launcher,
    store: Store,
    anchors: Sequence[Task],
    *,
    extra: Sequence[str],
    logs: Path,
    warn: Callable[[str], None],
) -> None:
    """Measure the anchor on one slot, then on all at once; take turns if they interfere.

    There is an anchor for each slot, since a trial is measured by one process at a time. Without
    any, the slots take turns.
    """
    slots = launcher.slots()[: len(anchors) or None]

    def measure(names: Sequence[str], phase: str) -> Figure | None:
        """The level of the first of these slots with all of them busy."""
        before = anchors[0].stored_keys(store)
        futures = []
        for name, anchor in zip(names, anchors, strict=False):
            job = Job(
                arguments=(*anchor.words, *extra),
                known_records=len(anchor.stored_keys(store)),
                slot=name,
                log=logs / f"interference-{phase}-{name.replace(':', '')}.log",
            )
            futures.append(launcher.submit(job))
        ends = {future.result().how for future in futures}
        records = [
            record
            for group in store.load(*anchors[0].trial_ids).records.values()
            for record in group
            if (record.trial_id, record.replicate) not in before
        ]
        levels = [level for record in records if (level := noise.level_of(record)) is not None]
        return levels[0] if levels and ends == {End.FINISHED} else None

    alone = measure(slots[:1], "alone") if anchors else None
    together = measure(slots, "together") if anchors else None
    bound, names = math.log1p(TOLERANCE), ", ".join(slots)
    if alone is None or together is None:
        why = "" if anchors else " without TensorFlow"
        warn(f"could not measure whether {names} interfere{why}; they take turns at measuring")
    else:
        low, high = noise.change(alone, together)
        if -bound <= low and high <= bound:
            return
        longer = math.exp(together.mean - alone.mean)
        how = "interfere" if max(low, -high) > bound else "may interfere"
        warn(
            f"{names} {how}: with all busy a call takes {longer:.2f} "
            f"({math.exp(low):.2f}–{math.exp(high):.2f}) times as long; they build and compile in "
            "parallel and take turns at measuring (flag took_turns)"
        )
    launcher.take_turns()
