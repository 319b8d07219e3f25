"""Write a report's text in Markdown, of the sentences that page and terminal have. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xla_sweeps.analysis.changes import Difference
from xla_sweeps.analysis.overview import answers, by_device, overview
from xla_sweeps.analysis.ranking import SETTING
from xla_sweeps.report import changes, study
from xla_sweeps.report.labels import setting_words
from xla_sweeps.report.markdown import escape, items, table
from xla_sweeps.report.overall import busy_words, overall_answer
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
    "A *configuration* is one model at one size and batch on one device, measured with XLA "
    "(`{candidate}`: `{on}`) and without (`{baseline}`: `{off}`)."
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

DIGEST_KEY = "xla_sweeps_digest"
"""Summary key by which the server's figures are told from older ones."""

VARIED = {"device": "device", "resolution_px": "resolution", "batch_size": "batch size"}
"""Columns of a setting whose values are compared by panels, and what they are called."""

EVERYTHING = (
    "The local page (`dashboard.html` among the summary run's artifacts, or `xla-sweeps "
    "dashboard`) has every row, table and interval, and what failed and why.\n\n"
    "The sentences are computed from {trials}. The panels show the runs that W&B shows, 1,000 "
    "at most, without intervals. Their bars are of `speedup_log2`, of throughput (one call at a "
    "time: `latency_speedup`): 0 is no change, 1 is twice as fast, -1 half as fast. Means may be "
    "of different models, and pairs that never pay back or are ambiguous have no calls to pay back."
)

_FACTS = {
    "software": "software",
    "driver": "driver",
    "devices": "device",
    "variables that change it": "environment_flags",
}

_SETTING = ("device", "resolution_px", *SETTING)
"""Columns of a setting: panels average only pairs that share all of them."""


def settings_of(pairs: Sequence[ComparisonRow]) -> list[dict[str, Any]]:
    """Each device's setting with the most pairs, two at least; that of the most pairs first.

    Beside the columns, `title` names it, and `varied` are columns in which alone others differ.
    """
    counts = Counter(tuple(value_of(row, name) for name in _SETTING) for row in pairs)
    every = {values: dict(zip(_SETTING, values, strict=True)) for values in counts}
    commonest: dict[str, dict[str, Any]] = {}
    for values in sorted(counts, key=lambda values: (-counts[values], values)):
        if counts[values] > 1:
            commonest.setdefault(every[values]["device"], every[values])
    return [
        {
            **setting,
            "title": setting_words(setting),
            "varied": _find_varied(setting, every.values()),
        }
        for setting in list(commonest.values())[:DEVICES]
    ]


def _find_varied(setting: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns with panels in which another setting differs from this one alone."""
    apart = [[name for name in _SETTING if other[name] != setting[name]] for other in others]
    return sorted({names[0] for names in apart if len(names) == 1 and names[0] in VARIED})


def sections(
    rows: Sequence[ComparisonRow], trials: int, difference: Difference | None = None
) -> list[dict[str, Any]]:
    """The questions with their answers, from the rows of all trials, and of published figures.

    Each has a `key`, its `question`, a `text` in Markdown or "", the `scenario` ("" for all), how
    many `pairs` were compared, and `settings`, which have panels of their own.
    """
    groups = by_scenario(answers(rows), key=lambda row: row.trial.scenario)
    groups = groups or {str(Scenario.CALL): []}
    made: list[dict[str, Any]] = []
    for scenario, group in groups.items():
        suffix = f" ({scenario})" if len(groups) > 1 or scenario != Scenario.CALL else ""
        for section in _scenario_sections(scenario, group):
            made.append({**section, "question": f"{section['question']}{suffix}"})
    everything = EVERYTHING.format(trials=count_noun(trials, "trial"))
    made += [_section("changed", _changes_text(difference))] if difference else []
    return [*made, _section("everything", everything)]


def _scenario_sections(scenario: str, rows: Sequence[ComparisonRow]) -> list[dict[str, Any]]:
    pairs = [
        row
        for row in rows
        if row.provenance.origin == MEASURED
        and (row.baseline.mode, row.candidate.mode) == headline_of(scenario)
    ]
    compared = [row for row in pairs if not row.speedup.verdict.is_missing]
    settings = settings_of(compared)
    told = {"answer": _answer(scenario, pairs), "fastest": _findings(rows)}
    drawn = {"where", "flops", "cost"} if settings else set()
    drawn |= {"compare"} if settings and settings[0]["varied"] else set()
    return [
        _section(key, told.get(key, ""), scenario, settings, len(compared))
        for key in QUESTIONS
        if key in told or key in drawn
    ]


def _section(
    key: str, text: str, scenario: str = "", settings: Sequence[Any] = (), pairs: int = 0
) -> dict[str, Any]:
    named = {"key": key, "question": QUESTIONS[key], "text": text}
    return {**named, "scenario": scenario, "settings": [*settings], "pairs": pairs}


def environment(rows: Sequence[ComparisonRow], trials: int) -> str:
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
        "trials": f"{trials:,}",
        "left out": f"{count_noun(unfinished, 'comparison')} that did not finish"
        if unfinished
        else "",
    }
    return "\n".join(items(f"{name}: {text}" for name, text in described.items() if text))


def _answer(scenario: str, pairs: Sequence[ComparisonRow]) -> str:
    """The page's answer, and its words."""
    answer = escape(overall_answer(overview(pairs), by_device(pairs)), FINDING)
    busy = busy_words(row.status is Status.CONTAMINATED for row in pairs)
    baseline, candidate = headline_of(scenario)
    switches = {"on": mode_of(candidate).switch, "off": mode_of(baseline).switch}
    words = WORDS.format(candidate=candidate, baseline=baseline, **switches)
    return f"{answer} {busy}".rstrip() + f"\n\n{words}"


def _findings(rows: Sequence[ComparisonRow]) -> str:
    """The findings of the study's tables, and the first of these."""
    told = []
    for one in study.of_rows(rows):
        dot = "" if one.title.endswith("?") else "."
        told.append(f"**{one.title}{dot}** {escape(one.finding, FINDING)}")
        if one.key == "fastest":
            told.append("\n".join(table(one.columns, one.lines[:FASTEST])))
            told.append(escape(one.note, FINDING))
    return "\n\n".join(told) or f"{NOTHING}."


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
