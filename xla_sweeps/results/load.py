"""Comparison rows of a results folder, measured and imported."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from xla_sweeps.analysis import noise
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.errors import StoreError
from xla_sweeps.results import imported
from xla_sweeps.results.store import Store
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow, TrialSummary


def load(
    results_dir: Path,
    *,
    warn: Callable[[str], None],
    only: Collection[str] | None = None,
    missing_ok: bool = False,
) -> tuple[dict[str, list[Record]], dict[str, TrialSummary]]:
    """Records and summaries of a results folder, by trial.

    Args:
        results_dir: the folder.
        warn: told of what cannot be read.
        only: summarize these trials alone.
        missing_ok: whether a folder without records is empty rather than an error.

    Raises:
        StoreError: there is no such folder, or no record in it.
    """
    if not (results_dir / "records").is_dir():
        raise StoreError(
            f"{results_dir} holds no records; measure first: python -m xla_sweeps model=NAME"
        )
    loaded = Store(results_dir).load()
    for problem in loaded.problems:
        warn(problem)
    if not loaded.records and not missing_ok:
        raise StoreError(f"{results_dir} holds no readable record")
    spans = noise.drifting(
        record for group in loaded.records.values() for record in group if noise.is_anchor(record)
    )
    if spans:
        loaded = replace(
            loaded,
            records={trial: noise.flagged(group, spans) for trial, group in loaded.records.items()},
        )
    everything = [record for group in loaded.records.values() for record in group]
    floors = {
        name: noise.floor_for(everything, name)
        for name in {str(record.device.get("name", "")) for record in everything}
    }
    summaries = {
        trial: summarize(group, floor=floors[str(group[0].device.get("name", ""))])
        for trial, group in loaded.records.items()
        if only is None or trial in only
    }
    return loaded.records, summaries


def rows_of(results_dir: Path, *, warn: Callable[[str], None]) -> list[ComparisonRow]:
    """Every comparison row of a results folder, measured and imported.

    Raises:
        StoreError: it holds neither records nor imports.
    """
    published, problems = imported.load(results_dir)
    for problem in problems:
        warn(problem)
    if published and not (results_dir / "records").is_dir():
        return published
    _, summaries = load(results_dir, warn=warn, missing_ok=bool(published))
    return [row for summary in summaries.values() for row in summary.comparisons] + published
