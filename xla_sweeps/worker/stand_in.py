"""A stand-in for an accelerator, in tests: another logical device of the CPU, named `gpu:0`."""

from __future__ import annotations

import os

VARIABLE = "XLA_SWEEPS_STAND_IN"
"""Set by tests in a worker's environment, which a trial's own never has."""


def stands_in() -> bool:
    """True if the worker's accelerator is a device of the CPU."""
    return bool(os.environ.get(VARIABLE))
