"""The parts of the parent's side stay small, and a scenario of another kind costs four files."""

from __future__ import annotations

import re
from pathlib import Path

from paths import ROOT

PACKAGE = ROOT / "xla_sweeps"


def test_a_cold_start_is_in_the_four_files_that_the_recipe_names() -> None:
    recipe = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (section,) = re.findall(r"^## Add a scenario whose call.*?(?=^## )", recipe, re.M | re.S)
    named = {Path(name) for name in re.findall(r"^\| `([\w/.]+\.py)` \|", section, re.M)}
    naming = re.compile(r"\bcold_start\b|COLD_START|ColdStart|Entry\.SAVED|SAVED_XLA")
    found = {
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if naming.search(path.read_text("utf-8"))
    }
    assert found == named
    assert len(named) == 4
