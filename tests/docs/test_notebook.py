"""docs/notebook.ipynb runs from the start, in a real kernel; $UPDATE_DOCS stores its outputs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT
from programs import run_program

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"

LIMIT_S = 800
"""For all cells; less than a minute on a machine that does nothing else."""

EXECUTE = "from nbclient.cli import main; main()"

TOLD = ("--startup_timeout", "300", "--output", "done")


def execute(notebook: Any, folder: Path, *options: str) -> str:
    """The notebook as a real kernel leaves it."""
    (folder / "notebook.ipynb").write_text(json.dumps(notebook), "utf-8")
    words = ("-c", EXECUTE, *TOLD, *options, "notebook.ipynb")
    own = {"PYTHONPATH": str(ROOT), "HOME": str(folder)}
    run_program(sys.executable, *words, cwd=folder, more=own, limit_s=LIMIT_S)
    return (folder / "done.ipynb").read_text("utf-8")


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
    text = execute(notebook, tmp_path)
    executed = json.loads(text.replace(str(tmp_path), ""))
    check(executed)
    if "UPDATE_DOCS" in os.environ:
        for cell in executed["cells"]:
            cell["metadata"] = {}
        content = json.dumps(executed, indent=1, ensure_ascii=False)
        NOTEBOOK.write_text(f"{content}\n", "utf-8")


WRONG = """\
import traceback, sys
import xla_sweeps as xs
xs.measure("resnet51")
---
traceback.print_exception(sys.last_value)
---
xs.measure(3)
---
1 / 0
"""


def test_a_mistake_in_a_notebook_is_one_line(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": str(number), "metadata": {}, "source": source}
        | {"outputs": [], "execution_count": None}
        for number, source in enumerate(WRONG.split("---\n"))
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    executed = json.loads(execute(notebook, tmp_path, "--allow-errors"))
    name, whole, number, other = (cell["outputs"][0] for cell in executed["cells"])
    assert name["traceback"] == [f"ConfigError: {name['evalue']}"]
    assert "Did you mean 'resnet50'?" in name["evalue"]
    assert "in measure" in "".join(whole["text"]), "the traceback is still there for who asks"
    assert number["traceback"] == [f"ConfigError: {number['evalue']}"]
    assert "expected a name" in number["evalue"]
    assert len(other["traceback"]) > 1, "errors of others are as they were"
