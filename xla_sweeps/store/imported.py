"""Published figures of the study keras-xla-benchmarks in a results folder.

`imported/<label>.csv` is the file as it was imported, and `published.csv` the study's own tables.
A figure is one measurement: throughput over a hundred calls of four float32 images, eager (`xla`
False) or with jit_compile=True, each timed alone. So the rows have no interval, and the verdict
`ambiguous`, or `none` where only one mode was published. The study's names are names or aliases of
the catalog; where it built another model under a name, the column `model` says which.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec

from xla_sweeps.analysis.pool import MIN_FLOOR
from xla_sweeps.config.catalog import CatalogEntry, load_catalog
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.schema.columns import (
    IMPORTED,
    ModeColumns,
    ProvenanceColumns,
    SpeedupColumns,
    Verdict,
)
from xla_sweeps.schema.measurement import Count, Status
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.schema.trial_columns import TrialColumns
from xla_sweeps.system import files
from xla_sweeps.system.text import displayable

MAX_BYTES = 16 * 2**20

BATCH_SIZE = 4

STUDY = "published"
"""Label of the figures in the package: all that the study's repository printed, in any commit.

Each line has its commit, file and place. Lines with `derived` are differences and quotients of
printed figures.
"""

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_Text = Annotated[str, msgspec.Meta(min_length=1)]

_Number = Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]

_COLUMNS = {
    "family": "model_family",
    "variant": "model_variant",
    "resolution_px": "resolution",
    "gmacs": "flop (giga)",
    "params_million": "params (million)",
    "throughput_samples_per_s": "throughput (samples/sec)",
    "absolute_samples_per_s": "absolute_speedup",
    "percent": "speedup_percent",
}

_EXPECTED = {
    "absolute_speedup": "a number from -1e9 to 1e9",
    "speedup_percent": "a number from -99.99 to 1e9",
    "float": "a number from 1e-9 to 1e9",
    "int": "an integer from 0",
    "bool": "True or False",
    "str": "a name",
}
"""Content of a cell, by its column or the column's type."""

ACCELERATORS = {"a100": "NVIDIA A100", "v100": "NVIDIA V100", "t4": "NVIDIA T4"}
"""Device names.

A driver says more (`NVIDIA A100-SXM4-40GB`), so measured rows stand under other names.
"""

_SOURCES = ("applications", "hub", "keras_cv")


class Figure(msgspec.Struct, frozen=True, kw_only=True, rename=_COLUMNS):
    """One line of the file: a throughput, or a speedup over eager.

    Attributes:
        gmacs: multiply-accumulates of one image, 1e9 (the study calls them FLOPs), or None.
        absolute_samples_per_s: difference of the throughputs with XLA and in eager mode.
        percent: that difference in percent of the throughput in eager mode.
        model: the model's name in the catalog, if it is not the one that `variant` means.
        run: name of a run that others do not replace; its figures have rows of their own.
        date: the day on which it was published.
    """

    family: _Text
    variant: _Text
    resolution_px: Count
    xla: bool | None
    accelerator: _Text
    gmacs: _Number | None
    params_million: _Number | None
    throughput_samples_per_s: _Number | None
    absolute_samples_per_s: Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)] | None = None
    percent: Annotated[float, msgspec.Meta(ge=-99.99, le=1e9)] | None = None
    model: str | None = None
    run: str | None = None
    date: str | None = None
    note: str | None = None
    line: Count


class _Throughput(msgspec.Struct, frozen=True, rename=_COLUMNS):
    """The needs of a line without a speedup."""

    xla: bool
    throughput_samples_per_s: _Number


NEEDED = tuple(
    field.encode_name
    for field in msgspec.structs.fields(Figure)
    if field.required and field.name != "line"
)
"""Columns that a file must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import that was done: its file, its rows, its warnings, whether it replaced another."""

    path: Path
    figures: int
    rows: Sequence[ComparisonRow]
    warnings: Sequence[str]
    replaced: bool


