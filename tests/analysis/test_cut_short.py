"""Replicates that ended early: which count, and what is said of a trial that has no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from factories import CONFIG, make_record, make_rounds

from xla_sweeps.analysis.summary import headline_failed, summarize
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Failure, Flagged, ModeOutcome, Phase, Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow


def headline(records: Sequence[Record]) -> ComparisonRow:
    return summarize(records).comparisons[0]


def cut(rounds: int, *, status: Status = Status.INTERRUPTED, **changes: Any) -> Record:
    """A replicate of an effort of at least ten rounds that ended after so many."""
    config = {**CONFIG, "effort": {"name": "quick", "rounds_min": 10}}
    failure = Failure(phase=Phase.MEASURE, kind="interrupted", message="interrupted")
    fields: dict[str, Any] = {
        "flags": (Flagged("cut_short"),),
        "failure": failure,
        "config": config,
    }
    return make_record(count=rounds, status=status, **{**fields, **changes})


def test_a_replicate_that_was_cut_short_counts_from_the_least_rounds_of_its_effort_on() -> None:
    whole = [make_record(replicate=number) for number in range(2)]
    slow = {"graph": 0.2, "xla": 0.4}
    short, enough = (cut(rounds, call_s=slow, replicate=2) for rounds in (9, 10))
    fewer, more = headline([*whole, short]), headline([*whole, enough])
    assert fewer.speedup.value == pytest.approx(2)
    assert fewer.speedup.replicates == 2
    assert summarize([*whole, short]).replicates == 2
    assert more.speedup.replicates == 3
    contaminated = replace(enough, rounds=make_rounds(slow, count=12, dirty=range(3)))
    assert headline([*whole, contaminated]).speedup.replicates == 2


def test_a_trial_that_was_only_interrupted_says_so() -> None:
    unreached = {
        label: ModeOutcome(status=Status.OK, first_call_s=1.0) for label in ("graph", "xla")
    }
    for record in (cut(9), cut(9, modes=unreached), cut(0, modes=unreached, flags=())):
        row = headline([record])
        assert (row.status, row.failure.message) == (Status.INTERRUPTED, "interrupted")
        assert row.speedup.value is None
        assert headline_failed([record])


def test_too_few_rounds_are_a_reason() -> None:
    row = headline([make_record(count=5)])
    assert (row.status, row.speedup.verdict) == (Status.SKIPPED, Verdict.NOT_MEASURED)
    assert row.failure.message == "too few rounds were measured"
    assert "effort.mode_cap_s" in row.failure.hint
