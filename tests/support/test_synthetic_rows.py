"""The made-up rows, and the second computation of what the page must show: the package agrees with both."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict

import numpy as np
import page_oracle
import pytest
from synthetic_rows import NUMBERS, TEXTS, columns_of, make_rows

from xla_sweeps.analysis.overview import overview_of, shared_ranks
from xla_sweeps.report.dashboard import build


def test_the_columns_are_those_of_the_page() -> None:
    assert (TEXTS, NUMBERS) == (build.CATEGORIES, build.NUMBERS)


def test_the_same_arguments_give_the_same_rows() -> None:
    first, second = (json.dumps(list(make_rows(200, seed=3))) for _ in range(2))
    assert first == second
    assert first != json.dumps(list(make_rows(200, seed=4)))


def test_the_rows_hold_what_a_page_meets() -> None:
    rows = list(make_rows(5000))
    assert 5000 <= len(rows) <= 5003
    assert len({(row["trial_id"], row["candidate"], row["baseline"]) for row in rows}) == len(rows)
    verdicts = Counter(row["verdict"] for row in rows)
    assert min(verdicts[word] for word in page_oracle.VERDICTS) > 50
    assert len({row["family"] for row in rows}) > 30
    assert len({row["device"] for row in rows if row["origin"] == "measured"}) == 3
    assert len({row["status"] for row in rows}) > 6
    assert {row["candidate"] for row in rows} == {"xla", "graph", "graph_2"}
    assert any(row["origin"] == "imported" and row["speedup"] is None for row in rows)
    assert any(row["origin"] == "imported" and row["speedup"] is not None for row in rows)
    for row in rows:
        if row["p_value"] is not None:
            assert (row["p_value"] < 0.05) == (row["verdict"] in ("faster", "slower"))


@pytest.mark.parametrize("baseline", ["graph", "eager"])
@pytest.mark.parametrize("count", [0, 30, 5000])
def test_the_package_sums_up_as_the_second_computation_does(baseline: str, count: int) -> None:
    rows = list(make_rows(count))
    found = asdict(overview_of(columns_of(rows), baseline=baseline))
    expected = page_oracle.overview(rows, baseline)
    families = dict(
        zip(
            [family["family"] for family in expected["families"]],
            expected.pop("families"),
            strict=True,
        )
    )
    assert len(found["families"]) == len(families)
    for family in found["families"]:
        assert family == {
            name: pytest.approx(value) if isinstance(value, float) else value
            for name, value in families[family["family"]].items()
        }
    for name, value in expected.items():
        assert found[name] == (pytest.approx(value) if isinstance(value, float) else value), name


def test_the_package_shares_ranks_as_the_second_computation_does() -> None:
    rows = [
        row
        for row in make_rows(5000)
        if row["device"] == "AMD EPYC 9654" and row["candidate"] == "xla"
    ]
    ranked = page_oracle.ranked(rows, page_oracle.speedup)
    assert shared_ranks([(row["speedup_low"], row["speedup_high"]) for _, row in ranked]) == [
        rank for rank, _ in ranked
    ]
    assert len({rank for rank, _ in ranked}) < np.sum([rank is not None for rank, _ in ranked])
