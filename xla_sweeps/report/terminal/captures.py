"""Text of what calls compile, and of what a compiler captures as graphs."""

from __future__ import annotations

from collections.abc import Iterator

from xla_sweeps.report.terminal.explained_lines import finding, missing, seconds, table
from xla_sweeps.schema.capture import Capture
from xla_sweeps.schema.explanation import Explanation, Place
from xla_sweeps.system.text import counted


def compilations_text(explanation: Explanation) -> Iterator[str]:
    """Programs that each call compiles, and their seconds."""
    if explanation.compilations is None:
        yield from missing(explanation, "compilations", "what each call compiles")
        return
    yield from table(
        ("programs", "trace", "lower", "compile", "call"),
        [
            (
                f"{row.programs:,}",
                *(seconds(number) for number in (row.trace_s, row.lower_s, row.compile_s)),
                row.call,
            )
            for row in explanation.compilations
        ],
    )


def captures_text(explanation: Explanation) -> Iterator[str]:
    """Graphs and operations that are captured, where graphs break, and what compiles again."""
    if explanation.captures is None:
        yield from missing(explanation, "captures", "what is captured as graphs")
    for capture in explanation.captures or ():
        yield from _capture(capture)


def _capture(capture: Capture) -> Iterator[str]:
    if capture.graphs is None:
        yield from finding(f"! {capture.way}: {capture.refusal}", _at(capture.place))
        return
    breaks = sum(each.times for each in capture.breaks)
    whole = capture.graphs == 1 and not breaks
    yield from finding(
        f"{'✓' if whole else '!'} {capture.way}: {counted(capture.graphs, 'graph')} with "
        f"{counted(capture.calls, 'operation')}, {counted(breaks, 'break')}"
    )
    for each in capture.breaks:
        yield from finding(f"! {counted(each.times, 'break')}: {each.reason}", _at(each.line))
    for name in capture.gave_up:
        yield from finding(
            f"! {name} reached the limit of {capture.limit} recompilations: it runs uncompiled"
        )
    again = [f"{graphs:,} for {call}" for call, graphs in capture.recompilations.items()]
    if again:
        yield from finding(f"further graphs: {', '.join(again)}")


def _at(line: str) -> tuple[Place, ...]:
    return (Place(op="", node="", line=line),) if line else ()
