"""Report of a guard: one document, written as text, Markdown or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xla_sweeps.analysis.guard import LOOK, Change
from xla_sweeps.measure.guard import NO_TURNS, GuardResult
from xla_sweeps.measure.sides import Side, differences
from xla_sweeps.schema.columns import Verdict

MARKER = "<!-- xla-sweeps-guard verdict={verdict} -->"
"""First line of the Markdown, by which the action finds verdict and earlier comment."""

MOST_CHARACTERS = 60_000
"""Of the Markdown: a comment on GitHub takes 65,536."""

UNJUDGED, BROKE = "unjudged", "broke"

_WORST = (
    *(BROKE, Verdict.SLOWER, Verdict.AMBIGUOUS, UNJUDGED, Verdict.FASTER, Verdict.EQUIVALENT),
)

ANSWERS = {
    BROKE: "After no longer runs in every mode.",
    Verdict.SLOWER: "After is slower.",
    Verdict.FASTER: "After is faster.",
    Verdict.EQUIVALENT: "After is as fast as before, to within {detect}.",
    Verdict.AMBIGUOUS: "Ambiguous: a change of {detect} is neither found nor excluded.",
    UNJUDGED: "Nothing could be judged.",
}


def verdict_of(result: GuardResult) -> str:
    """The worst verdict of the modes."""
    verdicts: list[str] = [str(change.verdict) for change in result.changes]
    verdicts += [BROKE] * bool(result.broken)
    missing = {*result.plan.modes} - {change.mode for change in result.changes}
    verdicts += [UNJUDGED] * bool(missing - {*result.broken})
    return min(verdicts, key=[*map(str, _WORST)].index)


def document_of(result: GuardResult, command: str) -> dict[str, Any]:
    """Everything that a guard found, as plain data.

    Args:
        result: of the guard.
        command: the command that repeats it.
    """
    plan = result.plan
    changes = {change.mode: change for change in result.changes}
    return {
        "verdict": verdict_of(result),
        "detect": plan.detect,
        "model": plan.before.settings.trial.model.name,
        "device": plan.before.settings.device.name,
        "modes": [_mode(mode, changes.get(mode), result) for mode in plan.modes],
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
        "command": command,
    }


def _mode(mode: str, change: Change | None, result: GuardResult) -> dict[str, Any]:
    if change is None:
        verdict = BROKE if mode in result.broken else UNJUDGED
        return {"mode": mode, "verdict": verdict, "failures": result.failures.get(mode, {})}
    return {
        "mode": mode,
        "verdict": str(change.verdict),
        **{
            name: round(getattr(change, name), 5)
            for name in ("change", "low", "high", "missed", "confidence", "spread", "pairs")
        },
    }


def _side(side: Side) -> dict[str, str]:
    return {"python": side.python, "folder": str(side.folder), "options": " ".join(side.own)}


def text_of(document: dict[str, Any]) -> str:
    """The report as text."""
    rows = [("", "verdict", "time per call", "interval"), *map(_cells, document["modes"])]
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = [answer_of(document), ""]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines += ["", *_failures(document)]
    lines += [f"{name}: {old} -> {new}" for name, (old, new) in document["differences"].items()]
    return "\n".join([*lines, *_notes(document), f"again: {document['command']}", ""])


def markdown_of(document: dict[str, Any]) -> str:
    """The report as Markdown, for a job's summary or a comment."""
    title = f"### `{document['model']}` on {document['device']}"
    lines = [
        MARKER.format(verdict=document["verdict"]),
        title,
        "",
        f"**{answer_of(document)}**",
        "",
    ]
    lines += _table(
        ("mode", "verdict", "time per call", "interval"), map(_cells, document["modes"])
    )
    lines += ["", *(f"- {line}" for line in _failures(document)), ""]
    if document["differences"]:
        rows = ((name, *map(_code, pair)) for name, pair in document["differences"].items())
        lines += [*_table(("differs", "before", "after"), rows), ""]
    lines += [*(f"- {line}" for line in _notes(document)), "", _code(document["command"]), ""]
    text = "\n".join(lines)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}\n…\n"


def answer_of(document: dict[str, Any]) -> str:
    """One sentence."""
    return ANSWERS[document["verdict"]].format(detect=f"{100 * document['detect']:g} %")


def _table(heads: Sequence[str], rows: Any) -> list[str]:
    lines = (heads, ["---"] * len(heads), *rows)
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in lines]


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _cells(mode: dict[str, Any]) -> tuple[str, str, str, str]:
    if "change" not in mode:
        return mode["mode"], mode["verdict"], "—", "—"
    low, high = _percent(mode["low"]), _percent(mode["high"])
    level = f"{100 * mode['confidence']:.1f} %, {mode['pairs']} pairs"
    return mode["mode"], mode["verdict"], _percent(mode["change"]), f"{low} to {high} ({level})"


def _percent(change: float) -> str:
    return f"{100 * change:+.1f} %"


def _failures(document: dict[str, Any]) -> list[str]:
    return [
        f"{mode['mode']}: {side} fails: {' '.join(message.split())}"
        for mode in document["modes"]
        for side, message in mode.get("failures", {}).items()
    ]


def _notes(document: dict[str, Any]) -> list[str]:
    """Limits of the answer, and what it rests on."""
    notes = [
        f"{mode['mode']}: a change of {100 * mode['missed']:.1f} % would have been missed half the "
        "time"
        for mode in document["modes"]
        if "missed" in mode
    ]
    if not document["differences"]:
        notes.append("nothing known differs between the sides")
    count, dirty = len(document["pairs"]), document["contaminated_pairs"]
    if dirty:
        notes.append(f"other programs used the machine in {dirty} of {count} pairs")
    if not document["took_turns"]:
        notes.append(NO_TURNS)
    return notes
