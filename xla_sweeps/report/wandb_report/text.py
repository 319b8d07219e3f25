"""Write a report's text in Markdown: answers in sentences, whose details are in panels. Pure.

W&B's panels show no intervals; the local page has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from xla_sweeps.analysis.changes import Difference
from xla_sweeps.analysis.overview import answers, by_device, geometric_mean, overview
from xla_sweeps.report import changes, study
from xla_sweeps.report.advice import busy_words, overall_answer, overall_counts, typically
from xla_sweeps.report.figures import NONE, times
from xla_sweeps.report.markdown import escape, table
from xla_sweeps.schema.column import Part
from xla_sweeps.schema.columns import MEASURED
from xla_sweeps.schema.measurement import UNFINISHED
from xla_sweeps.schema.modes import Scenario, by_scenario, headline_of, mode_of
from xla_sweeps.schema.row import COLUMNS, ComparisonRow, value_of
from xla_sweeps.system.text import counted

VIEW_RUNS = 1000
"""Maximum number of runs that a W&B view shows."""

DEVICES = 4

FINDING = 1000
"""Maximum length of a table's finding, which names devices."""

WORDS = (
    "XLA compiles the operations of a model into fewer, larger kernels. *Graph mode* is "
    "`tf.function` without XLA. A *configuration* is one model at one size and batch on one "
    "device, measured with XLA (`{candidate}`: `{on}`) and without (`{baseline}`: `{off}`). "
    "Measure your own model: `python -m xla_sweeps model=NAME{scenario}`."
)

FLOPS = (
    "Images/s and speedup over the multiply-accumulates of one image. If only arithmetic mattered, "
    "the models would lie on one falling line."
)

COST = (
    "The local page lists the compile time, memory and calls to pay back of each pair. The panel "
    "omits pairs that never pay back or are ambiguous."
)

COMPARE = (
    "Each panel varies one of device, resolution and batch size, and holds the rest of the setting "
    "with the most pairs. Its bars may be of different models; the local page compares the same "
    "ones."
)

PAGE = (
    "The local page (`dashboard.html` among the summary run's artifacts, or `xla-sweeps "
    "dashboard`) has every row and interval, what XLA costs, and what failed and why. It also says "
    "how far to trust the figures, and has figures that others published."
)

PANELS = (
    "Panels of runs show those that W&B shows, without intervals: cite the page or the table. "
    "Their bars are of `speedup_log2`: 0 is no change, 1 is twice as fast, -1 half as fast, and "
    "the mean of such bars is the geometric mean."
)

_SHOWN = ("device", "resolution_px", "batch_size")
"""Columns of a setting that its name begins with."""

_SETTING = (
    *_SHOWN,
    *(
        name
        for name, column in COLUMNS.items()
        if column.asked and column.asked.part is Part.SETTING and name not in _SHOWN
    ),
)
"""Columns of a setting, in the order in which settings are sorted."""

Setting = tuple[Any, ...]
"""The values of the columns of a setting: only pairs of one setting are averaged."""

Pairs = list[ComparisonRow]

Facts = Mapping[str, int]
"""Numbers beside the rows: `trials`; `unsent`, those of them that may not be on the server;
`table_rows` of the summary run, and `headline_rows`, which that would have without a limit."""


def scenarios(rows: Iterable[ComparisonRow]) -> dict[str, Pairs]:
    """The measured rows of each scenario, the commonest first; no rows of `call` without any."""
    measured = [row for row in rows if row.provenance.origin == MEASURED]
    groups = by_scenario(measured, key=lambda row: row.trial.scenario)
    return groups or {str(Scenario.CALL): []}


def headline_pairs(rows: Sequence[ComparisonRow]) -> Pairs:
    """The measured comparisons of XLA with graph mode, in the commonest scenario."""
    scenario, measured = next(iter(scenarios(rows).items()))
    headline = headline_of(scenario)
    return [row for row in measured if (row.baseline.mode, row.candidate.mode) == headline]


def by_setting(pairs: Sequence[ComparisonRow]) -> dict[Setting, Pairs]:
    """The pairs of each setting, in the settings' order."""
    groups: dict[Setting, Pairs] = {}
    for row in pairs:
        setting = tuple(value_of(row, name) for name in _SETTING)
        groups.setdefault(setting, []).append(row)
    return dict(sorted(groups.items()))


