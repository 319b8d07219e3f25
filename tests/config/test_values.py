"""One value of the configuration: what is told of another than was expected."""

from __future__ import annotations

import pytest

from xla_sweeps.config.values import integer, number
from xla_sweeps.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("8", "; '8' is a text; write 8 without quotes"),
        ("8.0", "; '8.0' is a text; write 8.0 without quotes"),
        ("1e1", "; 1e1 is a text in YAML 1.1; write 1.0e+1"),
        *((other, "") for other in ("3.5", "0", "-8", "11", "1e2", "1e-1", "1e999", "9" * 400)),
    ],
)
def test_a_text_in_place_of_an_integer_is_told_what_to_write_if_that_is_one_within_bounds(
    text: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as told:
        integer({"k": text}, "k", at_least=1, at_most=10)
    assert str(told.value) == f"k={text}: expected an integer{hint}"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0.5", "; '0.5' is a text; write 0.5 without quotes"),
        ("3e-4", "; 3e-4 is a text in YAML 1.1; write 3.0e-4"),
        *((other, "") for other in ("0", "-1", "2", "9e9")),
    ],
)
def test_a_text_in_place_of_a_number_is_told_what_to_write_if_that_is_within_bounds(
    text: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as told:
        number({"k": text}, "k", at_most=1)
    assert str(told.value) == f"k={text}: expected a number above 0{hint}"
