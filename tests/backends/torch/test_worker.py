"""Temporary folder of a process that measures PyTorch; no framework is loaded here."""

from __future__ import annotations

import os
import runpy
import tempfile
from pathlib import Path

import pytest

from xla_sweeps.backends.keras import entry


@pytest.mark.parametrize("name", ["plain", "a b", "it's", 'a"b', "a$b"])
def test_the_compiler_gets_a_folder_without_blanks_and_quotes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr(entry, "serve", lambda *given, **named: None)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for variable in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(variable, str(folder))
    runpy.run_module("xla_sweeps.backends.torch.worker", run_name="__main__")
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert not set(str(cache)) & set(" '\"$")
    assert folder.samefile(cache.parent)
    assert folder.samefile(os.environ["TMPDIR"])
