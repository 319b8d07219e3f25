"""Sentences over every small set of pairs: n = 1 and 2, equal ends, all open, all contaminated."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from changed_rows import with_columns
from report_rows import SWEEP, failed, pair
from shown import rows_text, text_shown

from xla_sweeps.analysis.overview import by_device, overview
from xla_sweeps.report import study
from xla_sweeps.report.advice import all_caveats, answer
from xla_sweeps.report.overall import overall_answer, overall_word
from xla_sweeps.report.sentences import OTHERWISE
from xla_sweeps.report.terminal.sweep_summary import show_sweep
from xla_sweeps.report.terminal.tables import show_tables
from xla_sweeps.report.wandb_report.text import sections
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow

KINDS = ("faster", "slower", "equivalent", "ambiguous", "busy", "failed")

PLURAL = re.compile(
    r"\b1 (?:\w+ )?(?:trial|pair|model|row|replicate|configuration|setting|ranking|device)s\b"
)

EQUAL = re.compile(r"([\d.,]+)(?: \w+)? to \1\b|\(([\d.]+)×? to \2")


def row_of_kind(kind: str, number: int) -> ComparisonRow:
    speedup = {"faster": 2.0, "slower": 0.5, "equivalent": 1.0, "busy": 1.4}.get(kind, 1.3)
    bounds = {"speedup_low": 0.4, "speedup_high": 6.0, "replicates_to_settle": 1.0}
    changes: dict[str, dict[str, Any]] = {
        "equivalent": {"verdict": Verdict.EQUIVALENT},
        "ambiguous": {"verdict": Verdict.AMBIGUOUS, **bounds},
        "busy": {"verdict": Verdict.AMBIGUOUS, "status": Status.CONTAMINATED, **bounds},
    }
    made = failed(number) if kind == "failed" else pair(number, speedup)
    return with_columns(made, **changes.get(kind, {}))


def sets() -> Iterator[tuple[str, ...]]:
    """Every set of one or two kinds, repeated ones too, and of three that have two alike."""
    for size in (1, 2):
        yield from itertools.combinations_with_replacement(KINDS, size)
    yield from ((one, one, other) for one, other in itertools.permutations(KINDS[::2], 2))


def said_at_80(rows: Sequence[ComparisonRow]) -> str:
    """All that a sweep, the questions of the study, the answers and the report say."""
    counts = Counter(str(row.status) for row in rows)
    text = text_shown(show_sweep, "s", rows=rows, counts=counts, planned=len(rows), **SWEEP)
    text += rows_text(*rows) + text_shown(show_tables, study.of_rows(rows))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    singles = [f"{answer(row)} {all_caveats(row)}" for row in rows]
    report = [section["text"] for section in sections(rows, 3)]
    whole = overall_answer(overview(rows), by_device(rows))
    return "\n".join([text, *singles, *report, whole])


@pytest.mark.parametrize("kinds", list(sets()), ids="-".join)
def test_no_sentence_says_more_than_the_intervals(
    kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [row_of_kind(kind, number) for number, kind in enumerate(kinds, start=1)]
    text = " ".join(said_at_80(rows).split())
    assert not PLURAL.search(text), PLURAL.findall(text)
    assert not EQUAL.search(text), EQUAL.search(text)
    clear = sum(kind in KINDS[:3] for kind in kinds)
    open_ = len(kinds) - clear - kinds.count("failed")
    has_mean = re.search(r"geometric mean speedup|typically", text)
    assert bool(has_mean) == (clear > open_), text
    word = overall_word(overview(rows))
    kinds_of_verdict = {*kinds} - {"ambiguous", "busy"}
    assert word != OTHERWISE or len(kinds_of_verdict) > 1, (word, kinds)
    assert not clear or "faster in 0 of 1" not in text
    if "busy" in kinds:
        assert "~" in text
