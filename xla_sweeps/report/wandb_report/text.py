"""Write a report's text and tables in Markdown, with the page's questions in its order. Pure.

W&B's panels can neither sort nor show an interval, so all figures are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xla_sweeps.analysis.overview import Overview, answer, overview
from xla_sweeps.analysis.trust import trust
from xla_sweeps.report.wandb_report import caveats, comparing
from xla_sweeps.report.wandb_report.cells import (
    BARS_PER_DOUBLING,
    VERDICTS,
    bar,
    geomean,
    interval,
    times,
    who,
)
from xla_sweeps.report.wandb_report.markdown import table
from xla_sweeps.schema.row import ComparisonRow

VIEW_RUNS = 1000
"""Maximum number of runs that a W&B view shows."""

QUERY_TABLE_RUNS = 100
"""Maximum number of runs that a W&B query table shows."""

COMPARER_RUNS = 10
"""Maximum number of runs that the W&B run comparer shows."""

SORTED_ROWS = 100

BASELINES = {"graph": "graph mode", "eager": "eager execution"}


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
        ("where", "Where does it help?", comparing.where(found)),
        ("fastest", "Which model is fastest?", comparing.fastest(pairs)),
        ("flops", "Is it just FLOPs?", comparing.flops(pairs)),
        ("cost", "What does XLA cost, and when does it pay back?", caveats.cost(found, pairs)),
        ("compare", "How do devices, resolutions and batches compare?", comparing.compare(pairs)),
        ("broke", "What broke?", caveats.broke(pairs)),
        ("trust", "Can I trust it?", caveats.trust(pairs, trust(rows))),
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
