"""The speedups of comparison rows as a picture: sorted, with their intervals. Pure."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from xla_sweeps.report.figures import digits, interval, times
from xla_sweeps.report.row_cells import row_names
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.system.text import displayable

_COLOURS = {Verdict.FASTER: "#0072b2", Verdict.SLOWER: "#b34700", Verdict.EQUIVALENT: "#808790"}
"""Colours of clear verdicts, the page's."""

_LINE, _TOP, _PLOT, _LETTER = 20, 56, 400, 7
"""Heights of a line and of the title, widths of the plot and of a letter, in pixels."""


def speedup_chart(rows: Sequence[ComparisonRow]) -> str:
    """An SVG with a line for each row that has a speedup, the largest first; a logarithmic axis."""
    points = [(row.speedup.value, row) for row in rows if row.speedup.value]
    points.sort(key=lambda point: -point[0])
    rows = [row for _, row in points]
    names, devices = _names(rows), {row.trial.device for row in rows}
    left, bottom = 24 + _LETTER * max(map(len, names), default=0), _TOP + _LINE * len(rows)
    values = [1.0, *(value for value, _ in points)]
    low, high = min(values) / 1.3, max(values) * 1.3
    baselines = ", ".join(dict.fromkeys(row.baseline.mode for row in rows))
    title = f"Speedup over {baselines}, 95 % intervals (a ring: not clear)"
    title += " on ".join(["", *devices]) if len(devices) == 1 else ""
    parts = [_text(12, 24, title, "start", 14)]

    def place(value: float) -> float:  # wide intervals reach beyond the ends
        share = math.log(value / low) / math.log(high / low)
        return left + _PLOT * min(1.0, max(0.0, share))

    steps = (1, 2, 5) if high / low > 4 else (1, 1.2, 1.5, 2, 3, 5, 7, 8, 9)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    for tick in (step * 10.0**power for power in powers for step in steps):
        if low <= tick <= high:
            stroke = f'stroke="#59636e" stroke-width="{1.5 if tick == 1 else 0.5}"'
            parts.append(f'<path d="M{place(tick):.1f} {_TOP - 8}V{bottom}" {stroke}/>')
            parts.append(_text(place(tick), bottom + 18, f"{digits(tick, 3)}×", "middle"))
    for number, (value, row) in enumerate(points):
        y, speedup = _TOP + _LINE * (number + 0.5), row.speedup
        figures = "~" * (row.status is Status.CONTAMINATED) + times(value)
        colour = _COLOURS.get(speedup.verdict, "#ab9200")
        if speedup.low and speedup.high:
            figures += f" ({interval(speedup.low, speedup.high)})"
            line = f"M{place(speedup.low):.1f} {y}H{place(speedup.high):.1f}"
            parts.append(f'<path d="{line}" stroke="{colour}" stroke-width="2"/>')
        fill = f'fill="{colour if speedup.verdict.is_clear else "#ffffff"}" stroke="{colour}"'
        parts += [
            f'<circle cx="{place(value):.1f}" cy="{y}" r="4.5" {fill}/>',
            _text(left - 12, y + 4, names[number], "end"),
            _text(left + _PLOT + 12, y + 4, figures, "start"),
        ]
    width = max(left + _PLOT + 190, 24 + 8 * len(title))
    size = f'width="{width}" height="{bottom + 40}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    return "\n".join([head, f'<rect {size} fill="#ffffff"/>', *parts, "</svg>", ""])


def _names(rows: Sequence[ComparisonRow]) -> list[str]:
    """A row's model and size, with what is not as usual or not the same in all rows."""
    several = len({(row.candidate.mode, row.baseline.mode) for row in rows}) > 1
    names = row_names(rows, with_device=len({row.trial.device for row in rows}) > 1)
    for place, row in enumerate(rows):
        size, scenario = row.trial.resolution_px, row.trial.scenario
        facts = [f"{size} px"] if size else []
        facts += [f"batch {row.trial.batch_size}"]
        facts += [scenario] if scenario != Scenario.CALL else []
        facts += [f"{row.candidate.mode} over {row.baseline.mode}"] if several else []
        names[place] = ", ".join([names[place], *facts])
    return names


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="#1f2328">{html.escape(displayable(text))}</text>'
