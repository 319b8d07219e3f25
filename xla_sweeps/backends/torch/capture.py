"""Graphs that `torch.compile` captures in this process, and the lines at which they break."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch._dynamo.utils import calculate_time_spent, counters, graph_break_reasons

from xla_sweeps.worker.lines import innermost_line

_LIMIT = re.compile(r"'(?P<name>[^']+)' \((?P<file>.+):(?P<line>\d+)\)")


def capture_counts() -> dict[str, Any]:
    """Graphs and calls that torch has captured in this process, graph breaks, and seconds."""
    spent_s = calculate_time_spent()
    compile_s = spent_s.get("backend_compile", 0.0)
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "calls_captured": counters["stats"]["calls_captured"],
        "graph_breaks": sum(counters["graph_break"].values()),
        "trace_s": spent_s.get("entire_frame_compile", 0.0) - compile_s,
        "compile_s": compile_s + spent_s.get("entire_backward_compile", 0.0),
    }


def breaks_after(earlier: int) -> list[tuple[str, str]]:
    """Reason and line of each graph break after so many earlier ones."""
    return [
        (
            first_line(each.reason),
            innermost_line(
                [(one.filename, one.lineno) for one in each.user_stack], frameworks=True
            ),
        )
        for each in graph_break_reasons[earlier:]
    ]


def first_line(text: str) -> str:
    """The first line of a reason."""
    return text.strip().partition("\n")[0]


@contextmanager
def limits_reached() -> Iterator[list[str]]:
    """Functions that reach the limit of recompilations meanwhile, from torch's own log."""
    reached, logger = list[str](), logging.getLogger("torch._dynamo.convert_frame")

    def note(record: logging.LogRecord) -> bool:
        given = record.args if isinstance(record.args, tuple) else ()
        is_limit = given[:1] == ("recompile_limit",) and len(given) > 2
        if is_limit and (match := _LIMIT.search(str(given[2]))):
            place = innermost_line([(match["file"], int(match["line"]))], frameworks=True)
            reached.append(f"{match['name']} ({place})" if place else match["name"])
        return True

    logger.addFilter(note)
    try:
        yield reached
    finally:
        logger.removeFilter(note)
