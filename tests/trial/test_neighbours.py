"""The busiest other processes, from made-up process tables."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from factories import make_record

from xla_sweeps.schema.measurement import Round
from xla_sweeps.trial.neighbours import FOREIGN, Spent, busiest, cause_of, disturbance_of, spending

TICKS = os.sysconf("SC_CLK_TCK")


def put(root: Path, pid: int, name: str, cpu_s: float, *, core: int = 0, started: int = 1) -> None:
    fields = ["S", *["0"] * 10, str(round(cpu_s * TICKS)), "0", "9000", "9000", *["0"] * 30]
    fields[19], fields[36] = str(started), str(core)
    (root / f"proc/{pid}").mkdir(parents=True)
    (root / f"proc/{pid}/stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")


def test_our_own_processes_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, 7, "py (thon)", 2.5)
    put(tmp_path, 8, "elsewhere", 9.0, core=5)
    put(tmp_path, os.getpid(), "ours", 9.0)
    (tmp_path / "proc/9").mkdir()
    (tmp_path / "proc/9/stat").write_text("gone")
    assert spending(tmp_path) == {
        (7, 1): Spent("py (thon)", 2.5),
        (8, 1): Spent("elsewhere", 9.0, core=5),
    }


def test_a_process_that_came_from_another_core_counts_from_the_first_look_on() -> None:
    before = {(1, 1): Spent("came", 9000.0, core=5), (2, 1): Spent("went", 10.0, core=0)}
    after = {
        (1, 1): Spent("came", 9000.01, core=0),
        (2, 1): Spent("went", 11.0, core=5),
        (3, 1): Spent("stayed", 0.5, core=1),
    }
    assert busiest(before, after, 1.0, {0, 1}) == ["stayed"]


def test_processes_of_one_name_count_together_and_ids_that_are_used_again_do_not() -> None:
    before = {(1, 1): Spent("python", 10.0), (2, 1): Spent("idle", 500.0)}
    after = {
        (1, 1): Spent("python", 10.6),
        (2, 1): Spent("idle", 500.01),
        (2, 9): Spent("chromium", 0.8),
        (3, 5): Spent("python", 0.5),
        (4, 5): Spent("cc1plus", 0.3),
        (5, 5): Spent("sh", 0.2),
    }
    assert busiest(before, after, 1.0, {0}) == ["python", "chromium", "cc1plus"]
    assert busiest(before, after, 10.0, {0}) == ["python", "chromium"]


def test_a_records_disturbance_is_a_sentence_and_absent_from_an_older_one() -> None:
    kept = {"foreign_cores": 1.43, "cores": 2, "busiest": ["python", "chromium"]}
    assert disturbance_of(kept) == "others use 1.4 of 2 cores (python, chromium)"
    assert disturbance_of({**kept, "busiest": []}) == "others use 1.4 of 2 cores"
    assert disturbance_of({"foreign_cores": 1.43}) == ""
    assert disturbance_of({**kept, "busiest": "x", "foreign_cores": ["a"]}) == ""


def test_what_contaminated_a_record_is_named_from_its_rounds() -> None:
    busy = replace(
        make_record(), contamination={"foreign_cores": 1.4, "cores": 2, "busiest": ["python"]}
    )
    assert cause_of(busy) == "others use 1.4 of 2 cores (python)"
    steal = "the hypervisor took 15% of the CPU"
    rounds = (Round(round=0, order=(), blocks=(), dirty=steal),)
    assert cause_of(replace(busy, rounds=rounds)) == steal
    others = (Round(round=1, order=(), blocks=(), dirty=f"{FOREIGN}1.4 cores"),)
    assert cause_of(replace(busy, rounds=rounds + others)).startswith("others use 1.4 of 2 cores")
    assert cause_of(replace(busy, rounds=(*rounds, *rounds, *others))) == steal
    quiet = replace(busy, rounds=(), contamination={})
    assert cause_of(quiet) == ""
