"""A report in words and tables: the page's questions in the page's order, as Markdown. Pure.

W&B's panels can neither sort nor show an interval, so every figure that answers a question is
computed here.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.analysis.overview import (
    Overview,
    PodiumKey,
    answer,
    overview,
    podium,
    podium_figure,
)
from xla_sweeps.report.advice import FLAG_TEXTS
from xla_sweeps.report.wandb_report.markdown import escape, table
from xla_sweeps.schema.row import ComparisonRow, Verdict

VIEW_RUNS = 1000
"""Runs that a W&B view shows at most.

Its query tables show `QUERY_TABLE_RUNS`, its run comparer `COMPARER_RUNS`.
"""

QUERY_TABLE_RUNS = 100

COMPARER_RUNS = 10

SORTED_ROWS = 100

PODIUM_ROWS = 10

PODIUM_DEVICES = 4

FAILURE_ROWS = 50

COSTLY_ROWS = 10

BAR_CELLS = 12

BARS_PER_DOUBLING = 4

NONE = "—"

VERDICTS = {
    Verdict.FASTER: "▲ faster",
    Verdict.SLOWER: "▼ slower",
    Verdict.EQUIVALENT: "■ same",
    Verdict.AMBIGUOUS: "◆ unsure",
    Verdict.FAILED: "✕ failed",
}

BASELINES = {"graph": "graph mode", "eager": "eager execution"}

PODIUMS: dict[PodiumKey, tuple[str, str]] = {
    "throughput": ("Throughput with XLA", "images/s"),
    "absolute_speedup": ("Throughput gained", "images/s more than graph mode"),
    "speedup_percent": ("Speedup", "% over graph mode"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One question of the report.

    Attributes:
        key: the page's name for it; decides which panels follow the text.
        question: the heading.
        text: Markdown.
    """

    key: str
    question: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known beside the rows.

    Attributes:
        trials: trials in the results.
        unsent: those of them that are not known to be on the server.
        project_runs: runs of trials in the project; None where nobody asked the server.
        table_rows: rows of the summary run's table.
        headline_rows: rows that it would have without a limit.
    """

    trials: int
    unsent: int
    project_runs: int | None
    table_rows: int
    headline_rows: int


def headline_pairs(rows: Iterable[ComparisonRow], baseline: str = "graph") -> list[ComparisonRow]:
    """The measured comparisons of XLA with that baseline."""
    return [
        row
        for row in rows
        if row.origin == "measured" and (row.candidate, row.baseline) == ("xla", baseline)
    ]


def sections(rows: Sequence[ComparisonRow], facts: Facts) -> tuple[Section, ...]:
    """The questions with their answers.

    Args:
        rows: of every trial, candidate and baseline.
        facts: what is known beside them.
    """
    pairs = headline_pairs(rows)
    found = overview(pairs)
    made: list[tuple[str, str, str]] = [
        ("answer", "Should I turn XLA on?", _answer(rows, pairs, found)),
        ("where", "Where does it help?", _where(found)),
        ("fastest", "Which model is fastest?", _fastest(pairs)),
        ("flops", "Is it just FLOPs?", _flops(pairs)),
        ("cost", "What does XLA cost, and when does it pay back?", _cost(found, pairs)),
        ("compare", "How do devices, resolutions and batches compare?", _compare(pairs)),
        ("broke", "What broke?", _broke(pairs)),
        ("trust", "Can I trust it?", _trust(pairs)),
        ("everything", "Everything", _everything(facts)),
    ]
    return tuple(Section(key=key, question=question, text=text) for key, question, text in made)


def limits(facts: Facts) -> str:
    """How many runs the project has, and how many of them W&B shows."""
    if facts.project_runs is None:
        count = f"The results have {facts.trials:,} trials; how many runs the project has was not asked."
    else:
        count = f"This project has {facts.project_runs:,} runs of trials."
    runs = facts.trials if facts.project_runs is None else facts.project_runs
    shown = (
        f"a view shows {VIEW_RUNS:,} of them, the first in its own order"
        if runs > VIEW_RUNS
        else "a view shows them all"
    )
    unsent = (
        f" {facts.unsent:,} of the results' {facts.trials:,} trials are not known to be here; `xla-sweeps push` sends "
        "them."
        if facts.unsent
        else ""
    )
    return (
        f"{count} W&B shows at most {VIEW_RUNS:,} runs in a view, {QUERY_TABLE_RUNS} in a query table and "
        f"{COMPARER_RUNS} in the run comparer: {shown}.{unsent} The tables of this report are computed from all "
        f"{facts.trials:,} trials, and the local page shows all."
    )


def _answer(
    rows: Sequence[ComparisonRow], pairs: Sequence[ComparisonRow], against_graph: Overview
) -> str:
    found = {
        "graph": against_graph,
        "eager": overview(headline_pairs(rows, "eager"), baseline="eager"),
    }
    lines = [
        [
            f"against {BASELINES[baseline]}",
            str(item.pairs),
            str(item.faster),
            str(item.slower),
            str(item.equivalent),
            str(item.ambiguous),
            str(item.failed),
            _geomean(item),
            str(item.discoveries),
        ]
        for baseline, item in found.items()
        if item.pairs
    ]
    counts = table(
        [
            "XLA",
            "pairs",
            *VERDICTS.values(),
            "geometric mean (95 %)",
            "sure at 5 % false discoveries",
        ],
        lines,
        right=range(1, 9),
    )
    if not lines:
        return "No pair with and without XLA was measured."
    return f"{answer(found['graph'])}\n\n{counts}\n\n{_sorted_pairs(pairs)}"


def _sorted_pairs(pairs: Sequence[ComparisonRow]) -> str:
    """All pairs by speedup, with interval and bar: the plot that W&B's own bars cannot be."""
    known = sorted(
        (row for row in pairs if row.speedup is not None), key=lambda row: -(row.speedup or 0.0)
    )
    if not known:
        return ""
    if len(known) > SORTED_ROWS:
        half = SORTED_ROWS // 2
        title = f"The {half} highest and the {half} lowest of {len(known):,} pairs by speedup over graph mode"
        shown = [*enumerate(known[:half], 1), *enumerate(known[-half:], len(known) - half + 1)]
    else:
        title, shown = (
            f"All {len(known):,} pairs by speedup over graph mode",
            list(enumerate(known, 1)),
        )
    cells = [
        [
            str(number),
            *_who(row),
            _times(row.speedup),
            _interval(row.speedup_low, row.speedup_high),
            VERDICTS[row.verdict],
            _bar(row.speedup or 1.0),
        ]
        for number, row in shown
    ]
    headings = [
        "#",
        "model",
        "px",
        "batch",
        "device",
        "speedup",
        "95 %",
        "verdict",
        f"{BARS_PER_DOUBLING} cells: twice as fast",
    ]
    return f"**{title}**\n\n{table(headings, cells, right=(0, 2, 3, 5, 6))}"


