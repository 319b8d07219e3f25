"""Tampered results folders: no reader falls or hangs, and `check` names what was harmed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tamper import tamper


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_no_reader_falls_over_tampered_records_and_check_names_the_damage(tmp_path: Path) -> None:
    tally = tamper(tmp_path, count=200, seed=12)
    assert tally.crashes == []
    assert tally.harmful["damage"] > 80
    assert tally.share("damage") >= 0.95, tally.silent
