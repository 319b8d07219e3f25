"""The nightly script, as it is but for the set-up."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from paths import ROOT

PAGE = "tests/report/dashboard/assets/test_table.py"


def test_the_nightly_script_runs_tests_that_the_usual_run_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for script in ("test", "nightly"):
        shutil.copy(ROOT / "scripts" / script, tmp_path / "scripts")
    (tmp_path / "scripts" / "setup").write_text("#!/bin/sh\n")
    (tmp_path / "scripts" / "setup").chmod(0o755)
    for name in (".venv", "pyproject.toml", "tests", "xla_sweeps", "conf"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = subprocess.run(
        ["scripts/nightly", "--collect-only", "--quiet", "--numprocesses=0", PAGE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    (one,) = [line for line in done.stdout.splitlines() if line.startswith(PAGE)]
    assert "test_the_table_is_sorted_by_a_click" in one, "which both browsers do alike"