def _where(found: Overview) -> str:
    if not found.families:
        return "No family was measured."
    families = sorted(found.families, key=lambda item: -(item.geomean or 0.0))
    cells = [
        [
            escape(item.family),
            str(item.n),
            str(item.failed),
            _times(item.geomean),
            _interval(item.low, item.high),
            _percent(item.share_slower),
        ]
        for item in families
    ]
    headings = ["family", "pairs", "failed", "geometric mean", "95 %", "slower with XLA"]
    return (
        "Speedup of XLA over graph mode by family of models; an interval needs three pairs.\n\n"
        f"{table(headings, cells, right=range(1, 6))}"
    )


def _fastest(pairs: Sequence[ComparisonRow]) -> str:
    devices = sorted({row.device for row in pairs})
    parts = ["Rows whose intervals overlap share a rank; one without an interval has none."]
    for device in devices[:PODIUM_DEVICES]:
        parts.append(f"### {escape(device)}")
        parts += [_podium(pairs, key, device) for key in PODIUMS]
    if len(devices) > PODIUM_DEVICES:
        parts.append(
            f"{PODIUM_DEVICES} of {len(devices)} devices are shown here; the page has all."
        )
    return "\n\n".join(parts)


def _podium(rows: Sequence[ComparisonRow], key: PodiumKey, device: str) -> str:
    title, unit = PODIUMS[key]
    cells = []
    for rank, row in podium(rows, key, device=device, limit=PODIUM_ROWS):
        name, px, batch, _ = _who(row)
        value, low, high = podium_figure(row, key)
        cells.append(
            [
                str(rank or "–"),
                name,
                px,
                batch,
                _number(value),
                _interval(low, high, _number),
                VERDICTS[row.verdict],
            ]
        )
    headings = ["rank", "model", "px", "batch", unit, "95 %", "verdict"]
    return f"**{title}**\n\n{table(headings, cells, right=(0, 2, 3, 4, 5))}"


