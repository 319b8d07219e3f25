"""A stand-in for an accelerator, in tests: another logical device of the CPU, which `gpu:0` names.

What runs on an accelerator only is executed on it: placing, copying, proofs, tests of waiting.
"""

from __future__ import annotations

import os

VARIABLE = "XLA_SWEEPS_STAND_IN"
"""Set by tests in a worker's environment, which a trial's own never has."""


def stands_in() -> bool:
    """True if the worker's accelerator is a device of the CPU."""
    return bool(os.environ.get(VARIABLE))
