"""Throughput, latency and memory by batch size, as a chart of bars and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_sweeps.analysis.batch_sizes import FLAT, Knee, Point, knees_of
from xla_sweeps.report.figures import NONE, interval, number, percent, size
from xla_sweeps.report.labels import join_words
from xla_sweeps.report.terminal.explained_lines import WIDTH, align, wrap
from xla_sweeps.schema.measurement import OUT_OF_MEMORY, Status

_LEAST = 4
"""Columns that the longest bar has at least."""


def sizes_text(points: Sequence[Point], *, title: str, unit: str) -> str:
    """A line for each mode and size with a bar of its throughput, and the knee of each mode."""
    most = max((point.throughput or 0.0 for point in points), default=0.0)
    order = list(dict.fromkeys(point.label for point in points))
    shown = sorted(points, key=lambda one: (order.index(one.label), one.batch_size))
    cells = [
        (
            point.label,
            f"{point.batch_size:,}",
            number(point.throughput),
            interval(point.low, point.high, number) if point.low else NONE,
            number(point.latency_ms),
            size(point.memory_bytes),
        )
        for point in shown
    ]
    head = ("mode", "batch", f"{unit}/s", "95 %", "p50 ms", "memory")
    lines = align([head, *cells], names=0)
    width = max(map(len, lines)) + 2
    longest = max(_LEAST, WIDTH - width)
    for place, point in enumerate(shown, start=1):
        rate = point.throughput
        bar = "█" * max(1, round(longest * (rate / most))) if rate else str(point.status)
        lines[place] = f"{lines[place]:<{width}}{bar}"
    said = [line for text in _sentences(points, unit) for line in wrap(text)]
    return "\n".join([title, "", *lines, "", *said]) + "\n"


def _sentences(points: Sequence[Point], unit: str) -> Iterator[str]:
    knees = {knee.label: knee for knee in knees_of(points)}
    for knee in knees.values():
        yield _reach(knee, unit)
    for label in dict.fromkeys(point.label for point in points):
        failed = [one for one in points if one.label == label and not one.throughput]
        if label not in knees and failed:
            why = "too little was measured" if failed[0].status is Status.OK else failed[0].status
            yield f"{label}: not measured ({why})."
        for one in failed if label in knees else ():
            if one.status not in (*OUT_OF_MEMORY, Status.OK):
                yield f"{label}: {one.status} at batch {one.batch_size:,}."


def _reach(knee: Knee, unit: str) -> str:
    most = f"{number(knee.most)} {unit}/s at batch {knee.most_at:,}"
    failed = "" if knee.failed_at is None else f" Out of memory at batch {knee.failed_at:,}."
    if knee.rises:
        return f"{knee.label}: still rises at the largest batch size, to {most}.{failed}"
    text = f"{knee.label}: within {percent(FLAT)} of its most ({most}) from batch "
    end = "on" if knee.until is None else f"to {knee.until:,}, and slower beyond"
    if knee.dips:
        end += f", but for batch {join_words([f'{size:,}' for size in knee.dips])}"
    early = f", perhaps from {knee.earliest:,}" if knee.earliest < knee.batch_size else ""
    return f"{text}{knee.batch_size:,} {end}{early}.{failed}"