def _flops(pairs: Sequence[ComparisonRow]) -> str:
    counted = sum(row.macs is not None for row in pairs)
    return (
        "Throughput over multiply-accumulates of one image, both logarithmic; models on one falling line would need "
        f"their arithmetic only. {counted:,} of {len(pairs):,} pairs have a count. The second run set has MobileNets."
    )


def _cost(found: Overview, pairs: Sequence[ComparisonRow]) -> str:
    known = [row for row in pairs if row.compile_s_extra is not None]
    if not known:
        return "No pair has a compile time."
    median = found.median_break_even_calls
    text = f"In the median, getting ready takes {_number(found.median_extra_compile_s)} s longer with XLA"
    text += (
        f" and is paid back after {_number(median)} calls. "
        if median is not None
        else ", and half of the pairs or more never pay that back. "
    )
    priced = sum(row.speedup is not None for row in known)
    text += f"{found.never:,} of {priced:,} pairs never do; the panel cannot draw those."
    dearest = sorted(known, key=lambda row: -(row.compile_s_extra or 0.0))[:COSTLY_ROWS]
    cells = [
        [*_who(row), _number(row.compile_s_extra), _calls(row), _ratio(row.peak_memory_ratio)]
        for row in dearest
    ]
    headings = [
        "model",
        "px",
        "batch",
        "device",
        "extra s to get ready",
        "calls to pay back",
        "peak memory",
    ]
    return f"{text}\n\n**The {len(dearest)} dearest**\n\n{table(headings, cells, right=(1, 2, 4, 5, 6))}"


def _compare(pairs: Sequence[ComparisonRow]) -> str:
    parts = []
    for title, field in (
        ("device", "device"),
        ("resolution, px", "resolution_px"),
        ("batch", "batch_size"),
        ("precision", "precision"),
        ("source", "source"),
    ):
        values = sorted({getattr(row, field) for row in pairs})
        if len(values) < 2:
            continue
        cells = []
        for value in values:
            found = overview([row for row in pairs if getattr(row, field) == value])
            slower = found.slower / found.pairs if found.pairs else None
            cells.append(
                [
                    escape(value),
                    str(found.pairs),
                    str(found.failed),
                    _geomean(found),
                    _percent(slower),
                ]
            )
        parts.append(
            table(
                [title, "pairs", "failed", "geometric mean (95 %)", "slower"],
                cells,
                right=range(1, 5),
            )
        )
    return (
        "\n\n".join(parts)
        or "These results have one device, one resolution, one batch size and one precision."
    )


