"""Published figures in a results folder: `imported/<label>.json`, the figures as they were read.

Rows are derived.

A file appears whole or not at all, and importing under the same label replaces it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from xla_sweeps.config import catalog
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.results import published
from xla_sweeps.results.published import Figure
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.system import files
from xla_sweeps.system.text import displayable

SCHEMA_VERSION = 1

MAX_BYTES = 16 * 2**20

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    """What a file of `imported/` holds."""

    schema_version: int
    label: str
    file: str
    imported_at: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import that was done: its file, its rows, its warnings, whether it replaced another."""

    path: Path
    figures: int
    rows: tuple[ComparisonRow, ...]
    warnings: tuple[str, ...]
    replaced: bool


def add(file: Path, results_dir: Path, *, label: str | None = None) -> Import:
    """Read a file of published figures and keep them in a results folder.

    Args:
        file: CSV with the columns `published.COLUMNS`.
        results_dir: made where it is missing.
        label: name of the import (default: the file's).

    Raises:
        ConfigError: the file or the label cannot be used; nothing was written.
        StoreError: the folder cannot be written; nothing half-written is left.
    """
    if label is not None and not _LABEL.fullmatch(label):
        raise ConfigError(
            f"--name {label}: up to 64 letters, digits and . _ - are allowed, "
            "a letter or digit first"
        )
    label = label or re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).strip("-._")[:64] or "published"
    figures = published.parse(_text(file), where=str(file))
    rows, warnings = published.rows(figures, catalog.load_catalog(), label=label)
    document = _Document(
        schema_version=SCHEMA_VERSION,
        label=label,
        file=file.name,
        figures=tuple(figures),
        imported_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path = results_dir / "imported" / f"{label}.json"
    replaced = path.exists()
    try:
        files.replace_whole(
            files.folder_in(results_dir, "imported") / path.name,
            json.dumps(asdict(document), indent=1, ensure_ascii=False).encode(),
        )
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return Import(
        path=path,
        figures=len(figures),
        rows=tuple(rows),
        warnings=tuple(warnings),
        replaced=replaced,
    )


def load(results_dir: Path) -> tuple[list[ComparisonRow], list[str]]:
    """The rows of everything that was imported, and a line for each file that could not be used."""
    rows: list[ComparisonRow] = []
    problems: list[str] = []
    for path in sorted((results_dir / "imported").glob("*.json")):
        try:
            document = _read(path)
            rows += published.rows(document.figures, catalog.load_catalog(), label=document.label)[
                0
            ]
        except Exception as error:
            reason = error.strerror or error if isinstance(error, OSError) else error
            problems.append(f"{path}: {displayable(reason)}; import the file again")
    return rows, problems


def _read(path: Path) -> _Document:
    document = msgspec.json.decode(files.read_regular(path))
    version = document.get("schema_version") if isinstance(document, dict) else None
    if type(version) is not int or version < 1:
        raise ValueError("no schema_version: not an import of xla_sweeps")
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"schema {version} is newer than this version's {SCHEMA_VERSION}: "
            "update xla_sweeps to read it"
        )
    return msgspec.convert(document, _Document)


def _text(file: Path) -> str:
    try:
        content = files.read_regular(file.resolve(), limit=MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{file}, line {line}: not UTF-8 (byte {content[error.start]:#04x}); save it as UTF-8"
        ) from error
