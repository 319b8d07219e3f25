"""Write a report's text in Markdown: answers in sentences, whose details are in panels. Pure.

W&B's panels show no intervals; the local page has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xla_sweeps.analysis.changes import Difference
from xla_sweeps.analysis.overview import answers, by_device, geometric_mean, overview
from xla_sweeps.analysis.ranking import SETTING
from xla_sweeps.report import changes, study
from xla_sweeps.report.figures import NONE, times
from xla_sweeps.report.labels import setting_words
from xla_sweeps.report.markdown import escape, items, table
from xla_sweeps.report.overall import busy_words, overall_answer, overall_counts, typically
from xla_sweeps.report.sentences import NOTHING
from xla_sweeps.schema.columns import MEASURED
from xla_sweeps.schema.comparisons import by_scenario, headline_of
from xla_sweeps.schema.measurement import UNFINISHED, Status
from xla_sweeps.schema.modes import Scenario, mode_of
from xla_sweeps.schema.row import ComparisonRow, value_of
from xla_sweeps.system.text import count_noun

DEVICES = 4
FASTEST = 12

FINDING = 1000
"""Maximum length of an answer or a table's finding, which name devices."""

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

QUESTIONS = {
    "answer": "Should I turn XLA on?",
    "where": "Where does it help?",
    "fastest": "Which model is fastest?",
    "flops": "Is it just FLOPs?",
    "cost": "What does XLA cost, and when does it pay back?",
    "compare": "How do devices, resolutions and batches compare?",
    "changed": "What changed?",
    "everything": "Everything",
}

TABLES = "The tables are on the local page, and `xla-sweeps results --show` prints them."

EVERYTHING = (
    "The local page (`dashboard.html` among the summary run's artifacts, or `xla-sweeps "
    "dashboard`) has every row and interval, what XLA costs, and what failed and why. It also says "
    "how far to trust the figures, and has figures that others published.\n\n"
    "The sentences of this report are computed from all {trials}. A W&B view shows at "
    "most 1,000 runs, the first in its own order.{unsent}\n\n"
    "Panels of runs show those that W&B shows, without intervals: cite the page or the table. "
    "Their bars are of `speedup_log2`, of throughput (one call at a time: `latency_speedup`): 0 is "
    "no change, 1 is twice as fast, -1 half as fast, and the mean of such bars is the geometric "
    "mean.{rows}"
)

UNSENT = " {:,} of the trials may be missing here; `xla-sweeps push` uploads them."

ROWS = (
    "\n\nThe table has the first {:,} of {:,} rows, the Parquet file among the artifacts has all."
)

_FACTS = {
    "software": "software",
    "driver": "driver",
    "devices": "device",
    "variables that change it": "environment_flags",
}

_SETTING = ("device", "resolution_px", *SETTING)
"""Columns of a setting, in the order in which settings are sorted."""

Setting = tuple[Any, ...]
"""The values of the columns of a setting: only pairs of one setting are averaged."""

Pairs = list[ComparisonRow]

Facts = Mapping[str, int]
"""Numbers beside the rows: `trials`; `unsent`, those of them that may not be on the server;
`table_rows` of the summary run, and `headline_rows`, which that would have without a limit."""


def headline_pairs(rows: Iterable[ComparisonRow]) -> Pairs:
    """The measured comparisons of XLA with graph mode, in the commonest scenario."""
    measured = [row for row in rows if row.provenance.origin == MEASURED]
    groups = by_scenario(measured, key=lambda row: row.trial.scenario)
    return [
        row
        for scenario, group in list(groups.items())[:1]
        for row in group
        if (row.baseline.mode, row.candidate.mode) == headline_of(scenario)
    ]


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
    """The values of a setting by column, and its title."""
    values = dict(zip(_SETTING, setting, strict=True))
    return {**values, "title": setting_words(values)}


def _find_varied(setting: Setting, pairs: Sequence[ComparisonRow]) -> list[str]:
    """The columns in which pairs differ from a setting that otherwise have its values."""
    others = by_setting(pairs)
    apart = [[a != b for a, b in zip(setting, other, strict=True)] for other in others]
    return [
        name
        for place, name in enumerate(_SETTING)
        if any(differ[place] and sum(differ) == 1 for differ in apart)
    ]


def sections(
    rows: Sequence[ComparisonRow], facts: Facts, difference: Difference | None = None
) -> list[dict[str, Any]]:
    """The questions with their answers, from the rows of all trials, and of published figures.

    Each has a `key`, its `question`, a `text` in Markdown, the `scenario` ("" for all), how many
    `pairs` were compared, and of each device the `settings` with the most of them, two at least:
    each has panels of its own.
    """
    groups = by_scenario(answers(rows), key=lambda row: row.trial.scenario)
    groups = groups or {str(Scenario.CALL): []}
    made: list[dict[str, Any]] = []
    for scenario, group in groups.items():
        suffix = f" ({scenario})" if len(groups) > 1 or scenario != Scenario.CALL else ""
        pairs = headline_pairs(group)
        compared = [row for row in pairs if not row.speedup.verdict.is_missing]
        settings = [
            setting_document(setting) | {"varied": _find_varied(setting, compared)}
            for setting, own in list(commonest(compared).items())[:DEVICES]
            if len(own) > 1
        ]
        texts = {
            "answer": _answer(scenario, pairs),
            "where": _by_device(pairs, _families),
            "fastest": _findings(group),
            **({"flops": FLOPS, "cost": COST} if settings else {}),
            **({"compare": COMPARE} if settings and settings[0]["varied"] else {}),
        }
        shared = {"scenario": scenario, "settings": settings, "pairs": len(compared)}
        made += [
            {"key": key, "question": f"{QUESTIONS[key]}{suffix}", "text": text, **shared}
            for key, text in texts.items()
        ]
    shown, headline = facts["table_rows"], facts["headline_rows"]
    texts = {"changed": _changes_text(difference)} if difference else {}
    texts["everything"] = EVERYTHING.format(
        trials=count_noun(facts["trials"], "trial"),
        unsent=UNSENT.format(facts["unsent"]) if facts["unsent"] else "",
        rows=ROWS.format(shown, headline) if shown < headline else "",
    )
    shared = {"scenario": "", "settings": [], "pairs": 0}
    made += [
        {"key": key, "question": QUESTIONS[key], "text": text, **shared}
        for key, text in texts.items()
    ]
    return made


