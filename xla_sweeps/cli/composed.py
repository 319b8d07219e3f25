"""Entry point of the process that forks the trials of a sweep on this machine.

It has imported what they need, and their orders hold the configuration that the sweep has composed:
no trial starts Python or Hydra.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence

import msgspec

from xla_sweeps.cli import main, trial
from xla_sweeps.system import environment, forking, streams
from xla_sweeps.system.forking import Order
from xla_sweeps.system.process import Assignment


def serve() -> None:
    """Fork a trial for each order."""
    orders = forking.inherited()
    import scipy.linalg  # noqa: F401  (and NumPy: what has BLAS's threads)

    threads = forking.threads()
    import xla_sweeps.measure.runner
    import xla_sweeps.report.terminal.tables
    import xla_sweeps.report.terminal.trial_progress
    import xla_sweeps.report.wandb.tracker  # noqa: F401

    def unfit(order: Order) -> str:
        forking.check_threads(threads)
        return ""

    environment.git_state()  # of the code that runs, once
    forking.serve(orders, _run, unfit=unfit, lost=signal.SIGTERM)


def _run(order: Order, descriptors: Sequence[int]) -> int:
    """Run one trial, as the command would; the first argument is its configuration."""
    os.environ.clear()
    os.environ.update(order.environment)
    streams.protect()
    document, *words = order.arguments
    assignment = Assignment.take(os.environ)
    if descriptors:
        assignment = msgspec.structs.replace(assignment, warm=descriptors[0])
    return main.run(
        words, lambda words: trial.composed_trial(words, json.loads(document), assignment)
    )


if __name__ == "__main__":
    serve()
