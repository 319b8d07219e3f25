"""The scenarios: what one timed call does, in each execution mode."""

from __future__ import annotations

from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.scenarios import fit, predict, train
from xla_sweeps.schema.modes import ExecutionMode, Scenario


def make_executable(bench: Bench, mode: ExecutionMode) -> modes.ModeExecutable:
    """Bind the bench's model to a mode, as its scenario calls it; graph modes are traced here."""
    if bench.trial.scenario is Scenario.PREDICT:
        return predict.make_executable(bench, mode)
    if bench.trainer and bench.trial.scenario is Scenario.FIT:
        return fit.make_executable(bench.trainer, mode, batches=bench.trial.batches)
    if bench.trainer:
        return train.make_executable(bench.trainer, mode)
    return modes.make_executable(bench.built.call, mode, bench.inputs)
