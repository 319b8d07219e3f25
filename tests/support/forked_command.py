"""Runs a command in a process that was forked from one that has imported the command line.

Importing it takes a fresh process a second; see `commands.forked`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import fake_sweep
import fake_trial
import hydra  # noqa: F401
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import scipy.stats  # noqa: F401

import xla_sweeps.cli.check
import xla_sweeps.cli.compare
import xla_sweeps.cli.dashboard
import xla_sweeps.cli.doctor
import xla_sweeps.cli.explain
import xla_sweeps.cli.models
import xla_sweeps.cli.results
import xla_sweeps.cli.sweep
import xla_sweeps.cli.trial
import xla_sweeps.report.terminal.sweep_progress
import xla_sweeps.report.terminal.trial_progress  # noqa: F401
from xla_sweeps.__main__ import main


def run(
    program: str,
    folder: str,
    environment: dict[str, str],
    outputs: Sequence[str],
    arguments: Sequence[str],
) -> None:
    """Run a command.

    Args:
        program: `command`, or `sweep` or `trial` for a scripted one (`fake_sweep.py`,
            `fake_trial.py`).
        folder: to run it in.
        environment: its complete environment.
        outputs: files for its standard output and error.
        arguments: of the command line.
    """
    os.setsid()
    for number, path in enumerate(outputs, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if program == "sweep":
        fake_sweep.use_scripts()
    if program == "trial":
        fake_trial.use_script()
    sys.argv = ["xla_sweeps", *arguments]
    main()
