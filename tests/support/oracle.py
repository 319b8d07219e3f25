"""Contradictions in a results folder: what `check` finds, and what no measurement can yield."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from xla_sweeps.cli.check import examine
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.store.store import Store

APART = 4.0
"""Two figures of one speed that differ by more than this factor cannot both be right."""


def contradictions(results_dir: Path) -> list[str]:
    """A line for each thing that cannot be true of a results folder."""
    lines = [*examine(results_dir).problems]
    for trial, records in Store(results_dir).load().records.items():
        for record in records:
            lines += [f"{trial}/{record.replicate}: {line}" for line in impossible(record)]
    return lines


def impossible(record: Record) -> Iterator[str]:
    """A line for each thing that cannot be true of a record."""
    measured = record.status in (Status.OK, Status.CONTAMINATED)
    if measured != (record.failure is None):
        yield f"status {record.status}, and the failure {record.failure}"
    if measured and not any(mode.latencies_s for mode in record.modes.values()):
        yield f"{record.status} without a measured mode"
    if record.modes.keys() != {*record.trial.modes}:
        yield f"modes {', '.join(record.modes)} are not those of the trial"
    for label, mode in record.modes.items():
        if (mode.status is Status.OK) != (mode.failure is None):
            yield f"{label}: status {mode.status}, and the failure {mode.failure}"
        if mode.status is Status.OK and mode.effective.get("in_force") is False:
            yield f"{label}: ok, and it was not in force"
        blocks = [block for one in record.rounds for block in one.blocks if block.mode == label]
        if mode.latencies_s and blocks:
            call_s = statistics.median(block.elapsed_ns / block.calls for block in blocks) / 1e9
            alone_s = statistics.median(mode.latencies_s)
            if alone_s * APART < call_s:
                yield f"{label}: a call takes {alone_s:.3g} s alone and {call_s:.3g} s in rounds"
    for number, one in enumerate(record.rounds):
        if sum(block.elapsed_ns for block in one.blocks) > one.finished_ns - one.started_ns:
            yield f"round {number}: its blocks take longer than the round"
