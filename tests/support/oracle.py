"""A second implementation of what a results folder must hold, which shares nothing with the first.

It reads the files as plain JSON, checks what must hold of numbers, times, samples and names, and
computes once more what the kept rows say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from record_oracle import Unreadable, problems_of, read
from rows_oracle import Kept


def contradictions(results_dir: Path) -> list[str]:
    """A line for each thing that cannot be true of a results folder."""
    lines: list[str] = []
    kept = Kept(results_dir)
    for folder in sorted((results_dir / "records").iterdir()):
        documents: list[dict[str, Any]] = []
        for path in sorted(folder.glob("[0-9]*.json")) if folder.is_dir() else ():
            try:
                documents.append(read(path))
            except Unreadable as error:
                lines.append(f"{path}: {error}")
            else:
                lines += [f"{path}: {problem}" for problem in problems_of(path, documents[-1])]
        kept.compare(folder.name, documents)
    return [*lines, *kept.differing()]
