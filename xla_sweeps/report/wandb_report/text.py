"""Write a report's text and tables in Markdown, with the page's questions in its order. Pure.

W&B's panels can neither sort nor show an interval, so all figures are computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from xla_sweeps.analysis.overview import (
    answer,
    answers,
    by_scenario,
    counts,
    overview,
    typical,
)
from xla_sweeps.analysis.trust import trust
from xla_sweeps.report.advice import CONTAMINATED, NAMES, PRELIMINARY, SWITCH
from xla_sweeps.report.wandb_report import caveats, comparing, findings
from xla_sweeps.report.wandb_report.cells import (
    BARS_PER_DOUBLING,
    NONE,
    VERDICTS,
    bar,
    interval,
    names,
    speedup,
    times,
    who,
)
from xla_sweeps.report.wandb_report.markdown import escape, table
from xla_sweeps.report.wandb_report.settings import by_setting, commonest
from xla_sweeps.schema.columns import MEASURED
from xla_sweeps.schema.measurement import UNFINISHED
from xla_sweeps.schema.modes import Scenario, headline_of, mode_of
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.system.text import counted

VIEW_RUNS = 1000
"""Maximum number of runs that a W&B view shows."""

QUERY_TABLE_RUNS = 100
"""Maximum number of runs that a W&B query table shows."""

COMPARER_RUNS = 10
"""Maximum number of runs that the W&B run comparer shows."""

SORTED_ROWS = 100

WORDS = (
    "XLA compiles the operations of a model into fewer, larger kernels. *Graph mode* is "
    "`tf.function` without XLA, *eager execution* runs without `tf.function`. A *pair* is one "
    "model at one size and batch on one device, measured with XLA and without."
)

KERAS_WORDS = " Here XLA is {candidate} (`{switch}`), and graph mode is {baseline} (`{keep}`)."

HOW = """**Turn XLA on** for a model that gains, and measure your own:

```python
{switch}
```

```sh
python -m xla_sweeps model=NAME{scenario}
```"""

_KERAS = "model.compile(jit_compile=True)"

SWITCHES: Mapping[str, str] = {
    Scenario.PREDICT: _KERAS,
    Scenario.FIT: _KERAS,
    Scenario.TRAIN_STEP: "train_step = tf.function(train_step, jit_compile=True)",
}
"""How XLA is turned on, where that is not for the forward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One question of the report.

    Attributes:
        key: the question's key on the page; determines the panels after the text.
        question: the heading.
        text: Markdown.
        scenario: that it is about; "" where it is about all.
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


def headline_pairs(rows: Sequence[ComparisonRow], baseline: str = "") -> list[ComparisonRow]:
    """The measured comparisons of XLA, in the commonest scenario.

    Args:
        rows: of any scenarios.
        baseline: "" for what the scenario is about.
    """
    scenario, measured = next(iter(scenarios(rows).items()))
    usual, candidate = headline_of(scenario)
    return [
        row
        for row in measured
        if (row.candidate.mode, row.baseline.mode) == (candidate, baseline or usual)
    ]


def sections(rows: Sequence[ComparisonRow], facts: Facts) -> tuple[Section, ...]:
    """The questions with their answers.

    Args:
        rows: comparison rows of all trials.
        facts: facts beside the rows.
    """
    asked = answers(rows)
    found = scenarios(asked)
    every = by_scenario(rows)
    made: list[Section] = []
    for scenario, mine in found.items():
        told = f" ({scenario})" if len(found) > 1 or scenario != Scenario.CALL else ""
        made += [
            Section(key=key, question=f"{question}{told}", text=text, scenario=scenario)
            for key, question, text in _questions(mine, every.get(scenario, []))
        ]
    if imported := comparing.published(asked):
        made.append(Section(key="published", question="What did others publish?", text=imported))
    return (*made, Section(key="everything", question="Everything", text=_everything(facts)))


def _questions(
    rows: Sequence[ComparisonRow], every: Sequence[ComparisonRow]
) -> list[tuple[str, str, str]]:
    """Key, question and answer of what is asked about one scenario.

    Args:
        rows: of the scenario, one of each question.
        every: of the scenario, repetitions included.
    """
    pairs = headline_pairs(rows)
    return [
        ("answer", "Should I turn XLA on?", _answer(rows, pairs)),
        ("where", "Where does it help?", comparing.where(pairs)),
        ("fastest", "Which model is fastest?", comparing.fastest(pairs)),
        ("flops", "Is it just FLOPs?", comparing.flops(pairs)),
        ("cost", "What does XLA cost, and when does it pay back?", caveats.cost(pairs)),
        ("compare", "How do devices, resolutions and batches compare?", comparing.compare(pairs)),
        ("broke", "What broke?", caveats.broke(pairs)),
        ("trust", "Can I trust it?", caveats.trust(pairs, trust(every))),
    ]


