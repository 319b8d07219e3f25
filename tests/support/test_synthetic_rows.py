"""The made-up rows: they contain every case of a page."""

from __future__ import annotations

import json
from collections import Counter

from synthetic_rows import make_rows


def test_the_same_arguments_give_the_same_rows() -> None:
    first, second = (json.dumps(list(make_rows(200, seed=3))) for _ in range(2))
    assert first == second
    assert first != json.dumps(list(make_rows(200, seed=4)))


def test_the_rows_contain_every_case_of_a_page() -> None:
    rows = list(make_rows(5000))
    assert 5000 <= len(rows) <= 5003
    assert len({(row["trial_id"], row["candidate"], row["baseline"]) for row in rows}) == len(rows)
    verdicts = Counter(row["verdict"] for row in rows)
    words = ("faster", "slower", "equivalent", "ambiguous", "failed")
    assert min(verdicts[word] for word in words) > 50
    assert len({row["family"] for row in rows}) > 30
    assert len({row["device"] for row in rows if row["origin"] == "measured"}) == 3
    assert len({row["status"] for row in rows}) > 6
    assert {row["candidate"] for row in rows} == {"xla", "graph", "graph_2"}
    assert any(row["origin"] == "imported" and row["speedup"] is None for row in rows)
    assert any(row["origin"] == "imported" and row["speedup"] is not None for row in rows)
    for row in rows:
        if row["p_value"] is not None:
            assert (row["p_value"] < 0.05) == (row["verdict"] in ("faster", "slower"))