def add(file: Path, results_dir: Path, *, label: str | None = None) -> Import:
    """Read a file of published figures and keep it in a results folder.

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
        content = files.read_regular(file.resolve(), limit=MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from error
    figures = parse(content, where=str(file))
    rows, warnings = rows_of(figures, load_catalog(), label=label)
    path = results_dir / "imported" / f"{label}.csv"
    replaced = path.exists()
    try:
        files.folder_in(results_dir, "imported")
        files.replace_whole(path, content)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
    return Import(path=path, figures=len(figures), rows=rows, warnings=warnings, replaced=replaced)


def study() -> list[ComparisonRow]:
    """The rows of what the public study published, which ships with the package."""
    content = (resources.files("xla_sweeps.store") / "published.csv").read_bytes()
    return rows_of(parse(content, where="published.csv"), load_catalog(), label=STUDY)[0]


def load(results_dir: Path) -> tuple[list[ComparisonRow], list[str]]:
    """The rows of everything that was imported, and a line for each file that could not be used."""
    rows: list[ComparisonRow] = []
    problems: list[str] = []
    for path in sorted((results_dir / "imported").glob("*.csv")):
        try:
            figures = parse(files.read_regular(path, limit=MAX_BYTES), where=str(path))
            rows += rows_of(figures, load_catalog(), label=path.stem)[0]
        except OSError as error:
            problems.append(f"{path}: {displayable(error.strerror or error)}")
        except ConfigError as error:
            problems.append(f"{displayable(error)}; import the file again")
    return rows, problems


def parse(content: bytes, *, where: str) -> list[Figure]:
    """The figures of a CSV file, in its order, with columns in any order; others are ignored.

    Raises:
        ConfigError: one line with the file, the line and the column.
    """
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        lines = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{where}, line {line}: not UTF-8; save it as UTF-8") from error
    except csv.Error as error:
        raise ConfigError(f"{where}, line {reader.line_num}: not CSV: {error}") from error
    if len(lines) < 2:
        raise ConfigError(f"{where}: expected a header, and a line for each figure below it")
    header = [cell.strip().lower() for cell in lines[0][1]]
    for column in NEEDED:
        if header.count(column) != 1:
            raise ConfigError(
                f"{where}, line {lines[0][0]}: expected one column {column!r}, "
                f"got {header.count(column)}. Needed: {', '.join(NEEDED)}"
            )
    empty = dict.fromkeys(header)
    return [
        _figure({**empty, **dict(zip(header, cells, strict=False))}, line=line, where=where)
        for line, cells in lines[1:]
    ]


def _figure(cells: Mapping[str, str | None], *, line: int, where: str) -> Figure:
    values = {column: (cell or "").strip() or None for column, cell in cells.items()}
    try:
        figure = msgspec.convert({**values, "line": line}, Figure, strict=False)
        if figure.absolute_samples_per_s is None and figure.percent is None:
            msgspec.convert(values, _Throughput, strict=False)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        column = place.removesuffix("`")
        kinds = (words for kind, words in _EXPECTED.items() if f"`{kind}" in problem)
        expected = _EXPECTED.get(column) or next(kinds)
        cell = (values[column] or "")[:40]
        raise ConfigError(
            f"{where}, line {line}, column '{column}': expected {expected}, got {cell!r}"
        ) from None
    return figure


def rows_of(
    figures: Sequence[Figure], catalog: Mapping[str, CatalogEntry], *, label: str
) -> tuple[list[ComparisonRow], list[str]]:
    """One row per model, resolution, accelerator and run, and a warning per unknown name."""
    names = {
        word.lower(): entry
        for entry in catalog.values()
        for word in (entry.variant, *entry.aliases)
    }
    names |= {name.lower(): entry for name, entry in catalog.items()}
    warnings: dict[str, str] = {}
    groups: dict[tuple[str, int, str, str], list[Figure]] = {}
    for figure in figures:
        entry = names.get((figure.model or figure.variant).lower())
        if entry is None:
            what = f"'{figure.variant}' is not in the catalog and keeps its name"
            warnings.setdefault(figure.variant, f"line {figure.line}: {what}")
        model = entry.name if entry else figure.variant
        device = ACCELERATORS.get(figure.accelerator.lower(), figure.accelerator)
        place = model, figure.resolution_px, device, figure.run or ""
        groups.setdefault(place, []).append(figure)
    rows = [
        _row(group, catalog.get(model), device=device, label=label)
        for (model, _, device, _), group in groups.items()
    ]
    return rows, list(warnings.values())


def _row(
    figures: Sequence[Figure], entry: CatalogEntry | None, *, device: str, label: str
) -> ComparisonRow:
    """The row of figures of one model, resolution and device; the model may be unknown."""
    figure = figures[0]
    model, size = entry.name if entry else figure.variant, figure.resolution_px
    rates = {
        mode: _drop_none(one.throughput_samples_per_s for one in figures if one.xla is compiled)
        for mode, compiled in (("eager", False), ("XLA", True))
    }
    eager, xla = (statistics.median(measured) if measured else None for measured in rates.values())
    printed = _drop_none(one.percent for one in figures)
    gain = xla / eager if xla and eager else 1 + printed[0] / 100 if printed else None
    differences = _drop_none(one.absolute_samples_per_s for one in figures)
    difference = xla - eager if xla and eager else differences[0] if differences else None
    sources = tuple(entry.sources) if entry else ("",)
    source = next((name for name in _SOURCES if name in sources), sources[0])
    identity = "\n".join([label, model, str(size), device, *filter(None, [figure.run])])
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
            params=next(
                (round(1e6 * one) for one in _drop_none(f.params_million for f in figures)), None
            ),
            macs=next((round(1e9 * one) for one in _drop_none(f.gmacs for f in figures)), None),
            eager_is_graph=source == "hub",
        ),
        headline=True,
        candidate=_mode("xla", xla),
        baseline=_mode("eager", eager),
        speedup=SpeedupColumns(
            value=gain,
            percent=100 * (gain - 1) if gain else None,
            absolute_samples_per_s=difference,
            verdict=Verdict.AMBIGUOUS if gain else Verdict.NONE,
            floor=MIN_FLOOR,
            replicates=1,
            rounds=1,
            host_bound=False,
        ),
        status=Status.OK,
        flags=(IMPORTED,),
        provenance=ProvenanceColumns(
            origin=IMPORTED,
            measured_at=min(filter(None, (one.date for one in figures)), default=""),
            note="; ".join(_notes(figures, entry, device, rates)),
            command=_command(entry, source, size) if entry else "",
        ),
    )


def _notes(
    figures: Sequence[Figure],
    entry: CatalogEntry | None,
    device: str,
    rates: Mapping[str, Sequence[float]],
) -> Iterator[str]:
    """Caveats of a row: its model, missing and repeated figures, the device."""
    if entry is None:
        yield "not in the catalog: the name is the file's"
    for name in sorted({figure.variant for figure in figures if entry and figure.model}):
        yield f"called {name} in the file, whose study built {figures[0].model} under that name"
    yield from sorted({f"run: {figure.run}" for figure in figures if figure.run})
    yield from dict.fromkeys(figure.note for figure in figures if figure.note)
    if not any(rates.values()):
        yield "the speedup alone is in the file"
        rates = {}
    for mode, measured in rates.items():
        if not measured:
            yield f"{mode} is not in the file"
        elif len(measured) > 1:
            yield f"{mode} is in the file {len(measured)} times: the median"
    if device == ACCELERATORS["a100"]:
        yield "float32 with TF32 in matrix products, TensorFlow's default there"


def _drop_none(figures: Iterable[float | None]) -> list[float]:
    return [figure for figure in figures if figure is not None]


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
