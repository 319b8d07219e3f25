"""Runs a command in a process that was forked from one that has imported the command line.

Importing it takes a fresh process a second; see `commands.forked`.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import fake_backend
import fake_sweep
import fake_trial
import hydra  # noqa: F401
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import quick_sweep
import scipy.special  # noqa: F401

import xla_sweeps.cli.check
import xla_sweeps.cli.compare
import xla_sweeps.cli.dashboard
import xla_sweeps.cli.doctor
import xla_sweeps.cli.explain
import xla_sweeps.cli.models
import xla_sweeps.cli.results
import xla_sweeps.cli.sweep
import xla_sweeps.cli.trial
import xla_sweeps.report.terminal.progress  # noqa: F401
from xla_sweeps.__main__ import main

MEMORY_BYTES = 4 * 2**30
"""Most memory that a `bounded` program may allocate."""


def use_scripts_in_bounds() -> None:
    """Have this process's trials and sweeps follow scripts, with little memory and no dump."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    fake_sweep.use_scripts()


PROGRAMS: dict[str, Callable[[], object]] = {
    "command": lambda: None,
    "undisturbed": fake_trial.take_no_notice,
    "sweep": fake_sweep.use_scripts,
    "bounded": use_scripts_in_bounds,
    "trial": fake_trial.use_script,
    "fakes": fake_backend.use_fakes,
    "quick": quick_sweep.run,
}
"""What each program does before it runs the command line; `quick` does not run it."""


def run(
    program: str,
    folder: str,
    environment: dict[str, str],
    outputs: Sequence[str],
    arguments: Sequence[str],
) -> None:
    """Run a command.

    Args:
        program: one of `PROGRAMS`.
        folder: to run it in.
        environment: its complete environment.
        outputs: path of a file or a pipe for its standard output and error, or one for each.
        arguments: of the command line.
    """
    opened = [os.open(path, os.O_WRONLY | os.O_CREAT) for path in outputs]
    become(folder, environment, arguments, opened[0], opened[-1])
    PROGRAMS[program]()
    main()


def become(
    folder: Path | str,
    environment: Mapping[str, str],
    arguments: Sequence[str],
    output: int,
    errors: int,
) -> None:
    """Take the place of a command that was started so, with descriptors for what it writes."""
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for target, source in enumerate((os.open(os.devnull, os.O_RDONLY), output, errors)):
        os.dup2(source, target)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False, encoding=encoding)
    sys.stderr = os.fdopen(2, "w", 1, encoding, "backslashreplace", closefd=False)
    sys.argv = ["xla_sweeps", *arguments]
    tempfile.tempdir = None
