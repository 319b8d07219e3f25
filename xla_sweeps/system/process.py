"""Ties a process to the one that started it: nothing of ours outlives what would have to end it.

The variables by which the one tells the other more than a person would type are named here as well.
"""

from __future__ import annotations

import ctypes
import os
import signal

PARENT_VARIABLE = "XLA_SWEEPS_PARENT"
"""Names the process that a command must not outlive."""

RECORDED_VARIABLE = "XLA_SWEEPS_RECORDED"
"""Names a file to which a command adds the path of each record that it makes."""

TURNS_VARIABLE = "XLA_SWEEPS_TURNS"
"""Names the file that is locked while a process measures."""

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent ends, however that happens.

    Exit if it is gone.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        raise SystemExit(1)
