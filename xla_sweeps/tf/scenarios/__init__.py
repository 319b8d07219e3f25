"""The scenarios: what one timed call does, in each execution mode."""

from __future__ import annotations

from xla_sweeps.schema.modes import ExecutionMode
from xla_sweeps.tf import modes
from xla_sweeps.tf.bench import Bench


def make_executable(bench: Bench, mode: ExecutionMode) -> modes.ModeExecutable:
    """Bind the bench's model to a mode, as its scenario calls it; graph modes are traced here."""
    return modes.make_executable(bench.built.call, mode, bench.inputs)
