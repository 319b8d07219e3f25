"""Say which models compile, agree and are faster, as a sentence, a table and Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from xla_sweeps.analysis.compatibility import Row, counts_of, rank
from xla_sweeps.report.advice import name_of
from xla_sweeps.report.figures import NONE, interval, times
from xla_sweeps.report.markdown import escape, table
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.system.text import count_noun, displayable

HEADINGS = ("source", "models", "compile", "agree", "faster", "slower")

PROBLEMS = ("do not compile", "not known", "do not agree", "slower")
"""Words for each `rank`."""

SHOWN = 20


def sentence(rows: Sequence[Row]) -> str:
    """The answer: the numbers of models that compile, agree and are faster."""
    counts, candidate = counts_of(rows), name_of(rows[0]["candidate"])
    text = f"{candidate} compiles {counts['compile']} of {count_noun(len(rows), 'model')}"
    text += f" and refuses {counts['refused']}" if counts["refused"] else ""
    unknown = len(rows) - counts["compile"] - counts["refused"]
    text += f"; {unknown} failed otherwise" if unknown else ""
    text += f". Outputs agree with eager's in {counts['agree']}."
    if any(row["speedup"] for row in rows):
        words = {Verdict.EQUIVALENT: "as fast", Verdict.AMBIGUOUS: "not told apart"}
        words = {Verdict.FASTER: "faster", Verdict.SLOWER: "slower", **words}
        told = ", ".join(f"{counts[verdict]} {word}" for verdict, word in words.items())
        untimed = counts["agree"] - sum(counts[verdict] for verdict in words)
        told += f", {untimed} not timed" if untimed > 0 else ""
        text += f" Against {name_of(rows[0]['baseline'])}: {told}."
    return text


def by_source(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """A line of `HEADINGS` for each source, the commonest first."""
    lines = []
    for source, count in Counter(row["source"] for row in rows).most_common():
        own = [row for row in rows if row["source"] == source]
        counts, timed = counts_of(own), any(row["speedup"] for row in own)
        told = [str(counts[word]) if timed else NONE for word in HEADINGS[4:]]
        lines.append((source, str(count), str(counts["compile"]), str(counts["agree"]), *told))
    return lines


def _problems(rows: Sequence[Row], place: int) -> list[tuple[str, ...]]:
    """Model, source, result and reason of the rows of one rank."""
    return [
        (
            *(row["model"], row["source"]),
            row["status"]
            if place < PROBLEMS.index("slower")
            else times(row["speedup"]) + f" ({interval(row['speedup_low'], row['speedup_high'])})",
            row["failure_message"],
        )
        for row in rows
        if rank(row) == place
    ]


def markdown_text(rows: Sequence[Row]) -> str:
    """The answer as Markdown."""
    lines = [line for place in range(len(PROBLEMS)) for line in _problems(rows, place)]
    parts = [[escape(sentence(rows), 1000)], table(HEADINGS, by_source(rows))]
    parts += [table(("model", "source", "result", "why"), lines)] if lines else []
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def text_of(rows: Sequence[Row], skipped: Mapping[str, int]) -> str:
    """The answer in 80 columns; `skipped` has the number of models by the reason."""
    lines = [*_wrap(sentence(rows), 0), ""]
    for source, *numbers in (HEADINGS, *by_source(rows)):
        lines.append(f"{source:14}{''.join(f'{number:>9}' for number in numbers)}")
    for place, heading in enumerate(PROBLEMS):
        problems = _problems(rows, place)
        lines += ["", heading] if problems else []
        for model, source, result, why in problems[:SHOWN]:
            lines += [*_wrap(f"{model} ({source}): {result}", 2), *_wrap(why, 6)]
        more = len(problems) - SHOWN
        lines += [f"  and {more} more: --format csv"] if more > 0 else []
    lines += ["", "skipped"] if skipped else []
    for why, count in skipped.items():
        lines += _wrap(f"{count_noun(count, 'model')}: {why}", 2)
    return "".join(f"{displayable(line)}\n" for line in lines)


def _wrap(text: str, indent: int) -> list[str]:
    margin, later = " " * indent, " " * (indent + 2 if indent else 0)
    return textwrap.wrap(text, 80, initial_indent=margin, subsequent_indent=later)