def environment(rows: Sequence[ComparisonRow], facts: Facts) -> str:
    """What was measured, where, when and with which software, as a table."""
    measured = [row for row in rows if row.provenance.origin == MEASURED]
    days = sorted({row.provenance.measured_at[:10] for row in measured} - {""})
    texts = {
        "software": {row.provenance.software for row in measured},
        "driver": {row.provenance.driver for row in measured},
        "devices": {row.trial.device for row in measured},
        "variables that change it": {row.provenance.environment_flags for row in measured},
    }
    cells = [[name, escape("; ".join(sorted(values - {""})))] for name, values in texts.items()]
    cells += [["measured", " to ".join(dict.fromkeys((days[0], days[-1])))]] if days else []
    cells += [["trials", f"{facts.trials:,}"]]
    unfinished = sum(row.status in UNFINISHED for row in measured)
    cells += [["left out", f"{counted(unfinished, 'comparison')} that did not finish"]][:unfinished]
    return table(["what", "of these results"], [cell for cell in cells if cell[1]])


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


def _answer(rows: Sequence[ComparisonRow], pairs: Sequence[ComparisonRow]) -> str:
    scenario = next(iter(scenarios(rows)))
    usual, candidate = headline_of(scenario)
    names = {usual: "graph mode", "eager": "eager execution"}
    found = {name: _by_device(headline_pairs(rows, name)) for name in names}
    lines = [
        [f"XLA against {names[baseline]}", escape(device), *_counts(mine, baseline)]
        for baseline, devices in found.items()
        for device, mine in devices.items()
    ]
    if not lines:
        return "No pair with and without XLA was measured."
    headings = ["", "device", "pairs", "models", *VERDICTS.values(), "best", "worst"]
    listed = table(headings, lines, right=range(2, 11))
    parts = [_headline(pairs), _words(usual, candidate), *_findings(pairs), _how(scenario)]
    return "\n\n".join(filter(None, [*parts, listed, _sorted_pairs(pairs)]))


def _words(baseline: str, candidate: str) -> str:
    """What XLA and graph mode are, where Keras's own methods are compared."""
    if candidate == "xla":
        return WORDS
    first, second = mode_of(baseline), mode_of(candidate)
    return WORDS + KERAS_WORDS.format(
        candidate=NAMES[second], switch=SWITCH[second], baseline=NAMES[first], keep=SWITCH[first]
    )


def _how(scenario: str) -> str:
    return HOW.format(
        switch=SWITCHES.get(scenario, "predict = tf.function(model, jit_compile=True)"),
        scenario="" if scenario == Scenario.CALL else f" scenario={scenario}",
    )


def _by_device(pairs: Iterable[ComparisonRow]) -> dict[str, list[ComparisonRow]]:
    """The pairs of each device."""
    found: dict[str, list[ComparisonRow]] = {}
    for row in pairs:
        found.setdefault(row.trial.device, []).append(row)
    return dict(sorted(found.items()))


def _counts(pairs: Sequence[ComparisonRow], baseline: str) -> list[str]:
    found = overview(pairs, baseline=baseline)
    known = [row.speedup.value for row in pairs if row.speedup.value is not None]
    numbers = (found.pairs, found.models, *(getattr(found, verdict) for verdict in VERDICTS))
    ends = times(max(known, default=None)), times(min(known, default=None))
    return [*map(str, numbers), *ends]


def _headline(pairs: Sequence[ComparisonRow]) -> str:
    """The page's answer; its mean for each device apart where there are several settings."""
    found = overview(pairs)
    if len(by_setting(pairs)) < 2:
        return answer(found)
    means = [
        f"- {escape(setting)}: typically {typical(overview(rows)) or NONE}"
        for setting, rows in commonest(pairs).items()
    ]
    return "\n".join([counts(found), "", *means])


def _findings(pairs: Sequence[ComparisonRow]) -> list[str]:
    """What was found at the commonest setting."""
    return [
        "\n".join(
            [
                f"**What was found** on {escape(setting)}:",
                "",
                *(f"- {finding}" for finding in findings.findings(mine)),
            ]
        )
        for setting, mine in list(commonest(pairs).items())[:1]
    ]


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
    rows = [row for _, row in shown]
    told = names(rows, "resolution_px", "batch_size", "device")
    cells = [
        [
            str(number),
            name,
            *who(row)[1:],
            speedup(row),
            interval(row.speedup.low, row.speedup.high),
            VERDICTS[row.speedup.verdict],
            bar(row.speedup.value or 1.0),
        ]
        for (number, row), name in zip(shown, told, strict=True)
    ]
    headings = ["#", "model", "px", "batch", "device", "speedup", "95 %", "verdict"]
    headings.append(f"{BARS_PER_DOUBLING} blocks: twice as fast")
    listed = table(headings, cells, right=(0, 2, 3, 5, 6))
    marked = "".join(row[5] for row in cells)
    notes = [escape(note) for note in (PRELIMINARY, CONTAMINATED) if note[0] in marked]
    return "\n\n".join([f"**{title}**", listed, *notes])


def _everything(facts: Facts) -> str:
    cut = (
        f" The table has the first {facts.table_rows:,} of {facts.headline_rows:,} rows, the file "
        "has all."
        if facts.table_rows < facts.headline_rows
        else ""
    )
    return (
        f"{limits(facts)}\n\nThe panels show the runs that W&B shows, without intervals: cite the "
        "tables. Their bars are of `speedup_log2`: 0 is no change, 1 is twice as fast, -1 half as "
        "fast, and the mean of such bars is the geometric mean. The summary run has the comparison "
        f"table and, as artifacts, its Parquet file and the local page.{cut}"
    )
