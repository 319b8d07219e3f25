"""Write a report's text and tables in Markdown, with the page's questions in its order. Pure.

W&B's panels can neither sort nor show an interval, so all figures are computed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xla_sweeps.analysis.overview import (
    Overview,
    PodiumKey,
    answer,
    overview,
    podium,
    podium_figure,
)
from xla_sweeps.analysis.trust import Trust, trust
from xla_sweeps.report.advice import FLAG_TEXTS, SYMBOLS
from xla_sweeps.report.wandb_report.cells import (
    BARS_PER_DOUBLING,
    NONE,
    bar,
    calls,
    geomean,
    interval,
    number,
    percent,
    percent_of,
    times,
    who,
)
from xla_sweeps.report.wandb_report.markdown import escape, table
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow, value_of

VIEW_RUNS = 1000
"""Maximum number of runs that a W&B view shows."""

QUERY_TABLE_RUNS = 100
"""Maximum number of runs that a W&B query table shows."""

COMPARER_RUNS = 10
"""Maximum number of runs that the W&B run comparer shows."""

SORTED_ROWS = 100
PODIUM_ROWS = 10
PODIUM_DEVICES = 4
FAILURE_ROWS = 50
COSTLY_ROWS = 10

VERDICTS: dict[str, str] = {
    verdict: f"{SYMBOLS[verdict]} {verdict}" for verdict in Verdict if verdict is not Verdict.NONE
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
        key: the question's key on the page; determines the panels after the text.
        question: the heading.
        text: Markdown.
    """

    key: str
    question: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts beside the rows.

    Attributes:
        trials: number of trials in the results.
        unsent: number of those that are not known to be on the server.
        project_runs: number of trials among the project's runs; None if the server was not asked.
        table_rows: rows of the summary run's table.
        headline_rows: rows that the table would have without a limit.
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
        if row.provenance.origin == "measured"
        and (row.candidate.mode, row.baseline.mode) == ("xla", baseline)
    ]


def sections(rows: Sequence[ComparisonRow], facts: Facts) -> tuple[Section, ...]:
    """The questions with their answers.

    Args:
        rows: comparison rows of all trials.
        facts: facts beside the rows.
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
        ("trust", "Can I trust it?", _trust(pairs, trust(rows))),
        ("everything", "Everything", _everything(facts)),
    ]
    return tuple(Section(key=key, question=question, text=text) for key, question, text in made)


def limits(facts: Facts) -> str:
    """How many runs the project has, and how many of them W&B shows."""
    if facts.project_runs is None:
        count = (
            f"The results have {facts.trials:,} trials; the project's number of runs is unknown."
        )
    else:
        count = f"This project has {facts.project_runs:,} runs of trials."
    runs = facts.trials if facts.project_runs is None else facts.project_runs
    shown = (
        f"a view shows {VIEW_RUNS:,} of them, the first in its own order"
        if runs > VIEW_RUNS
        else "a view shows them all"
    )
    unsent = (
        f" {facts.unsent:,} of the results' {facts.trials:,} trials may be missing here; "
        "`xla-sweeps push` uploads them."
        if facts.unsent
        else ""
    )
    return (
        f"{count} W&B shows at most {VIEW_RUNS:,} runs in a view, {QUERY_TABLE_RUNS} in a query "
        f"table and {COMPARER_RUNS} in the run comparer: {shown}.{unsent} The tables of this "
        f"report are computed from all {facts.trials:,} trials, and the local page shows all."
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
            str(item.models),
            str(item.faster),
            str(item.slower),
            str(item.equivalent),
            str(item.ambiguous),
            str(item.failed),
            geomean(item),
            str(item.discoveries),
        ]
        for baseline, item in found.items()
        if item.pairs
    ]
    counts = table(
        [
            "XLA",
            "pairs",
            "models",
            *VERDICTS.values(),
            "geometric mean (95 %)",
            "differs at 5 % false discoveries",
        ],
        lines,
        right=range(1, 10),
    )
    if not lines:
        return "No pair with and without XLA was measured."
    return f"{answer(found['graph'])}\n\n{counts}\n\n{_sorted_pairs(pairs)}"


def _sorted_pairs(pairs: Sequence[ComparisonRow]) -> str:
    """All pairs by speedup, with interval and bar, which W&B's bar plots cannot show."""
    known = sorted(
        (row for row in pairs if row.speedup.value is not None),
        key=lambda row: -(row.speedup.value or 0.0),
    )
    if not known:
        return ""
    if len(known) > SORTED_ROWS:
        half = SORTED_ROWS // 2
        title = (
            f"The {half} highest and the {half} lowest of {len(known):,} pairs by speedup over "
            "graph mode"
        )
        shown = [*enumerate(known[:half], 1), *enumerate(known[-half:], len(known) - half + 1)]
    else:
        title, shown = (
            f"All {len(known):,} pairs by speedup over graph mode",
            list(enumerate(known, 1)),
        )
    cells = [
        [
            str(number),
            *who(row),
            times(row.speedup.value),
            interval(row.speedup.low, row.speedup.high),
            VERDICTS[row.speedup.verdict],
            bar(row.speedup.value or 1.0),
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
        f"{BARS_PER_DOUBLING} blocks: twice as fast",
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
            str(item.models),
            str(item.failed),
            times(item.geomean),
            interval(item.low, item.high),
            percent(item.share_slower),
        ]
        for item in families
    ]
    headings = ["family", "pairs", "models", "failed", "geometric mean", "95 %", "slower with XLA"]
    return (
        "Speedup of XLA over graph mode by model family; an interval needs three models.\n\n"
        f"{table(headings, cells, right=range(1, 7))}"
    )


