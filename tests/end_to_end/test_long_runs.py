"""Long runs of hostile requests, tampered folders, racing drivers and chaos; each is a script too.

By hand they run for longer: `python tests/support/chaos.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from chaos import run
from drivers import is_clean, race
from paths import SUPPORT
from tamper import tamper

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]

CASES = os.environ.get("FUZZ_CASES", "200")


def test_a_minute_of_chaos_neither_loses_nor_duplicates_a_record() -> None:
    report = run(60, 20261121, trials=300)
    assert report["lost"] == 0


@pytest.mark.parametrize("drivers", [2, 4])
def test_drivers_share_a_sweep_without_a_false_death_or_a_second_measurement(
    drivers: int, tmp_path: Path
) -> None:
    result = race(tmp_path, drivers=drivers, trials=3, seconds=2.0)
    assert is_clean(result), result


def test_hostile_requests_end_in_one_line_or_do_what_they_ask_for(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "fuzz_commands.py"), "--cases", CASES, "--seed", "12"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_no_reader_falls_over_tampered_records_and_check_names_the_damage(tmp_path: Path) -> None:
    tally = tamper(tmp_path, count=200, seed=12)
    assert tally.crashes == []
    assert tally.harmful["damage"] > 80
    assert tally.share("damage") >= 0.95, tally.silent