def _broke(pairs: Sequence[ComparisonRow]) -> str:
    failed = [row for row in pairs if row.verdict is Verdict.FAILED]
    if not failed:
        return "Nothing failed."
    counts = Counter((str(row.status), row.failed_mode) for row in failed)
    summary = table(
        ["status", "mode", "pairs"],
        [
            [escape(status), escape(mode) or NONE, str(count)]
            for (status, mode), count in counts.most_common()
        ],
        right=(2,),
    )
    cells = [
        [
            *_who(row),
            escape(row.status),
            escape(row.failed_mode) or NONE,
            escape(row.failure_message, longest=160),
            escape(row.failure_hint, longest=160),
        ]
        for row in failed[:FAILURE_ROWS]
    ]
    cut = (
        f"\n\n{FAILURE_ROWS} of {len(failed):,} are listed; the page has all."
        if len(failed) > FAILURE_ROWS
        else ""
    )
    headings = ["model", "px", "batch", "device", "status", "mode", "message", "what to do"]
    return f"{len(failed):,} of {len(pairs):,} pairs failed.\n\n{summary}\n\n{table(headings, cells, right=(1, 2))}{cut}"


def _trust(pairs: Sequence[ComparisonRow]) -> str:
    if not pairs:
        return "Nothing was measured."
    preliminary = sum(row.preliminary for row in pairs)
    replicates = Counter(row.replicates for row in pairs)
    floors = {row.device: row.floor for row in pairs}
    spread = [row.cv_percent for row in pairs if row.cv_percent is not None]
    between = [row.between_percent for row in pairs if row.between_percent is not None]
    lines = [
        "Processes behind a pair, and how often: "
        + ", ".join(f"{number} ({count:,}×)" for number, count in sorted(replicates.items()))
        + f". {preliminary:,} of {len(pairs):,} pairs have fewer than three and are preliminary.",
        "The smallest difference that is called one: "
        + ", ".join(f"{floor:.1%} on {escape(device)}" for device, floor in sorted(floors.items()))
        + ".",
        f"Median spread of blocks within a process: {_percent_of(spread)}; of processes: {_percent_of(between)}.",
    ]
    flags = Counter(flag.partition(":")[0] for row in pairs for flag in row.flags)
    if not flags:
        return "\n\n".join([*lines, "No pair is flagged."])
    cells = [
        [escape(flag), str(count), escape(FLAG_TEXTS.get(flag, ""), longest=300)]
        for flag, count in flags.most_common()
    ]
    return "\n\n".join([*lines, table(["flag", "pairs", "meaning"], cells, right=(1,))])


def _everything(facts: Facts) -> str:
    cut = (
        f" The table has the first {facts.table_rows:,} of {facts.headline_rows:,} rows, the file all."
        if facts.table_rows < facts.headline_rows
        else ""
    )
    return (
        f"{limits(facts)}\n\nThe grids below group the same runs by family, variant, accelerator and whether XLA is "
        "on. Their bars are arithmetic means of the runs that W&B shows, without intervals: cite the tables above. The "
        f"summary run has the comparison table and, as artifacts, its Parquet file and the local page.{cut}"
    )


def _who(row: ComparisonRow) -> list[str]:
    return [escape(row.model), str(row.resolution_px), str(row.batch_size), escape(row.device)]


def _bar(speedup: float) -> str:
    cells = min(BAR_CELLS, round(BARS_PER_DOUBLING * abs(math.log2(speedup))))
    return f"{'▲' if speedup >= 1 else '▼'} {'█' * cells}" if cells else "·"


def _geomean(found: Overview) -> str:
    if found.geomean is None:
        return NONE
    return f"{_times(found.geomean)} ({_interval(found.geomean_low, found.geomean_high)})"


def _times(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}×"


def _interval(
    low: float | None, high: float | None, show: Callable[[float | None], str] | None = None
) -> str:
    if low is None or high is None:
        return NONE
    first, last = (show(low), show(high)) if show else (f"{low:.2f}", f"{high:.2f}")
    return f"{first} to {last}" if low < 0 else f"{first}–{last}"


def _number(value: float | None) -> str:
    """Three digits or all before the point."""
    if value is None or not math.isfinite(value):
        return NONE
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _calls(row: ComparisonRow) -> str:
    return "never" if row.break_even_calls is None else _number(row.break_even_calls)


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}×"


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.0%}"


def _percent_of(values: Sequence[Any]) -> str:
    return f"{statistics.median(values):.1f} %" if values else NONE
