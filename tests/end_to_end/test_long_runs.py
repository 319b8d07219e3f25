"""Long runs of hostile requests, racing drivers and chaos.

By hand they run for longer: `CHAOS_SECONDS=600 pytest tests/end_to_end/test_long_runs.py -k chaos`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from drivers import disturb_drivers, race
from paths import SUPPORT
from programs import run_program

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]

CHAOS_SECONDS = float(os.environ.get("CHAOS_SECONDS", "60"))

ROUNDS = int(os.environ.get("RACE_ROUNDS", "1"))

SEED = int(os.environ.get("LONG_RUN_SEED", "12"))


@pytest.mark.parametrize(
    ("real", "ahead"), [(False, 0)] if CHAOS_SECONDS < 100 else [(False, 0), (True, 0), (True, 1)]
)
def test_a_minute_of_chaos_neither_loses_nor_duplicates_a_record(real: bool, ahead: int) -> None:
    trials = 40 if real else int(5 * CHAOS_SECONDS)
    disturb_drivers(CHAOS_SECONDS, SEED, trials=trials, real=real, ahead=ahead)


@pytest.mark.parametrize(("drivers", "words"), [(2, ()), (4, ()), (3, ("--ahead", "1"))])
def test_drivers_share_a_sweep_without_a_false_death_or_a_second_measurement(
    drivers: int, words: tuple[str, ...], tmp_path: Path
) -> None:
    for number in range(ROUNDS):
        (folder := tmp_path / str(number)).mkdir()
        race(folder, drivers=drivers, words=words)


def test_hostile_requests_end_in_one_line_or_do_what_they_ask_for(tmp_path: Path) -> None:
    cases = ["--cases", os.environ.get("FUZZ_CASES", "200"), "--seed", str(SEED)]
    program, own = SUPPORT / "fuzz_commands.py", {"TMPDIR": str(tmp_path)}
    run_program(sys.executable, program, *cases, more=own, limit_s=3600)
    assert list(tmp_path.iterdir()) == []
