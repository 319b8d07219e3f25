"""Whatever is typed, no command shows a traceback, hangs, or leaves what it should not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import SUPPORT

CASES = os.environ.get("FUZZ_CASES", "200")


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
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
