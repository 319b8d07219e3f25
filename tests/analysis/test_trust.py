"""The test of the number of A/A pairs whose intervals lie past 1 %."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from changed_rows import with_columns
from factories import make_record

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.analysis.trust import Trust, trust
from xla_sweeps.report.overall import trust_words
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.store.rows import load
from xla_sweeps.store.store import Store
from xla_sweeps.store.table import headlines

(PAIR,) = summarize([make_record({"graph": 0.2, "graph_2": 0.2})]).comparisons


def pairs(count: int, wrong: int, **changes: Any) -> list[ComparisonRow]:
    """A/A pairs, so many of them with intervals past 1 %."""
    different = {"speedup_low": 0.95, "speedup_high": 0.98, "verdict": Verdict.SLOWER}
    equal = {"speedup_low": 0.985, "speedup_high": 1.005, "verdict": Verdict.EQUIVALENT}
    each = [different] * wrong + [equal] * (count - wrong)
    return [with_columns(PAIR, **{**columns, "p_value": 0.5, **changes}) for columns in each]


def trust_of(rows: list[ComparisonRow]) -> Trust:
    """The test of pairs that there are."""
    result = trust(rows)
    assert result is not None
    return result


@pytest.mark.parametrize(("wrong", "count"), [(0, 1), (1, 1), (2, 2), (1, 20), (4, 20), (5, 20)])
def test_the_test_is_the_binomial_one(wrong: int, count: int) -> None:
    trusted = trust_of(pairs(count, wrong))
    expected = scipy.stats.binomtest(wrong, count, 0.05, alternative="greater").pvalue
    assert trusted.p_value == pytest.approx(expected)
    assert trusted.untrusted == (expected < 0.01)
    assert trust_words(trusted).startswith("untrusted: ") == trusted.untrusted


def test_pairs_across_processes_count_beside_those_within() -> None:
    bounds = {"aa_across": 1.1, "aa_across_low": 1.04, "aa_across_high": 1.2, "floor_across": 0.05}
    narrow = {"aa_across": 1.0, "aa_across_low": 1.005, "aa_across_high": 1.02}
    trusted = trust_of([*pairs(3, 1), *pairs(1, 0, **bounds), *pairs(1, 0, **narrow)])
    assert (trusted.within, trusted.across) == ((1, 5), (1, 2))
    assert trust_words(trusted) == (
        "2 of 7 A/A pairs differ by more than 1 % (1 of 5 in the same processes, 1 of 2 across "
        "processes); 5 % may. Verdicts count differences above 5 %."
    )
    below = {"aa_across": 0.9, "aa_across_low": 0.8, "aa_across_high": 0.96}
    assert trust_of(pairs(1, 0, **below)).across == (1, 1)


@pytest.mark.parametrize("count", [8, 15, 20, 100])
def test_a_floor_that_the_pairs_raise_does_not_judge_them(count: int) -> None:
    verdict = {"verdict": Verdict.AMBIGUOUS, "floor": 0.04}
    untrusted = trust_of(pairs(count, count // 2, **verdict))
    assert untrusted.untrusted
    words = trust_words(untrusted)
    assert f"{count // 2} of {count} A/A pairs differ by more than 1 %" in words
    assert "Verdicts count differences above 4 %" in words


def test_records_of_copies_that_differ_by_two_percent_are_untrusted_with_a_raised_floor(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    for number in range(24):
        for record in copies([(-2.0, -2.0 + 0.02 * (-1) ** number)] * 2):
            store.save(replace(record, trial_id=f"{number:016x}"))
    rows = headlines(load(tmp_path).table, {f"{number:016x}" for number in range(24)})
    assert min(row.speedup.floor for row in rows) > 0.02
    untrusted = trust_of(rows)
    assert untrusted.untrusted
    assert untrusted.floor == rows[0].speedup.floor


def test_only_clean_pairs_that_know_how_processes_differ_count() -> None:
    assert trust(pairs(3, 3, p_value=None)) is None
    assert trust(pairs(3, 3, status=Status.CONTAMINATED)) is None
    assert trust(pairs(3, 3, candidate="xla")) is None
    assert trust(pairs(3, 3, origin="imported")) is None


def copies(levels: Sequence[tuple[float, float]], **changes: Any) -> list[Record]:
    """A replicate for each pair of log seconds a call of the two copies."""
    return [
        make_record(
            {"graph": float(np.exp(first)), "graph_2": float(np.exp(second))},
            noise=0.002,
            seed=number,
            replicate=number,
            **changes,
        )
        for number, (first, second) in enumerate(levels)
    ]


def test_a_copy_in_every_second_process_is_compared_with_the_other_in_the_others() -> None:
    levels = [(-2.0, -2.0), (-2.2, -2.2)] * 3
    row = summarize(copies(levels)).comparisons[0]
    assert row.speedup.value == pytest.approx(1, abs=0.002)
    assert row.speedup.aa_across == pytest.approx(np.exp(0.2), rel=0.002)
    assert (row.speedup.aa_across_low or 9) < np.exp(0.2) < (row.speedup.aa_across_high or 0)
    assert trust([with_columns(row, p_value=1.0)]) is not None


def test_fewer_than_six_clean_replicates_or_two_modes_make_no_pair_across_processes() -> None:
    row = summarize(copies([(-2.0, -2.0)] * 5)).comparisons[0]
    assert row.speedup.aa_across is None
    busy = summarize(copies([(-2.0, -2.0)] * 6, status=Status.CONTAMINATED)).comparisons[0]
    assert busy.speedup.aa_across is None
    modes = [make_record(noise=0.01, seed=number, replicate=number) for number in range(6)]
    assert summarize(modes).comparisons[0].speedup.aa_across is None
