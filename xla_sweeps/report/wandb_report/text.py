"""Write a report's text in Markdown: the answer, sorted pairs, families, podiums, devices. Pure.

W&B's panels can neither sort nor show an interval, so these figures are computed here. The local
page has everything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from xla_sweeps.analysis.overview import (
    answers,
    by_scenario,
    geometric_mean,
    overview,
)
from xla_sweeps.analysis.podium import PodiumKey, podium, podium_figure
from xla_sweeps.report.advice import (
    CONTAMINATED,
    PRELIMINARY,
    SYMBOLS,
    marks,
    overall_answer,
    overall_counts,
    typically,
)
from xla_sweeps.report.figures import NONE, interval, number, times
from xla_sweeps.report.labels import distinctions
from xla_sweeps.report.wandb_report.markdown import escape, table
from xla_sweeps.report.wandb_report.settings import Setting, by_setting, commonest
from xla_sweeps.schema.columns import MEASURED
from xla_sweeps.schema.measurement import UNFINISHED, Status
from xla_sweeps.schema.modes import Scenario, headline_of, mode_of
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.system.text import counted

VIEW_RUNS = 1000
"""Maximum number of runs that a W&B view shows."""

SORTED_ROWS = 100
PODIUM_ROWS = 10
SETTING_ROWS = 100
DEVICES = 4
BAR_CELLS = 12
BARS_PER_DOUBLING = 4

WORDS = (
    "XLA compiles the operations of a model into fewer, larger kernels. *Graph mode* is "
    "`tf.function` without XLA. A *pair* is one model at one size and batch on one device, "
    "measured with XLA (`{candidate}`: `{on}`) and without (`{baseline}`: `{off}`). Measure your "
    "own model: `python -m xla_sweeps model=NAME{scenario}`."
)

FLOPS = (
    "Images/s and speedup over the multiply-accumulates of one image. If only arithmetic mattered, "
    "the models would lie on one falling line."
)

COST = (
    "The local page lists the compile time, memory and calls to pay back of each pair. The panel "
    "omits pairs that never pay back or are ambiguous."
)

PAGE = (
    "The local page (`dashboard.html` among the summary run's artifacts, or `xla-sweeps "
    "dashboard`) has every row and interval, what XLA costs, what failed and why, how far to trust "
    "the figures, and figures that others published."
)

PANELS = (
    "The panels show the runs that W&B shows, without intervals: cite the tables. Their bars are "
    "of `speedup_log2`: 0 is no change, 1 is twice as fast, -1 half as fast, and the mean of such "
    "bars is the geometric mean."
)

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
        scenario: the scenario of the answer; "" for all.
    """

    key: str
    question: str
    text: str
    scenario: str = ""


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


def scenarios(rows: Iterable[ComparisonRow]) -> dict[str, list[ComparisonRow]]:
    """The measured rows of each scenario, the commonest first; no rows of `call` without any."""
    measured = by_scenario(row for row in rows if row.provenance.origin == MEASURED)
    return measured or {str(Scenario.CALL): []}


def headline_pairs(rows: Sequence[ComparisonRow]) -> list[ComparisonRow]:
    """The measured comparisons of XLA with graph mode, in the commonest scenario."""
    scenario, measured = next(iter(scenarios(rows).items()))
    headline = headline_of(scenario)
    return [row for row in measured if (row.baseline.mode, row.candidate.mode) == headline]


def sections(rows: Sequence[ComparisonRow], facts: Facts) -> tuple[Section, ...]:
    """The questions with their answers.

    Args:
        rows: comparison rows of all trials.
        facts: facts beside the rows.
    """
    groups = scenarios(answers(rows))
    made: list[Section] = []
    for scenario, group in groups.items():
        suffix = f" ({scenario})" if len(groups) > 1 or scenario != Scenario.CALL else ""
        pairs = headline_pairs(group)
        made += [
            Section(key=key, question=f"{question}{suffix}", text=text, scenario=scenario)
            for key, question, text in (
                ("answer", "Should I turn XLA on?", _answer(scenario, pairs)),
                ("where", "Where does it help?", _by_device(pairs, _families)),
                ("fastest", "Which model is fastest?", _by_device(pairs, _podiums)),
                ("flops", "Is it just FLOPs?", FLOPS),
                ("cost", "What does XLA cost, and when does it pay back?", COST),
                ("compare", "How do devices, resolutions and batches compare?", _settings(pairs)),
            )
        ]
    return (*made, Section(key="everything", question="Everything", text=_everything(facts)))


