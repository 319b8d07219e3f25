"""Trials as the command line composes them, and what it says of wrong ones."""

from __future__ import annotations

import shlex

import pytest

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import Settings, settings_of
from xla_sweeps.errors import XlaSweepsError


def settings(*overrides: str, environ: dict[str, str] | None = None) -> Settings:
    explicit = {text.lstrip("+").partition("=")[0] for text in overrides}
    cpu = [] if "device" in explicit else ["device=cpu"]
    return settings_of(compose_config([*cpu, *overrides]), explicit=explicit, environ=environ or {})


def complaint(*overrides: str) -> str:
    with pytest.raises(XlaSweepsError) as caught:
        settings(*overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cases(table: str) -> list[tuple[list[str], str]]:
    """The rows of a table: words as a shell takes them, and how the line that refuses them begins.

    A row is `words -> line`; a long one goes on in the next line, at its arrow.
    """
    rows = [row.partition(" -> ") for row in table.strip().replace("\n  -> ", " -> ").splitlines()]
    return [(shlex.split(words), line) for words, _, line in rows]
