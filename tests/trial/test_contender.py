"""The parts of the parent's side stay small, and a scenario of another kind costs four files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from paths import ROOT

PACKAGE = ROOT / "xla_sweeps"

LONGEST_FUNCTION = 50

PARTS = ("conductor", "contender", "crew", "passes", "rounds")


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_the_conductor_has_short_functions(name: str) -> None:
    tree = ast.parse((PACKAGE / "trial" / f"{name}.py").read_text("utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lengths = {one.name: (one.end_lineno or 0) - one.lineno + 1 for one in functions}
    assert {name for name, lines in lengths.items() if lines > LONGEST_FUNCTION} == set()


def test_a_cold_start_is_in_the_four_files_that_the_recipe_names() -> None:
    recipe = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (section,) = re.findall(r"^## Add a scenario whose call.*?(?=^## )", recipe, re.M | re.S)
    named = {Path(name) for name in re.findall(r"^\| `([\w/.]+\.py)` \|", section, re.M)}
    naming = re.compile(r"\bcold_start\b|COLD_START|ColdStart|Entry\.SAVED|SAVED_XLA")
    others = {"jax", "torch"}
    found = {
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if naming.search(path.read_text("utf-8")) and not others & {*path.parts}
    }
    assert found == named
    assert len(named) == 4