def environment(rows: Sequence[ComparisonRow], facts: Facts) -> str:
    """A table of devices, software, dates and the number of trials."""
    measured = [row for row in rows if row.provenance.origin == MEASURED]
    days = sorted({row.provenance.measured_at[:10] for row in measured} - {""})
    values = {
        "software": {row.provenance.software for row in measured},
        "driver": {row.provenance.driver for row in measured},
        "devices": {row.trial.device for row in measured},
        "variables that change it": {row.provenance.environment_flags for row in measured},
    }
    cells = [[name, escape("; ".join(sorted(texts - {""})))] for name, texts in values.items()]
    cells += [["measured", " to ".join(dict.fromkeys((days[0], days[-1])))]] if days else []
    cells += [["trials", f"{facts.trials:,}"]]
    unfinished = sum(row.status in UNFINISHED for row in measured)
    cells += [["left out", f"{counted(unfinished, 'comparison')} that did not finish"]][:unfinished]
    return table(["what", "of these results"], [cell for cell in cells if cell[1]])


def limits(facts: Facts) -> str:
    """The number of runs in the project, and how many of them W&B shows."""
    if facts.project_runs is None:
        runs = facts.trials
        text = f"The results have {runs:,} trials; the project's number of runs is unknown."
    else:
        runs = facts.project_runs
        text = f"This project has {runs:,} runs of trials."
    if runs > VIEW_RUNS:
        text += f" A W&B view shows {VIEW_RUNS:,} of them, the first in its own order."
    if facts.unsent:
        text += (
            f" {facts.unsent:,} of the results' {facts.trials:,} trials may be missing here; "
            "`xla-sweeps push` uploads them."
        )
    return f"{text} The tables of this report are computed from all {facts.trials:,} trials."


def _answer(scenario: str, pairs: Sequence[ComparisonRow]) -> str:
    if not pairs:
        return "No pair with and without XLA was measured."
    baseline, candidate = headline_of(scenario)
    words = WORDS.format(
        candidate=candidate,
        on=mode_of(candidate).switch,
        baseline=baseline,
        off=mode_of(baseline).switch,
        scenario="" if scenario == Scenario.CALL else f" scenario={scenario}",
    )
    return "\n\n".join(filter(None, [_headline(pairs), words, _sorted_pairs(pairs)]))


def _headline(pairs: Sequence[ComparisonRow]) -> str:
    """The page's answer; with several settings, one mean for each device."""
    if len(by_setting(pairs)) < 2:
        return overall_answer(overview(pairs))
    means = [
        f"- {escape(setting)}: {typically(overview(rows)) or NONE}"
        for setting, rows in commonest(pairs).items()
    ]
    return "\n".join([overall_counts(overview(pairs)), "", *means])


def _sorted_pairs(pairs: Sequence[ComparisonRow]) -> str:
    """All pairs by speedup, with interval and bar; the middle of a long list is left out."""
    ranked = sorted(
        (row for row in pairs if row.speedup.value is not None),
        key=lambda row: -(row.speedup.value or 0.0),
    )
    if not ranked:
        return ""
    title, shown = f"All {len(ranked):,} pairs", list(enumerate(ranked, 1))
    if len(ranked) > SORTED_ROWS:
        half = SORTED_ROWS // 2
        title = f"The {half} highest and the {half} lowest of {len(ranked):,} pairs"
        shown = shown[:half] + shown[-half:]
    names = _names([row for _, row in shown], "resolution_px", "batch_size", "device")
    cells = [
        [
            str(place),
            name,
            str(row.trial.resolution_px),
            str(row.trial.batch_size),
            escape(row.trial.device),
            times(row.speedup.value) + escape(_marks(row)),
            interval(row.speedup.low, row.speedup.high),
            _verdict(row),
            _bar(row.speedup.value or 1.0),
        ]
        for (place, row), name in zip(shown, names, strict=True)
    ]
    headings = ["#", "model", "px", "batch", "device", "speedup", "95 %", "verdict"]
    headings.append(f"{BARS_PER_DOUBLING} blocks: twice as fast")
    marked = "".join(_marks(row) for _, row in shown)
    notes = [escape(note) for note in (PRELIMINARY, CONTAMINATED) if note[0] in marked]
    listed = table(headings, cells, right=(0, 2, 3, 5, 6))
    return "\n\n".join([f"**{title} by speedup over graph mode**", listed, *notes])


def _by_device(pairs: Sequence[ComparisonRow], write: Callable[[list[ComparisonRow]], str]) -> str:
    """Tables of each device's commonest setting: no mean and no ranking mixes settings."""
    settings = commonest(pairs)
    parts = [
        f"### {escape(setting)}\n\n{write(rows)}"
        for setting, rows in islice(settings.items(), DEVICES)
    ]
    if len(settings) > DEVICES:
        parts.append(f"{DEVICES} of {len(settings)} devices are shown here; the page has all.")
    return "\n\n".join(parts) or "Nothing was compared yet."


