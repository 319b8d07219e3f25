"""Files made for a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def make_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their path in a folder, with the folders between."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make_programs(folder: Path, text: str, *names: str) -> Path:
    """Write a program under these names; the folder, for a search path."""
    make_files(folder, dict.fromkeys(names, text))
    for name in names:
        (folder / name).chmod(0o755)
    return folder
