"""YAML of somebody else as plain values."""

from __future__ import annotations

import pytest
from composed import complaint_of

from xla_sweeps.config.foreign import read_values


def test_plain_yaml_becomes_plain_values_with_the_line_of_each_key() -> None:
    text = "a: {b: [1, 2.5, true, null, x]}\non: 2001-99-99\n1: .inf\n"
    assert read_values(text, where="s.yaml") == (
        {"a": {"b": [1, 2.5, True, None, "x"]}, "on": "2001-99-99", "1": float("inf")},
        {("a",): 1, ("a", "b"): 1, ("on",): 2, ("1",): 3},
    )
    assert read_values("# nothing\n", where="s.yaml") == (None, {})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3", "s.yaml:3: 'a' is already in line 1; keep one"),
        ("a: {1: x, '1': y}", "s.yaml:1: '1' is already in line 1; keep one"),
        (
            "a: !!python/object/apply:os.system [id]",
            "s.yaml:1: the tag tag:yaml.org,2002:python/object/apply:os.system is not allowed; "
            "write the plain value",
        ),
        ("a: !!set {x}", "s.yaml:1: the tag tag:yaml.org,2002:set is not allowed"),
        ("\na: !!int abc", "s.yaml:2: 'abc' cannot be read as int"),
        ("a: !!bool maybe", "s.yaml:1: 'maybe' cannot be read as bool"),
        (f"a: {'9' * 5000}", f"s.yaml:1: '{'9' * 40}' cannot be read as int"),
        ("{[a, b]: 1}", "s.yaml:1: expected a word as key"),
        ("<<: 3", "s.yaml:1: expected a word as key"),
        ("a: 1\n---\nb: 2", "s.yaml:3: a second document; give each a file"),
        ("a: [", "s.yaml:1: not valid YAML: "),
    ],
)
def test_what_is_no_plain_value_is_refused_with_its_line(text: str, line: str) -> None:
    assert complaint_of(read_values, text, where="s.yaml").startswith(line)
