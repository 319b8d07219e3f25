"""The help text."""

from __future__ import annotations

from xla_sweeps.config import catalog
from xla_sweeps.report.terminal.help import help_text


def test_help_names_every_model_within_its_width() -> None:
    text = help_text(catalog.load_catalog(), [("results [DIR]", "rows")])
    words = set(text.split())
    assert {name for name in catalog.load_catalog() if not name.endswith("_backbone")} <= words
    assert "NAME_backbone" in words
    assert max(map(len, text.splitlines())) <= 80
