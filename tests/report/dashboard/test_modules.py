"""The page's modules become one script, in the order of their imports."""

from __future__ import annotations

import re

import pytest

from xla_sweeps.report.dashboard.page import join_modules, scripts

SUM = "/** A sum. */\nexport const sum = (a, b) => a + b;\n"
TWICE = 'import { sum } from "./sum.js";\n\nexport function twice(a) {\n  return sum(a, a);\n}\n'
MAIN = 'import { sum } from "./sum.js";\nimport { twice } from "./twice.js";\n\nsum(1, twice(2));\n'


def test_a_module_stands_after_those_it_imports_and_once() -> None:
    script = join_modules({"main": MAIN, "twice": TWICE, "sum": SUM})
    assert script == (
        "/** A sum. */\nconst sum = (a, b) => a + b;\n"
        "\n\nfunction twice(a) {\n  return sum(a, a);\n}\n"
        "\n\nsum(1, twice(2));\n"
    )


@pytest.mark.parametrize("line", ['import * as all from "./sum.js";', "export default 1;"])
def test_a_line_of_another_form_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(line))):
        join_modules({"main": f"{line}\n", "sum": SUM})


def test_the_pages_own_modules_are_joined_without_a_trace_of_modules() -> None:
    script = join_modules(scripts())
    assert len(scripts()) > 15
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    for text in scripts().values():
        body = re.sub(r"^(import .*\n|export (?=\w+ ))", "", text, flags=re.MULTILINE)
        assert body in script
    names = re.findall(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", script, re.MULTILINE)
    assert len(names) > 250
    assert not {name for name in names if names.count(name) > 1}, "one script has one of each name"