def _fastest(pairs: Sequence[ComparisonRow]) -> str:
    devices = sorted({row.trial.device for row in pairs})
    parts = ["Rows whose intervals overlap share a rank; a row without an interval has none."]
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
        name, px, batch, _ = who(row)
        value, low, high = podium_figure(row, key)
        cells.append(
            [
                str(rank or "–"),
                name,
                px,
                batch,
                number(value),
                interval(low, high, number),
                VERDICTS[row.speedup.verdict],
            ]
        )
    headings = ["rank", "model", "px", "batch", unit, "95 %", "verdict"]
    return f"**{title}**\n\n{table(headings, cells, right=(0, 2, 3, 4, 5))}"


def _flops(pairs: Sequence[ComparisonRow]) -> str:
    counted = sum(row.trial.macs is not None for row in pairs)
    return (
        "Throughput over multiply-accumulates of one image, both logarithmic. If only arithmetic "
        f"mattered, the models would lie on one falling line. {counted:,} of {len(pairs):,} pairs "
        "have a count. The second run set contains MobileNets."
    )


def _cost(found: Overview, pairs: Sequence[ComparisonRow]) -> str:
    known = [row for row in pairs if row.speedup.compile_s_extra is not None]
    if not known:
        return "No pair has a compile time."
    median = found.median_break_even_calls
    extra_s = number(found.median_extra_compile_s)
    text = f"In the median, preparation takes {extra_s} s longer with XLA"
    text += (
        f" and pays back after {number(median)} calls. "
        if median is not None
        else ", and for at least half of the pairs it never pays back. "
    )
    text += (
        f"It never pays back for {found.never:,} of {found.priced:,} pairs; the panel omits those, "
        "and ambiguous pairs."
    )
    expensive = sorted(known, key=lambda row: -(row.speedup.compile_s_extra or 0.0))[:COSTLY_ROWS]
    cells = [
        [
            *who(row),
            number(row.speedup.compile_s_extra),
            calls(row),
            times(row.speedup.peak_memory_ratio),
        ]
        for row in expensive
    ]
    headings = [
        "model",
        "px",
        "batch",
        "device",
        "extra preparation, s",
        "calls to pay back",
        "peak memory",
    ]
    title = f"**The {len(expensive)} most expensive**"
    return f"{text}\n\n{title}\n\n{table(headings, cells, right=(1, 2, 4, 5, 6))}"


