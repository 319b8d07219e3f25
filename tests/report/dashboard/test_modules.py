"""The page's modules become one script, in the order of their imports."""

from __future__ import annotations

import re

import pytest

from xla_sweeps.report.dashboard.modules import ModuleError, joined
from xla_sweeps.report.dashboard.page import scripts

SUM = "/** A sum. */\nexport const sum = (a, b) => a + b;\n"
TWICE = 'import { sum } from "./sum.js";\n\nexport function twice(a) {\n  return sum(a, a);\n}\n'
MAIN = 'import { sum } from "./sum.js";\nimport { twice } from "./twice.js";\n\nsum(1, twice(2));\n'


def test_a_module_stands_after_those_it_imports_and_once() -> None:
    script = joined({"main": MAIN, "twice": TWICE, "sum": SUM}, "main")
    assert script == (
        "/** A sum. */\nconst sum = (a, b) => a + b;\n"
        "\n\nfunction twice(a) {\n  return sum(a, a);\n}\n"
        "\n\nsum(1, twice(2));\n"
    )


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        ({"main": MAIN, "sum": SUM}, "main.js imports twice.js, which does not exist"),
        (
            {"main": 'import { a } from "./a.js";\n', "a": 'import { b } from "./main.js";\n'},
            "imports in a circle: main -> a -> main",
        ),
        (
            {"main": 'import { twice } from "./sum.js";\n', "sum": SUM},
            "main.js imports twice of sum.js, which does not export it",
        ),
        (
            {"main": 'import { sum } from "./sum.js";\nlet [a, sum] = [];\n', "sum": SUM},
            "sum.js and main.js both declare sum: rename one",
        ),
        ({"main": "", "sum": SUM}, "sum: no module imports it"),
        ({"main": 'import * as all from "./sum.js";\n'}, "not an import or export"),
        ({"main": "export default 1;\n"}, "not an import or export"),
    ],
)
def test_modules_that_cannot_be_joined_are_named(modules: dict[str, str], said: str) -> None:
    with pytest.raises(ModuleError, match=re.escape(said)):
        joined(modules, "main")


def test_the_pages_own_modules_are_joined_without_a_trace_of_modules() -> None:
    script = joined(scripts(), "main")
    assert len(scripts()) > 20
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    for text in scripts().values():
        body = re.sub(r"^(import .*\n|export (?=\w+ ))", "", text, flags=re.MULTILINE)
        assert body in script
