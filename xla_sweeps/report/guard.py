"""Report of a guard: one document, written as text, Markdown or JSON."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import Any

from xla_sweeps.analysis.guard import LOOK
from xla_sweeps.report.figures import NONE, confidence, decimals, percent
from xla_sweeps.report.markdown import CHARACTERS, code, escape, items, table
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.system.text import count_noun, displayable
from xla_sweeps.trial.guard import NO_TURNS, GuardResult
from xla_sweeps.trial.sides import Side, differences

MARKER = "<!-- xla-sweeps-guard verdict={verdict} -->"
"""First line of the Markdown, by which the action finds verdict and earlier comment."""

MOST_CHARACTERS = 60_000
"""Of the Markdown: a comment on GitHub takes 65,536."""

MESSAGE_CHARACTERS = 1000

FIGURES = ("change", "low", "high", "missed", "confidence", "spread", "pairs")

COLUMNS = ("verdict", "time per sample", "interval")

UNJUDGED, BROKE = "unjudged", "broke"

ANSWERS = {
    BROKE: "After fails in a mode that runs before.",
    Verdict.SLOWER: "After is slower.",
    UNJUDGED: "Nothing could be judged.",
    Verdict.AMBIGUOUS: "Ambiguous: a change of {detect} is neither found nor excluded.",
    Verdict.FASTER: "After is faster.",
    Verdict.EQUIVALENT: "After is as fast as before, to within {detect}.",
}
"""Answers by verdict, the worst first."""


def verdicts_of(result: GuardResult) -> dict[str, str]:
    """The verdict on each mode."""
    changed = {change.mode: str(change.verdict) for change in result.changes}
    return {
        mode: BROKE if mode in result.broken else changed.get(mode, UNJUDGED)
        for mode in result.plan.modes
    }


def document_of(result: GuardResult, command: str) -> dict[str, Any]:
    """Everything that a guard found, as plain data, and the command that repeats it."""
    plan, verdicts = result.plan, verdicts_of(result)
    return {
        "verdict": min(verdicts.values(), key=[*ANSWERS].index),
        "detect": plan.detect,
        "model": plan.before.settings.trial.model.name,
        "device": plan.before.settings.device.name,
        "modes": [_mode(mode, verdict, result) for mode, verdict in verdicts.items()],
        "before": _side(plan.before),
        "after": _side(plan.after),
        "differences": differences(plan.before, plan.after, result.models),
        "pairs": [
            {"before_first": pair.before_first, "log_ratios": dict(pair.ratios)}
            for pair in result.pairs
        ],
        "planned_pairs": result.looks * LOOK,
        "pair_s": round(result.pair_s, 1),
        "took_turns": result.together,
        "contaminated_pairs": result.contaminated,
        "out_of_time": result.out_of_time,
        "command": command,
    }


def _mode(mode: str, verdict: str, result: GuardResult) -> dict[str, Any]:
    """A mode's verdict and figures; failures of every pair that tried it, if there are any."""
    document: dict[str, Any] = {"mode": mode, "verdict": verdict}
    for change in result.changes:
        if change.mode == mode:
            document |= {name: round(getattr(change, name), 5) for name in FIGURES}
    failures = result.failures.get(mode, [])
    return document | ({"failures": failures} if any(failures) else {})


def _side(side: Side) -> dict[str, str]:
    return {"python": side.python, "folder": str(side.folder), "options": " ".join(side.own)}


def text_of(document: dict[str, Any]) -> str:
    """The report as text."""
    rows = [("", *COLUMNS), *map(_cells, document["modes"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table_lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines = [answer_of(document), "", *table_lines, "", *_failures(document)]
    lines += [f"{name}: {old} -> {new}" for name, (old, new) in document["differences"].items()]
    lines += [*_notes(document), f"again: {document['command']}"]
    return "".join(f"{displayable(line)}\n" for line in lines)


def markdown_of(document: dict[str, Any]) -> str:
    """The report as Markdown, for a job's summary or a comment."""
    lines = [
        MARKER.format(verdict=document["verdict"]),
        f"### {code(document['model'], CHARACTERS)} on {escape(document['device'])}",
        "",
        f"**{escape(answer_of(document))}**",
        "",
        *table(("mode", *COLUMNS), map(_cells, document["modes"])),
        "",
        *items(_failures(document), MESSAGE_CHARACTERS),
        "",
    ]
    if document["differences"]:
        rows = ((name, *pair) for name, pair in document["differences"].items())
        lines += [*table(("differs", "before", "after"), rows), ""]
    lines += [*items(_notes(document)), "", code(document["command"])]
    sizes = accumulate(len(line) + 1 for line in lines)
    kept = [line for line, size in zip(lines, sizes, strict=True) if size <= MOST_CHARACTERS]
    return "\n".join([*kept, "…"] if len(kept) < len(lines) else kept) + "\n"


def answer_of(document: dict[str, Any]) -> str:
    """The guard's answer in a sentence, and the modes without one."""
    left = [mode["mode"] for mode in document["modes"] if mode["verdict"] == UNJUDGED]
    if len(left) == len(document["modes"]):
        return ANSWERS[UNJUDGED]
    answer = ANSWERS[document["verdict"]].format(detect=percent(document["detect"]))
    answers = [] if document["verdict"] == UNJUDGED else [answer]
    answers += [f"Not every mode could be judged: {', '.join(left)}."] if left else []
    return " ".join(answers)


def _cells(mode: dict[str, Any]) -> tuple[str, str, str, str]:
    if "change" not in mode:
        return mode["mode"], mode["verdict"], NONE, NONE
    change, low, high = (
        f"{decimals(100 * mode[name], 1, '+')} %" for name in ("change", "low", "high")
    )
    level = f"{confidence(mode['confidence'])}, {count_noun(mode['pairs'], 'pair')}"
    return mode["mode"], mode["verdict"], change, f"{low} to {high} ({level})"


def _failures(document: dict[str, Any]) -> list[str]:
    """In how many pairs each side of a mode failed, by the message; what a verdict lacks."""
    lines = []
    for mode in document["modes"]:
        pairs = mode.get("failures", [])
        counts = Counter(one for failed in pairs for one in failed.items())
        tried = count_noun(len(pairs), "pair")
        lines += [
            f"{mode['mode']}: {side} fails in {count} of {tried}: {' '.join(message.split())}"
            for (side, message), count in counts.items()
        ]
        if mode["verdict"] == UNJUDGED:
            kept = sum(mode["mode"] in pair["log_ratios"] for pair in document["pairs"])
            lines.append(
                f"{mode['mode']}: {count_noun(kept, 'pair')} gave a time on both sides; {LOOK} in "
                "both orders are needed"
            )
    return lines


def _notes(document: dict[str, Any]) -> list[str]:
    notes = [
        f"{mode['mode']}: a change of {percent(mode['missed'])} would have been missed half the "
        "time"
        for mode in document["modes"]
        if "missed" in mode
    ]
    if not document["differences"]:
        notes.append("nothing known differs between the sides")
    count, dirty = len(document["pairs"]), document["contaminated_pairs"]
    if dirty:
        notes.append(f"other programs used the machine in {dirty} of {count_noun(count, 'pair')}")
    if document["out_of_time"]:
        notes.append(f"--budget ended it after {count} of {document['planned_pairs']} pairs")
    if not document["took_turns"]:
        notes.append(NO_TURNS)
    return notes
