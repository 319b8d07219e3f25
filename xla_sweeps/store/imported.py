"""Published figures of the study keras-xla-benchmarks in a results folder.

`imported/<label>.json` holds the figures as they were read; their comparison rows are derived. A
file appears whole or not at all, and importing under the same label replaces it.

A figure is one measurement: throughput over a hundred calls of four float32 images, eager (`xla`
False) or with jit_compile=True, each timed alone. So the rows have no interval, and the verdict
`ambiguous`, or `none` where only one mode was published. The study's names are names or aliases of
the catalog.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import msgspec

from xla_sweeps.analysis.pool import MIN_FLOOR
from xla_sweeps.config.catalog import CatalogEntry, load_catalog
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.schema.columns import (
    IMPORTED,
    ModeColumns,
    ProvenanceColumns,
    SpeedupColumns,
    TrialColumns,
    Verdict,
)
from xla_sweeps.schema.measurement import Count, Status
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.system import files
from xla_sweeps.system.text import displayable

SCHEMA_VERSION = 1

MAX_BYTES = 16 * 2**20

BATCH_SIZE = 4

STUDY = "published"
"""Label of the study's figures in the package: the fastest model of each size and GPU, with XLA."""

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_Text = Annotated[str, msgspec.Meta(min_length=1)]

_Number = Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]

_A_NUMBER = "a number from 1e-9 to 1e9"

COLUMNS: Mapping[str, tuple[str, Any, str]] = {
    "model_family": ("family", _Text, "a name"),
    "model_variant": ("variant", _Text, "a name"),
    "resolution": ("resolution_px", Count, "an integer, in pixels"),
    "xla": ("xla", bool, "True or False"),
    "accelerator": ("accelerator", _Text, "a name"),
    "flop (giga)": ("gmacs", _Number | None, f"{_A_NUMBER}, or nothing"),
    "params (million)": ("params_million", _Number | None, f"{_A_NUMBER}, or nothing"),
    "throughput (samples/sec)": ("throughput_samples_per_s", _Number, _A_NUMBER),
}
"""Member of a `Figure`, its type, and the type in words, by column of the file."""

ACCELERATORS = {"a100": "NVIDIA A100", "v100": "NVIDIA V100", "t4": "NVIDIA T4"}
"""Device names.

A driver says more (`NVIDIA A100-SXM4-40GB`), so measured rows stand under other names.
"""

_REGNET_BUILT = {
    f"regnet{kind}_{called}": f"regnet{kind}_{built}"
    for kind in "xy"
    for called, built in (("006", "008"), ("008", "016"), ("016", "002"))
}
"""The models that the study built under these names."""

_SOURCES = ("applications", "hub", "keras_cv")

_PARAMS_APART = 1.05
"""Factor from which on parameters are those of another model."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file.

    Attributes:
        line: in the file, from 1, the header's included.
        gmacs: multiply-accumulates of one image, 1e9 (the study calls them FLOPs), or None.
    """

    line: Count
    family: str
    variant: str
    resolution_px: Count
    xla: bool
    accelerator: str
    gmacs: _Number | None
    params_million: _Number | None
    throughput_samples_per_s: _Number


