"""Functions for the parts of work, as `system.parallel` calls them by name in its processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from xla_sweeps.system.parallel import PART

ASKER = "XLA_SWEEPS_TEST_ASKER"
"""Variable with the process that asks."""


class Done(msgspec.Struct):
    items: list[str]
    process: int


def done(folder: str, items: Sequence[str]) -> Done:
    print(f"{folder}: printed where answers are written", flush=True)
    return Done(list(items), os.getpid())


def dies(folder: str, items: Sequence[str]) -> Done:
    if str(os.getpid()) != os.environ[ASKER]:
        os._exit(1)
    return done(folder, items)


def dies_within_an_answer(folder: str, items: Sequence[str]) -> Done:
    if str(os.getpid()) != os.environ[ASKER]:
        answers = max(int(path.name) for path in Path("/proc/self/fd").iterdir() if is_pipe(path))
        os.write(answers, (1000).to_bytes(8) + b"half of it")
        os._exit(1)
    return done(folder, items)


def is_pipe(path: Path) -> bool:
    return path.is_symlink() and str(path.readlink()).startswith("pipe:")


HERE: list[Sequence[str]] = []
"""The parts that `notes` was called for in this process."""


def notes(folder: str, items: Sequence[str]) -> Done:
    HERE.append(items)
    return done(folder, items)


def fails(folder: str, items: Sequence[str]) -> Done:
    if items[0] == str(PART):
        raise ValueError("at the second part")
    return done(folder, items)


def naps(folder: str, items: Sequence[str]) -> Done:
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)
    sys.exit("nobody ended it")
