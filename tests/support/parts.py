"""Functions for the parts of work, as `system.parallel` calls them by name in its processes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import msgspec

ASKER = "XLA_SWEEPS_TEST_ASKER"
"""Variable with the process that asks."""


class Sum(msgspec.Struct):
    total: int
    process: int


def sum_of(folder: str, numbers: Sequence[str]) -> Sum:
    print(f"{folder}: printed where answers are written", flush=True)
    return Sum(sum(map(int, numbers)), os.getpid())


def dies(folder: str, numbers: Sequence[str]) -> Sum:
    if str(os.getpid()) != os.environ[ASKER]:
        os._exit(1)
    return sum_of(folder, numbers)


def fails(folder: str, numbers: Sequence[str]) -> Sum:
    if numbers[0] == "100":
        raise ValueError("at 100")
    return sum_of(folder, numbers)


def naps(folder: str, numbers: Sequence[str]) -> Sum:
    time.sleep(60)
    return sum_of(folder, numbers)