def commonest(pairs: Sequence[ComparisonRow]) -> dict[Setting, Pairs]:
    """Each device's setting with the most pairs; the device with the most pairs first."""
    sizes = Counter(row.trial.device for row in pairs)
    best: dict[str, tuple[Setting, Pairs]] = {}
    for setting, rows in by_setting(pairs).items():
        device = str(setting[0])
        if len(rows) > len(best.get(device, (setting, []))[1]):
            best[device] = setting, rows
    return dict(sorted(best.values(), key=lambda group: -sizes[group[0][0]]))


def setting_document(setting: Setting) -> dict[str, Any]:
    """The values of a setting by column."""
    return dict(zip(_SETTING, setting, strict=True))


def setting_title(setting: Setting) -> str:
    """A setting in words, without the values that go without saying."""
    device, pixels, batch_size, *others = setting
    words = [device, f"{pixels} px" if pixels else "no images", f"batch {batch_size}"]
    for name, value in zip(_SETTING[len(_SHOWN) :], others, strict=True):
        asked = COLUMNS[name].asked
        if asked and (name == "precision" or str(value) != asked.usual):
            words.append(asked.write(value))
    return ", ".join(filter(None, words))


def sections(
    rows: Sequence[ComparisonRow], facts: Facts, difference: Difference | None = None
) -> list[dict[str, str]]:
    """The questions with their answers, from the rows of all trials, and of published figures.

    Each has a `key`, which is the question's on the page and determines the panels after the text;
    a `question`, which is the heading; a `text` in Markdown; and the `scenario` of the answer, ""
    for all. `difference` is from other results to these.
    """
    rows = answers(rows)
    groups = scenarios(rows)
    published: dict[str, Pairs] = {}
    for row in rows:
        if row.provenance.origin != MEASURED:
            published.setdefault(row.trial.scenario, []).append(row)
            groups.setdefault(row.trial.scenario, [])
    made: list[dict[str, str]] = []
    for scenario, group in groups.items():
        suffix = f" ({scenario})" if len(groups) > 1 or scenario != Scenario.CALL else ""
        pairs = headline_pairs(group)
        texts = [
            ("answer", "Should I turn XLA on?", _answer(scenario, pairs)),
            ("where", "Where does it help?", _by_device(pairs, _families)),
            ("fastest", "Which model is fastest?", _study([*group, *published.get(scenario, ())])),
            ("flops", "Is it just FLOPs?", FLOPS),
            ("cost", "What does XLA cost, and when does it pay back?", COST),
        ]
        if len(by_setting(pairs)) > 1:
            question = "How do devices, resolutions and batches compare?"
            texts.append(("compare", question, COMPARE))
        made += [
            {"key": key, "question": f"{question}{suffix}", "text": text, "scenario": scenario}
            for key, question, text in texts
        ]
    if difference:
        changed = {"key": "changed", "question": "What changed?", "text": _changed(difference)}
        made.append({**changed, "scenario": ""})
    everything = {"key": "everything", "question": "Everything", "text": _everything(facts)}
    return [*made, {**everything, "scenario": ""}]


def environment(rows: Sequence[ComparisonRow], facts: Facts) -> str:
    """A list of devices, software, dates and the number of trials."""
    measured = [row for row in rows if row.provenance.origin == MEASURED]
    days = sorted({row.provenance.measured_at[:10] for row in measured} - {""})
    values = {
        "software": {row.provenance.software for row in measured},
        "driver": {row.provenance.driver for row in measured},
        "devices": {row.trial.device for row in measured},
        "variables that change it": {row.provenance.environment_flags for row in measured},
    }
    described = {name: "; ".join(sorted(texts - {""})) for name, texts in values.items()}
    described["measured"] = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    described["trials"] = f"{facts['trials']:,}"
    unfinished = sum(row.status in UNFINISHED for row in measured)
    if unfinished:
        described["left out"] = f"{counted(unfinished, 'comparison')} that did not finish"
    return "\n".join(f"- {name}: {escape(text)}" for name, text in described.items() if text)


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
    return f"{_headline(pairs)}\n\n{words}"


