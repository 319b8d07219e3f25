"""Trials by the real command line with a scripted measuring process, in processes of their own."""

from __future__ import annotations

from pathlib import Path

from commands import Running

from xla_sweeps.schema.record import Record
from xla_sweeps.store.store import Store


def start(results: Path, *words: str, script: str = "", **environ: str) -> Running:
    """Start a command beside its results folder.

    Args:
        results: the results folder.
        words: its overrides and options.
        script: steps of `fake_worker.py`.
        environ: variables that it gets too.
    """
    own = {"FAKE_WORKER": script, "COLUMNS": "100", **environ}
    return Running("trial", *words, f"results_dir={results}", cwd=results.parent, more=own)


def records(results: Path) -> list[Record]:
    """All records of a results folder."""
    return [record for group in Store(results).load().records.values() for record in group]
