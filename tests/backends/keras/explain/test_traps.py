"""The table of traps: what a new one costs, and what becomes of one that cannot be looked for."""

from __future__ import annotations

import re

import pytest
from paths import ROOT

from xla_sweeps.schema.explanation import State, TrapName
from xla_sweeps.schema.measurement import Phase

pytestmark = pytest.mark.tf

PACKAGE = ROOT / "xla_sweeps"


def test_a_trap_is_a_name_and_a_function_in_at_most_three_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipe = text.partition("## Add a trap of `explain`: two files")[2].partition("\n## ")[0]
    files = re.findall(r"(?m)^\| `([\w/]+\.py)` \|", recipe)
    assert files == ["schema/explanation.py", "backends/keras/explain/traps.py"]
    sources = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    for name in TrapName:
        assert f"{name.name} = " in sources[PACKAGE / files[0]]
        users = [path for path, source in sources.items() if f"TrapName.{name.name}" in source]
        assert 1 <= len(users) <= 2, (name, users)


def test_what_a_look_raises_is_why_its_trap_is_not_known() -> None:
    from xla_sweeps.backends.keras.explain.traps import Finding, Looks, look_for, looks, trap_found

    table: Looks = {}

    @looks(table, TrapName.OTHER_SHAPE, after=Phase.VERIFY)
    def find(model: str) -> Finding:
        return trap_found(model, "fix it")

    @looks(table, TrapName.OTHER_VALUES, after=Phase.VERIFY)
    def fail(model: str) -> Finding:
        raise ValueError(f"no {model}")

    assert list(look_for(table, "net", Phase.TRACE)) == []
    traps = [(trap.name, trap.state, trap.what) for trap in look_for(table, "net", Phase.VERIFY)]
    assert traps == [
        (TrapName.OTHER_SHAPE, State.FOUND, "net"),
        (TrapName.OTHER_VALUES, State.UNKNOWN, "no net"),
    ]
