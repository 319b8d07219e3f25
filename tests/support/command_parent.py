"""Forks commands: it has imported the command line, which a fresh process needs a second for.

Started by `commands.forked`. The first two arguments of an order are `command`, or `sweep` or
`trial` for a scripted one (`fake_sweep.py`, `fake_trial.py`), and the folder to run it in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from xla_sweeps.system import forking


def load() -> None:
    """Import what commands import."""
    import fake_sweep  # noqa: F401
    import fake_trial  # noqa: F401
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


def work(order: forking.Order, descriptors: Sequence[int]) -> int:
    import fake_sweep
    import fake_trial

    from xla_sweeps.__main__ import main

    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
    program, folder, *arguments = order.arguments
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(order.environment)
    if program == "sweep":
        fake_sweep.use_scripts()
    if program == "trial":
        fake_trial.use_script()
    sys.argv = ["xla_sweeps", *arguments]
    main()
    return 0


if __name__ == "__main__":
    orders = forking.inherited()
    load()
    forking.serve(orders, work, unfit=lambda order: "")
