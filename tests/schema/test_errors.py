"""Hints at the nearest name."""

from __future__ import annotations

import re

from paths import ROOT

from xla_sweeps.errors import did_you_mean, unknown_name


def test_a_hint_is_another_word_than_the_given_one() -> None:
    for given, allowed, meant in (
        ("tracker", ["tracker", "backend"], None),
        ("JIT", ["jit"], "jit"),
        ("Wandb", ["wandb"], "wandb"),
    ):
        hint = re.search(r"Did you mean '(.*?)'", str(unknown_name("option", given, allowed)))
        assert (hint and hint[1]) == meant
    assert did_you_mean("tracker", ["tracker", "trackers"]) == " Did you mean 'trackers'?"
    assert did_you_mean("tracker", ["tracker"]) == ""


def test_every_hint_is_made_in_one_place() -> None:
    files = (ROOT / "xla_sweeps").rglob("*.py")
    hints = {path.name: path.read_text("utf-8").lower().count("did you mean '") for path in files}
    assert {name: count for name, count in hints.items() if count} == {"errors.py": 1}


def test_beside_a_hint_few_names_are_listed() -> None:
    allowed = [f"effort.key_{number}" for number in range(21)]
    line = str(unknown_name("option", "effort.kye_3", allowed, listed=21))
    assert line == "unknown option 'effort.kye_3'. Did you mean 'effort.key_3'? There are 21."
    assert "effort.key_20" in str(unknown_name("option", "x", allowed, listed=21))