def _compare(pairs: Sequence[ComparisonRow]) -> str:
    parts = []
    for title, field in (
        ("device", "device"),
        ("resolution, px", "resolution_px"),
        ("batch", "batch_size"),
        ("precision", "precision"),
        ("source", "source"),
    ):
        values = sorted({value_of(row, field) for row in pairs})
        if len(values) < 2:
            continue
        cells = []
        for value in values:
            found = overview([row for row in pairs if value_of(row, field) == value])
            slower = found.slower / found.pairs if found.pairs else None
            cells.append(
                [
                    escape(value),
                    str(found.pairs),
                    str(found.models),
                    str(found.failed),
                    geomean(found),
                    percent(slower),
                ]
            )
        parts.append(
            table(
                [title, "pairs", "models", "failed", "geometric mean (95 %)", "slower"],
                cells,
                right=range(1, 6),
            )
        )
    return (
        "\n\n".join(parts)
        or "These results have one device, one resolution, one batch size and one precision."
    )


def _broke(pairs: Sequence[ComparisonRow]) -> str:
    failed = [row for row in pairs if row.speedup.verdict is Verdict.FAILED]
    if not failed:
        return "Nothing failed."
    counts = Counter((str(row.status), row.failure.mode) for row in failed)
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
            *who(row),
            escape(row.status),
            escape(row.failure.mode) or NONE,
            escape(row.failure.message, longest=160),
            escape(row.failure.hint, longest=160),
        ]
        for row in failed[:FAILURE_ROWS]
    ]
    cut = (
        f"\n\n{FAILURE_ROWS} of {len(failed):,} are listed; the page lists all."
        if len(failed) > FAILURE_ROWS
        else ""
    )
    headings = ["model", "px", "batch", "device", "status", "mode", "message", "what to do"]
    listed = table(headings, cells, right=(1, 2))
    return f"{len(failed):,} of {len(pairs):,} pairs failed.\n\n{summary}\n\n{listed}{cut}"


def _trust(pairs: Sequence[ComparisonRow], found: Trust | None) -> str:
    if not pairs:
        return "Nothing was measured."
    preliminary = sum(row.speedup.preliminary for row in pairs)
    contaminated = sum(row.status is Status.CONTAMINATED for row in pairs)
    alone = sum(row.speedup.value is not None and row.speedup.freedom is None for row in pairs)
    replicates = Counter(row.speedup.replicates for row in pairs)
    floors = {row.trial.device: row.speedup.floor for row in pairs}
    spread = [row.speedup.cv_percent for row in pairs if row.speedup.cv_percent is not None]
    between = [
        row.speedup.between_percent for row in pairs if row.speedup.between_percent is not None
    ]
    lines = [
        "Replicates of a pair: "
        + ", ".join(
            f"{number} ({count:,} {'pair' if count == 1 else 'pairs'})"
            for number, count in sorted(replicates.items())
        )
        + f". {preliminary:,} of {len(pairs):,} pairs have fewer than three and are preliminary; "
        f"the intervals of {alone:,} hold within one process, so these have no rank.",
        f"{contaminated:,} of {len(pairs):,} pairs are contaminated by other load on the machine.",
        "No A/A pair was measured." if found is None else _capitalized(str(found)),
        "Smaller differences do not count: "
        + ", ".join(f"{floor:.1%} on {escape(device)}" for device, floor in sorted(floors.items()))
        + ".",
        f"Median spread of blocks within a replicate: {percent_of(spread)}; "
        f"of replicates: {percent_of(between)}.",
    ]
    flags = Counter(flag.partition(":")[0] for row in pairs for flag in row.flags)
    if not flags:
        return "\n\n".join([*lines, "No pair is flagged."])
    cells = [
        [escape(flag), str(count), escape(FLAG_TEXTS.get(flag, ""), longest=300)]
        for flag, count in flags.most_common()
    ]
    return "\n\n".join([*lines, table(["flag", "pairs", "meaning"], cells, right=(1,))])


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]


def _everything(facts: Facts) -> str:
    cut = (
        f" The table has the first {facts.table_rows:,} of {facts.headline_rows:,} rows, the file "
        "has all."
        if facts.table_rows < facts.headline_rows
        else ""
    )
    return (
        f"{limits(facts)}\n\nThe grids below group the same runs by family, variant, accelerator "
        "and whether XLA is on. Their bars are arithmetic means of the runs that W&B shows, "
        "without intervals: cite the tables above. The summary run has the comparison table and, "
        f"as artifacts, its Parquet file and the local page.{cut}"
    )
