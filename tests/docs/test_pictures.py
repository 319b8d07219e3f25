"""The picture of the packages is that of the code."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from paths import ROOT


def test_the_picture_of_the_packages_is_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    importlib.import_module("pictures").structure(tmp_path / "structure.svg")
    drawn, kept = (tmp_path / "structure.svg", ROOT / "docs" / "structure.svg")
    assert drawn.read_text() == kept.read_text(), "make it again: scripts/pictures structure"
