"""The one declaration of the options: whatever else names them agrees with it."""

from __future__ import annotations

from typing import Any

import yaml
from options_document import markdown
from paths import ROOT

from xla_sweeps.config import catalog
from xla_sweeps.config.compose import group_choices
from xla_sweeps.schema import options
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.option import description
from xla_sweeps.schema.options import BY_NAME, OPTIONS
from xla_sweeps.schema.trial import REPLICATES

PRIVATE = {"hydra", "defaults"}


def test_the_configuration_has_the_declared_keys_and_defaults() -> None:
    configured = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text("utf-8"))
    chosen = {
        key: value
        for entry in configured["defaults"]
        if entry != "_self_"
        for key, value in entry.items()
    }
    files = {option.name: option.default for option in OPTIONS if option.in_files}
    assert files == {key: value for key, value in chosen.items() if " " not in key}
    plain: dict[str, Any] = {}
    for option in OPTIONS:
        chosen_too = {"name": option.default} if option.choices else {}
        if not option.in_files:
            plain[option.name] = {**chosen_too, **option.keys} if option.keys else option.default
    assert plain == {key: value for key, value in configured.items() if key not in PRIVATE}


def test_the_choices_are_those_that_exist() -> None:
    assert list(BY_NAME["source"].choices) == ["auto", *catalog.SOURCES]
    assert list(BY_NAME["scenario"].choices) == list(Scenario)
    assert sorted(BY_NAME["effort"].choices) == group_choices("effort")
    for level, meaning in BY_NAME["effort"].choices.items():
        file = yaml.safe_load((ROOT / "conf" / "effort" / f"{level}.yaml").read_text("utf-8"))
        assert file["replicates"] == REPLICATES[level]
        assert set(file) == {"name", *BY_NAME["effort"].keys}
        assert meaning.split()[0] == str(file["replicates"])


def test_every_default_that_has_choices_is_one_of_them() -> None:
    for option in OPTIONS:
        if option.choices:
            assert option.default_text in option.choices
            assert f"{option.default_text} (default" in description(option)
        else:
            assert description(option).endswith(f"(default: {option.default_text})")


def test_the_document_of_the_options_is_up_to_date() -> None:
    text = (ROOT / "docs" / "options.md").read_text("utf-8")
    block = text.partition("<!-- options -->\n")[2].partition("<!-- end of options -->")[0]
    assert block == markdown(), (
        "put this between the markers of docs/options.md: "
        "PYTHONPATH=tests/support .venv/bin/python -m options_document"
    )


def test_a_name_is_read_in_the_form_of_every_record() -> None:
    names = [options.name_of(value) for value in ({"name": "call"}, "call", None, {})]
    assert names == ["call", "call", "", ""]