def environment(rows: Sequence[ComparisonRow], facts: Facts) -> str:
    """A list of devices, software, dates and the number of trials."""
    measured = [row for row in rows if row.provenance.origin == MEASURED]
    days = sorted({row.provenance.measured_at[:10] for row in measured} - {""})
    unfinished = sum(row.status in UNFINISHED for row in measured)
    described = {
        title: "; ".join(sorted({str(value_of(row, name)) for row in measured} - {""}))
        for title, name in _FACTS.items()
    }
    described |= {
        "measured": " to ".join(dict.fromkeys(days[:1] + days[-1:])),
        "trials": f"{facts['trials']:,}",
        "left out": f"{count_noun(unfinished, 'comparison')} that did not finish"
        if unfinished
        else "",
    }
    return "\n".join(items(f"{name}: {text}" for name, text in described.items() if text))


def _answer(scenario: str, pairs: Sequence[ComparisonRow]) -> str:
    """The page's answer; with several settings, one mean for each device."""
    if not pairs:
        return "No pair with and without XLA was measured."
    busy = busy_words(row.status is Status.CONTAMINATED for row in pairs)
    if len(by_setting(pairs)) < 2:
        told = f"{escape(overall_answer(overview(pairs)), FINDING)} {busy}".rstrip()
    else:
        counts = overall_counts(overview(pairs), by_device(pairs))
        means = _by_device(pairs, lambda rows: typically(overview(rows)) or NONE)
        told = f"{escape(counts, FINDING)} {busy}".rstrip() + f"\n\n{means}"
    baseline, candidate = headline_of(scenario)
    words = WORDS.format(
        candidate=candidate,
        on=mode_of(candidate).switch,
        baseline=baseline,
        off=mode_of(baseline).switch,
        scenario="" if scenario == Scenario.CALL else f" scenario={scenario}",
    )
    return f"{told}\n\n{words}"


def _by_device(pairs: Sequence[ComparisonRow], write: Callable[[Pairs], str]) -> str:
    """An item for each device's commonest setting: no mean and no ranking mixes settings."""
    settings = commonest(pairs)
    lines = [
        f"{setting_document(setting)['title']}: {write(rows)}"
        for setting, rows in list(settings.items())[:DEVICES]
    ]
    if len(settings) > DEVICES:
        lines.append(f"{DEVICES} of {len(settings)} devices are shown here; the page has all.")
    return "\n".join(items(lines, FINDING)) or f"{NOTHING}."


def _families(rows: Sequence[ComparisonRow]) -> str:
    groups: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        if row.speedup.value is not None and row.speedup.verdict.is_clear:
            groups.setdefault(row.trial.family, []).append((row.speedup.value, row.trial.model))
    means = {family: geometric_mean(*zip(*group, strict=True)) for family, group in groups.items()}
    ranked = sorted(means.items(), key=lambda entry: -(entry[1][0] or 0.0))
    words = [f"{family} ({times(mean)})" for family, (mean, _) in ranked]
    if len(words) < 2:
        return "".join(words) or NONE
    return f"most in {words[0]}, least in {words[-1]} (geometric means of {len(words)} families)"


def _findings(rows: Sequence[ComparisonRow]) -> str:
    tables = study.of_rows(rows)
    named = [
        f"{place}, {device}: {model} ({rate} images/s)"
        for one in tables
        if one.key == "fastest"
        for place, device, model, rate, *_ in one.lines[:FASTEST]
    ]
    told = [f"**{one.title}.** {escape(one.finding, FINDING)}\n\n" for one in tables]
    told.insert(1, "\n".join([*items(named), "\n"]))
    return f"{''.join(told)}{TABLES}" if tables else f"{NOTHING}."


def _changes_text(difference: Difference) -> str:
    a, b = escape(difference.title_a), escape(difference.title_b)
    parts = [f"**{b} (B) against {a} (A)**: {changes.RATIOS}."]
    parts += [f"**{escape(line)}**" for line in changes.summary(difference)]
    parts += map(escape, changes.breaks(difference))
    groups = by_scenario(changes.shown_changes(difference), key=lambda change: change.scenario)
    for scenario, group in groups.items():
        parts += [f"scenario={escape(scenario)}"] * (len(groups) > 1)
        parts.append("\n".join(table(changes.COLUMNS, changes.cells(group))))
    parts += map(escape, changes.remarks(difference))
    for heading, names in changes.one_sided(difference).items():
        parts.append(f"{escape(heading)}:\n\n" + "\n".join(items(names)))
    apart = changes.apart(difference)
    columns = ("differs", difference.title_a, difference.title_b)
    parts.append("\n".join(table(columns, apart)) if apart else f"{changes.ALIKE.capitalize()}.")
    return "\n\n".join([*parts, *map(escape, difference.notes)])
