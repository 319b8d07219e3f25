"""Values as Hydra overrides."""

from __future__ import annotations

from typing import Any

import pytest

from xla_sweeps.config.compose import compose_config
from xla_sweeps.schema.overrides import override_value, overrides


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (4, "4"),
        (0.5, "0.5"),
        ("resnet50", "resnet50"),
        ("4", "'4'"),
        ("true", "'true'"),
        ("1e5", "'1e5'"),
        ("a b", "'a b'"),
        ("it's", "'it\\'s'"),
        (["graph", "xla"], "[graph,xla]"),
        ({"a": [1, None]}, "{a:[1,null]}"),
    ],
)
def test_values_are_written_as_hydra_reads_them(value: Any, text: str) -> None:
    assert override_value(value) == text


@pytest.mark.parametrize(
    "value",
    ["a b", "it's", "x=1", "[1,2]", "{a}", "a,b", "$x", "ä", "back\\slash", "end\\", "q\\'"],
)
def test_hydra_reads_every_text_back(value: str) -> None:
    composed = compose_config([*overrides({"results_dir": value})])
    assert composed["results_dir"] == value
