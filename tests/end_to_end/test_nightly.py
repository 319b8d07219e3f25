"""The nightly script, as it is but for the set-up."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from made_files import make_programs
from paths import ROOT
from programs import run_program

PAGE = "tests/report/dashboard/assets/test_table.py"


SETUP = """#!/bin/sh
echo >>runs
echo "run: ${TF_ENABLE_ONEDNN_OPTS-its own} ${ONEDNN_MAX_CPU_ISA-all} ${OPENBLAS_CORETYPE-any}"
"""

PYTHON = """#!/bin/sh
echo "asked: $@"
[ "$(wc -l <runs)" -gt 2 ] || exec "{}" "$@"
"""
"""Collects in the first two runs, which a third one would only repeat."""


def test_the_nightly_script_runs_what_the_usual_run_leaves_out_then_all_as_elsewhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "scripts").mkdir()
    for script in ("test", "nightly"):
        shutil.copy(ROOT / "scripts" / script, tmp_path / "scripts")
    make_programs(tmp_path / "scripts", SETUP, "setup")
    make_programs(tmp_path / ".venv" / "bin", PYTHON.format(sys.executable), "python")
    for name in ("pyproject.toml", "tests", "xla_sweeps", "conf"):
        (tmp_path / name).symlink_to(ROOT / name)
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in ("TF_ENABLE_ONEDNN_OPTS", "ONEDNN_MAX_CPU_ISA")
    }
    words = ("--collect-only", "--quiet", "--numprocesses=0", PAGE)
    done = run_program(tmp_path / "scripts/nightly", *words, cwd=tmp_path, env=own)
    long, *usual = done.stdout.split("run: ")[1:]
    assert long.startswith("its own all any\n")
    one, *_ = [line for line in long.splitlines() if "test_the_table_is_sorted_by_a_click" in line]
    assert one.startswith(PAGE), "which both browsers do alike"
    assert [run.partition("\n")[0] for run in usual] == [
        "0 all any",
        "its own AVX2 any",
        "its own all Haswell",
    ]
    assert f"{PAGE}::test_" in usual[0]
    assert one not in usual[0].splitlines()
    (asked,) = {run.partition("asked: ")[2].partition("\n")[0] for run in usual}
    assert asked.endswith(f"-m not exhaustive --collect-only --quiet --numprocesses=0 {PAGE}")
