"""Trials by the real command line with a scripted measuring process, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from paths import SUPPORT

from xla_sweeps.schema.record import Record
from xla_sweeps.store.store import Store


def start(
    results: Path, *words: str, script: str = "", program: str = "fake_trial.py", **environ: str
) -> subprocess.Popen[str]:
    """Start a command beside its results folder.

    Args:
        results: the results folder.
        words: its overrides and options.
        script: steps of `fake_worker.py`.
        program: of the tests' support, in place of `python -m xla_sweeps`.
        environ: variables that it gets too.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return subprocess.Popen(
        [sys.executable, str(SUPPORT / program), *words, f"results_dir={results}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=results.parent,
        env={**kept, "FAKE_WORKER": script, "COLUMNS": "100", **environ},
        start_new_session=True,
    )


def records(results: Path) -> list[Record]:
    """All records of a results folder."""
    return [record for group in Store(results).load().records.values() for record in group]