def _headline(pairs: Sequence[ComparisonRow]) -> str:
    """The page's answer; with several settings, one mean for each device."""
    busy = busy_words(row.status for row in pairs)
    if len(by_setting(pairs)) < 2:
        return " ".join(filter(None, (overall_answer(overview(pairs)), busy)))
    means = [
        f"- {escape(setting_title(setting))}: {typically(overview(rows)) or NONE}"
        for setting, rows in commonest(pairs).items()
    ]
    counts = overall_counts(overview(pairs), by_device(pairs))
    return "\n".join([" ".join(filter(None, (counts, busy))), "", *means])


def _by_device(pairs: Sequence[ComparisonRow], write: Callable[[Pairs], str]) -> str:
    """An item for each device's commonest setting: no mean and no ranking mixes settings."""
    settings = commonest(pairs)
    items = [
        f"- {escape(setting_title(setting))}: {write(rows)}"
        for setting, rows in islice(settings.items(), DEVICES)
    ]
    if len(settings) > DEVICES:
        items.append(f"- {DEVICES} of {len(settings)} devices are shown here; the page has all.")
    return "\n".join(items) or "Nothing was compared yet."


def _families(rows: Sequence[ComparisonRow]) -> str:
    """The families with the highest and the lowest mean of their clear speedups."""
    groups: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        if row.speedup.value is not None and row.speedup.verdict.is_clear:
            groups.setdefault(row.trial.family, []).append((row.speedup.value, row.trial.model))
    means = {family: geometric_mean(*zip(*group, strict=True)) for family, group in groups.items()}
    ranked = sorted(means.items(), key=lambda entry: -(entry[1][0] or 0.0))
    words = [f"{escape(family)} ({times(mean)})" for family, (mean, _) in ranked]
    if len(words) < 2:
        return "".join(words) or NONE
    return f"most in {words[0]}, least in {words[-1]} (geometric means of {len(words)} families)"


def _study(rows: Sequence[ComparisonRow]) -> str:
    """The study's tables: the fastest models, agreement of devices, podiums, inversions."""
    parts = []
    for one in study.of_rows(rows):
        lines, note = study.limited(one)
        grid = ["\n".join(table(one.columns, lines))] * bool(lines)
        shown = [f"**{one.title}.** {escape(one.finding, FINDING)}", *grid, note]
        parts.append("\n\n".join(shown))
    return "\n\n".join(parts) or "Nothing was compared yet."


def _changed(difference: Difference) -> str:
    """The lines of `compare`."""
    titles = escape(difference.title_a), escape(difference.title_b)
    parts = [f"**{titles[1]} (B) against {titles[0]} (A)**: {changes.RATIOS}."]
    parts += [f"**{escape(line)}**" for line in changes.summary(difference)]
    parts += map(escape, changes.breaks(difference))
    groups = by_scenario(changes.listed(difference), key=lambda change: change.scenario)
    for scenario, group in groups.items():
        parts += [f"scenario={escape(scenario)}"] * (len(groups) > 1)
        parts.append("\n".join(table(changes.COLUMNS, changes.cells(group))))
    parts += map(escape, changes.remarks(difference))
    for heading, names in changes.one_sided(difference).items():
        parts.append(
            "\n".join([f"{escape(heading)}:", "", *(f"- {escape(name)}" for name in names)])
        )
    apart = changes.apart(difference)
    columns = ("differs", difference.title_a, difference.title_b)
    parts.append("\n".join(table(columns, apart)) if apart else f"{changes.ALIKE.capitalize()}.")
    return "\n\n".join([*parts, *map(escape, difference.notes)])


def _everything(facts: Facts) -> str:
    limits = (
        f"The sentences of this report are computed from all {facts['trials']:,} trials. A W&B "
        f"view shows at most {VIEW_RUNS:,} runs, the first in its own order."
    )
    if unsent := facts["unsent"]:
        limits += f" {unsent:,} of the trials may be missing here; `xla-sweeps push` uploads them."
    parts = [PAGE, limits, PANELS]
    shown, headline = facts["table_rows"], facts["headline_rows"]
    if shown < headline:
        parts.append(
            f"The table has the first {shown:,} of {headline:,} rows, the Parquet file among the "
            "artifacts has all."
        )
    return "\n\n".join(parts)