class _Versioned(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: Annotated[int, msgspec.Meta(ge=1)] = SCHEMA_VERSION


class _Document(_Versioned, frozen=True, kw_only=True):
    """Content of a file of `imported/`."""

    label: str
    file: str
    imported_at: str
    figures: list[Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import that was done: its file, its rows, its warnings, whether it replaced another."""

    path: Path
    figures: int
    rows: Sequence[ComparisonRow]
    warnings: Sequence[str]
    replaced: bool


def add(file: Path, results_dir: Path, *, label: str | None = None) -> Import:
    """Read a file of published figures and keep them in a results folder.

    Args:
        file: CSV with the columns `COLUMNS`.
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
    try:
        text = files.read_regular(file.resolve(), limit=MAX_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}, line {line}: not UTF-8; save it as UTF-8") from error
    figures = parse(text, where=str(file))
    rows, warnings = rows_of(figures, load_catalog(), label=label)
    document = _Document(
        label=label,
        file=file.name,
        figures=figures,
        imported_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path = results_dir / "imported" / f"{label}.json"
    replaced = path.exists()
    try:
        files.folder_in(results_dir, "imported")
        files.replace_whole(path, msgspec.json.format(msgspec.json.encode(document), indent=1))
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return Import(path=path, figures=len(figures), rows=rows, warnings=warnings, replaced=replaced)


def study() -> list[ComparisonRow]:
    """The rows of the public study's two tables, which ship with the package."""
    text = (resources.files("xla_sweeps.store") / "published.csv").read_text(encoding="utf-8")
    return rows_of(parse(text, where="published.csv"), load_catalog(), label=STUDY)[0]


def load(results_dir: Path) -> tuple[list[ComparisonRow], list[str]]:
    """The rows of everything that was imported, and a line for each file that could not be used."""
    rows: list[ComparisonRow] = []
    problems: list[str] = []
    for path in sorted((results_dir / "imported").glob("*.json")):
        try:
            content = files.read_regular(path)
            version = msgspec.json.decode(content, type=_Versioned).schema_version
            if version > SCHEMA_VERSION:
                problems.append(f"{path}: schema {version}; update xla_sweeps to read it")
                continue
            document = msgspec.json.decode(content, type=_Document)
            rows += rows_of(document.figures, load_catalog(), label=document.label)[0]
        except Exception as error:
            reason = error.strerror or error if isinstance(error, OSError) else error
            problems.append(f"{path}: {displayable(reason)}; import the file again")
    return rows, problems


def parse(text: str, *, where: str) -> list[Figure]:
    """The figures of a CSV file, in its order.

    Columns may stand in any order; further ones are ignored. Errors call the file `where`.

    Raises:
        ConfigError: one line with the file, the line and the column.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    except csv.Error as error:
        raise ConfigError(f"{where}, line {reader.line_num}: not CSV: {error}") from error
    if len(lines) < 2:
        raise ConfigError(f"{where}: expected a header, and a line for each figure below it")
    header = [cell.strip().lower() for cell in lines[0][1]]
    for column in COLUMNS:
        if header.count(column) != 1:
            raise ConfigError(
                f"{where}, line {lines[0][0]}: expected one column {column!r}, "
                f"got {header.count(column)}. Needed: {', '.join(COLUMNS)}"
            )
    return [
        _figure(dict(zip(header, cells, strict=False)), line=line, where=where)
        for line, cells in lines[1:]
    ]


def _figure(cells: Mapping[str, str], *, line: int, where: str) -> Figure:
    members: dict[str, Any] = {"line": line}
    for column, (member, kind, expected) in COLUMNS.items():
        cell = cells.get(column, "").strip()
        try:
            members[member] = msgspec.convert(cell or None, kind, strict=False)
        except msgspec.ValidationError:
            raise ConfigError(
                f"{where}, line {line}, column '{column}': expected {expected}, got {cell[:40]!r}"
            ) from None
    return Figure(**members)


def rows_of(
    figures: Iterable[Figure], catalog: Mapping[str, CatalogEntry], *, label: str
) -> tuple[list[ComparisonRow], list[str]]:
    """One row per model, resolution and accelerator, and a warning per name not in the catalog.

    The label of the import is a part of the rows' trial ids.
    """
    names = {word: entry for entry in catalog.values() for word in _words(entry)}
    names |= {name.lower(): entry for name, entry in catalog.items()}
    warnings: dict[str, str] = {}
    groups: dict[tuple[str, int, str], list[Figure]] = {}
    for figure in figures:
        named = names.get(figure.variant.lower())
        entry = _built(figure, named, catalog) if named else None
        if entry is None:
            what = f"'{figure.variant}' is not in the catalog and keeps its name"
            warnings.setdefault(figure.variant, f"line {figure.line}: {what}")
        model = entry.name if entry else figure.variant
        device = ACCELERATORS.get(figure.accelerator.lower(), figure.accelerator)
        groups.setdefault((model, figure.resolution_px, device), []).append(figure)
    rows = [
        _row(group, catalog.get(model), device=device, label=label)
        for (model, _, device), group in groups.items()
    ]
    return rows, list(warnings.values())


def _words(entry: CatalogEntry) -> set[str]:
    """The words that mean a model in a file, in lower case."""
    return {word.lower() for word in (entry.name, entry.variant, *entry.aliases)}


def _built(
    figure: Figure, named: CatalogEntry, catalog: Mapping[str, CatalogEntry]
) -> CatalogEntry:
    """The model behind a figure: of two that the name may mean, the one with its parameters."""
    built = catalog.get(_REGNET_BUILT.get(named.name, ""))
    params = figure.params_million
    if built is None or params is None:
        return built or named
    distances = {
        entry.name: abs(math.log(params / entry.published.params_million))
        for entry in (built, named)
        if entry.published
    }
    return catalog[min(distances, key=distances.__getitem__)] if distances else built


def _row(
    figures: Sequence[Figure], entry: CatalogEntry | None, *, device: str, label: str
) -> ComparisonRow:
    """The row of figures of one model, resolution and device; the model may be unknown."""
    figure = figures[0]
    model, size = entry.name if entry else figure.variant, figure.resolution_px
    rates = {
        mode: [one.throughput_samples_per_s for one in figures if one.xla is compiled]
        for mode, compiled in (("eager", False), ("XLA", True))
    }
    eager, xla = (statistics.median(measured) if measured else None for measured in rates.values())
    sources = tuple(entry.sources) if entry else ("",)
    source = next((name for name in _SOURCES if name in sources), sources[0])
    identity = "\n".join([label, model, str(size), device])
    return ComparisonRow(
        trial=TrialColumns(
            trial_id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            family=entry.family if entry else figure.family,
            variant=entry.variant if entry else figure.variant,
            model=model,
            source=source,
            task=entry.task if entry else "",
            resolution_px=size,
            batch_size=BATCH_SIZE,
            samples=BATCH_SIZE,
            precision="float32",
            scenario="call",
            effort="",
            device=device,
            params=round(1e6 * figure.params_million) if figure.params_million else None,
            macs=round(1e9 * figure.gmacs) if figure.gmacs else None,
            eager_is_graph=source == "hub",
        ),
        headline=True,
        candidate=_mode("xla", xla),
        baseline=_mode("eager", eager),
        speedup=SpeedupColumns(
            value=xla / eager if xla and eager else None,
            percent=100 * (xla / eager - 1) if xla and eager else None,
            absolute_samples_per_s=xla - eager if xla and eager else None,
            verdict=Verdict.AMBIGUOUS if xla and eager else Verdict.NONE,
            floor=MIN_FLOOR,
            replicates=1,
            rounds=1,
            host_bound=False,
        ),
        status=Status.OK,
        flags=(IMPORTED,),
        provenance=ProvenanceColumns(
            origin=IMPORTED,
            note="; ".join(_notes(figures, entry, device, rates)),
            command=_command(entry, source, size) if entry else "",
        ),
    )


def _notes(
    figures: Sequence[Figure],
    entry: CatalogEntry | None,
    device: str,
    rates: Mapping[str, Sequence[float]],
) -> list[str]:
    """Caveats of a row: its model, missing and repeated figures, the device."""
    if entry is None:
        notes = ["not in the catalog: the name is the file's"]
    else:
        notes = [
            f"called {name} in the file, whose study built {entry.name} under that name"
            for name in sorted({figure.variant for figure in figures})
            if name.lower() not in _words(entry)
        ]
    given, published = figures[0].params_million, entry.published if entry else None
    if entry and given and published:
        true = published.params_million
        if not 1 / _PARAMS_APART < given / true < _PARAMS_APART:
            notes.append(f"the file's {given:g} M parameters are not {entry.name}'s {true:g}")
    for mode, measured in rates.items():
        if not measured:
            notes.append(f"{mode} is not in the file")
        elif len(measured) > 1:
            notes.append(f"{mode} is in the file {len(measured)} times: the median")
    if device == ACCELERATORS["a100"]:
        notes.append("float32 with TF32 in matrix products, TensorFlow's default there")
    return notes


def _mode(mode: str, samples_per_s: float | None) -> ModeColumns:
    return ModeColumns(
        mode=mode,
        throughput_samples_per_s=samples_per_s,
        call_ms=1e3 * BATCH_SIZE / samples_per_s if samples_per_s else None,
    )


def _command(entry: CatalogEntry, source: str, size: int) -> str:
    """The command that measures the same here."""
    resolution = f" resolution={size}" if size != entry.resolution else ""
    return f"python -m xla_sweeps model={entry.name} source={source}{resolution} jit=true"