def _families(rows: Sequence[ComparisonRow]) -> str:
    cells = [
        [
            escape(family.family),
            str(family.n),
            str(family.models),
            str(family.failed),
            times(family.geomean),
            f"{family.share_slower:.0%}",
        ]
        for family in sorted(overview(rows).families, key=lambda family: -(family.geomean or 0.0))
    ]
    headings = ["family", "pairs", "models", "failed", "geometric mean", "slower with XLA"]
    return table(headings, cells, right=range(1, 6))


def _podiums(rows: Sequence[ComparisonRow]) -> str:
    note = "Rows whose intervals overlap share a rank; a row without an interval has none."
    return "\n\n".join([note, *(_podium(rows, key) for key in PODIUMS)])


def _podium(rows: Sequence[ComparisonRow], key: PodiumKey) -> str:
    title, unit = PODIUMS[key]
    ranked = podium(rows, key, limit=PODIUM_ROWS)
    cells = []
    for (rank, row), name in zip(ranked, _names([row for _, row in ranked]), strict=True):
        value, low, high = podium_figure(row, key)
        cells.append(
            [str(rank or "–"), name, number(value), interval(low, high, number), _verdict(row)]
        )
    headings = ["rank", "model", unit, "95 %", "verdict"]
    return f"**{title}**\n\n{table(headings, cells, right=(0, 2, 3))}"


def _settings(pairs: Sequence[ComparisonRow]) -> str:
    """Every device, size and batch, and the mean over the models that all of them have."""
    settings = by_setting(pairs)
    if len(settings) < 2:
        return "These results have one device, one resolution, one batch size and one precision."
    shared = set.intersection(
        *(
            {row.trial.model for row in rows if row.speedup.value is not None}
            for rows in settings.values()
        )
    )
    text = (
        "The last column is the geometric mean over the models that were measured in every row "
        f"({counted(len(shared), 'model')}): compare rows by that one."
        if shared
        else "No model was measured in every row: the rows are of different models, so their means "
        "do not compare."
    )
    cells = [_setting_cells(setting, rows, shared) for setting, rows in settings.items()]
    headings = ["device", "px", "batch", "other", "pairs", "models", "failed"]
    headings += ["geometric mean", "slower", "same models"]
    listed = table(headings, cells[:SETTING_ROWS], right=(1, 2, 4, 5, 6, 7, 8, 9))
    if len(cells) > SETTING_ROWS:
        text += f" {SETTING_ROWS} of {len(cells):,} rows are shown."
    return f"{text}\n\n{listed}"


def _setting_cells(setting: Setting, rows: Sequence[ComparisonRow], shared: set[str]) -> list[str]:
    summary = overview(rows)
    speedups = [
        (row.speedup.value, row.trial.model)
        for row in rows
        if row.trial.model in shared and row.speedup.value is not None
    ]
    mean, _ = geometric_mean([value for value, _ in speedups], [model for _, model in speedups])
    return [
        escape(setting.device),
        str(setting.resolution_px),
        str(setting.batch_size),
        escape(setting.other),
        str(summary.pairs),
        str(summary.models),
        str(summary.failed),
        times(summary.geomean),
        f"{summary.slower / summary.pairs:.0%}" if summary.pairs else NONE,
        times(mean),
    ]


def _everything(facts: Facts) -> str:
    parts = [PAGE, limits(facts), PANELS]
    if facts.table_rows < facts.headline_rows:
        parts.append(
            f"The table has the first {facts.table_rows:,} of {facts.headline_rows:,} rows, the "
            "Parquet file among the artifacts has all."
        )
    return "\n\n".join(parts)


def _names(rows: Sequence[ComparisonRow], *shown: str) -> list[str]:
    """Each row's model, followed by facts that distinguish rows with the same columns `shown`."""
    return [
        escape(" · ".join(filter(None, (row.trial.model, facts))))
        for row, facts in zip(rows, distinctions(rows, ("model", *shown)), strict=True)
    ]


def _marks(row: ComparisonRow) -> str:
    contaminated = row.status is Status.CONTAMINATED
    return marks(preliminary=row.speedup.preliminary, contaminated=contaminated)


def _verdict(row: ComparisonRow) -> str:
    return f"{SYMBOLS[row.speedup.verdict]} {row.speedup.verdict}"


def _bar(speedup: float) -> str:
    """A bar of the speedup's logarithm."""
    cells = min(BAR_CELLS, round(BARS_PER_DOUBLING * abs(math.log2(speedup))))
    return f"{'▲' if speedup >= 1 else '▼'} {'█' * cells}" if cells else "·"
