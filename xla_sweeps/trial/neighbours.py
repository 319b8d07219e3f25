"""Other processes that use the CPU: how much, and their command names; never their arguments."""

from __future__ import annotations

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xla_sweeps.schema.record import Record
from xla_sweeps.system.process import descendants

FOREIGN = "other processes used "
"""Beginning of a round's cause of contamination if that is their load."""

NAMED = 3  # number of the busiest processes that are named

NAMED_CORES = 0.05  # fewest cores that a named process uses


class Spent(NamedTuple):
    """CPU time of one process so far, seconds, and the core that it was last seen on."""

    name: str
    seconds: float
    core: int = 0


Spending = Mapping[tuple[int, int], Spent]
"""Time spent by process id and start time, since ids are used again."""


def spending(root: Path) -> Spending:
    """CPU time of every process that is not our own; `root` holds `proc`."""
    own = {os.getpid(), *descendants(os.getpid(), root=root)}
    spent_by_process: dict[tuple[int, int], Spent] = {}
    for folder in (root / "proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            head, _, rest = (folder / "stat").read_text("utf-8", "replace").rpartition(")")
            fields, pid = rest.split(), int(folder.name)
            if pid not in own:
                seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                spent = Spent(head.partition("(")[2], seconds, int(fields[36]))
                spent_by_process[pid, int(fields[19])] = spent
    return spent_by_process


def busiest(before: Spending, after: Spending, seconds: float, mine: Collection[int]) -> list[str]:
    """Command names of those that used the cores `mine` most between two looks, busiest first."""
    used: defaultdict[str, float] = defaultdict(float)
    for key, spent in after.items():
        if spent.core not in mine:
            continue
        used[spent.name] += spent.seconds - (before[key].seconds if key in before else 0.0)
    order = sorted(used, key=lambda name: -used[name])
    return [name for name in order[:NAMED] if used[name] > NAMED_CORES * seconds]


def in_words(foreign_cores: float, cores: int, names: Sequence[str]) -> str:
    """`others use 1.4 of 2 cores (python, chromium)`."""
    who = f" ({', '.join(names)})" if names else ""
    return f"others use {foreign_cores:.1f} of {cores} cores{who}"


def disturbance_of(contamination: Mapping[str, Any]) -> str:
    """Sentence on other processes from a record's `contamination`; "" where it has none."""
    used, cores = contamination.get("foreign_cores"), contamination.get("cores")
    names = contamination.get("busiest")
    if not isinstance(used, int | float) or not isinstance(cores, int):
        return ""
    return in_words(used, cores, [str(name) for name in names] if isinstance(names, list) else [])


def cause_of(record: Record) -> str:
    """The cause of most of a record's contaminated rounds, in words, or ""."""
    reasons = Counter(measured.dirty for measured in record.rounds if measured.dirty)
    foreign = sum(count for reason, count in reasons.items() if reason.startswith(FOREIGN))
    if 2 * foreign >= reasons.total():
        return disturbance_of(record.contamination)
    return max(reasons, key=lambda reason: (not reason.startswith(FOREIGN), reasons[reason]))
