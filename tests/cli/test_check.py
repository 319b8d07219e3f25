"""The command `check`: it finds what is inconsistent in a results folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from quick_trial import record

from xla_sweeps.cli.check import check
from xla_sweeps.results.store import Store

CHECKED: Sequence[tuple[str, str, str]] = [
    ("replicate", '"replicate": 0', '"replicate": 7'),
    ("trial_id", '"trial_id": "t0"', '"trial_id": "t9"'),
    ("unknown status", '"status": "ok",\n "config"', '"status": "fine",\n "config"'),
    ("finished before", "2026-01-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00"),
]


@pytest.mark.parametrize(("word", "before", "after"), CHECKED)
def test_check_reports_each_kind_of_inconsistency(
    word: str, before: str, after: str, tmp_path: Path
) -> None:
    _, path = Store(tmp_path).save(record("t0", "unsupported_op", {}))
    path.write_text(
        path.read_text()
        .replace('"unsupported_op"', '"ok"', 1)
        .replace('"ok"', '"unsupported_op"', 1)
    )
    text = path.read_text().replace(
        '"status": "unsupported_op",\n "config"', '"status": "ok",\n "config"'
    )
    assert before in text
    path.write_text(text.replace(before, after, 1))
    assert any(word in line for line in check(tmp_path)[1]), check(tmp_path)
