"""docs/notebook.ipynb runs from the start, in a real kernel; $UPDATE_DOCS stores its outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"

LIMIT_S = 800
"""For all cells; less than a minute on a machine that does nothing else."""

EXECUTE = "from nbclient.cli import main; main()"

TOLD = ("--startup_timeout", "300", "--output", "done")


def check(notebook: Any) -> None:
    """What a reader sees, whatever the verdicts."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert [each for each in outputs if each["output_type"] == "error"] == []
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    shown = [each["data"] for each in outputs if "data" in each]
    pages = ["".join(data.get("text/html", "")) for data in shown]
    trial, table = filter(None, pages)
    for page in (trial, table):
        assert "<script" not in page
        assert "://" not in page
        assert len(page.encode()) < 20_000
    assert all(f"\n {mode} " in trial for mode in ("graph", "xla"))
    assert table.count("\nsequential ") == 3
    text = "".join("".join(data["text/plain"]) for data in shown)
    assert "\x1b" not in text
    assert "What XLA makes of it" in text


def test_the_stored_notebook_shows_what_it_gives() -> None:
    content = NOTEBOOK.read_text("utf-8")
    assert len(content) < 200_000
    assert "/tmp/" not in content
    assert str(ROOT) not in content
    check(json.loads(content))


@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_notebook_runs_from_the_start(tmp_path: Path) -> None:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    (tmp_path / "notebook.ipynb").write_text(json.dumps(notebook), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", EXECUTE, *TOLD, "notebook.ipynb"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    text = (tmp_path / "done.ipynb").read_text("utf-8")
    executed = json.loads(text.replace(str(tmp_path), ""))
    check(executed)
    if "UPDATE_DOCS" in os.environ:
        for cell in executed["cells"]:
            cell["metadata"] = {}
        content = json.dumps(executed, indent=1, ensure_ascii=False)
        NOTEBOOK.write_text(f"{content}\n", "utf-8")
