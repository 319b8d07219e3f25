"""Read the published figures of the study keras-xla-benchmarks as comparison rows. Pure.

A figure there (columns: `COLUMNS`) is one measurement: throughput over a hundred calls of four
float32 images, eager (`xla` False) or with jit_compile=True, each timed alone. So the rows have no
interval, and no verdict but `ambiguous`. The study's names are names or aliases of the catalog.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from xla_sweeps.analysis.pool import MIN_FLOOR
from xla_sweeps.config.catalog import CatalogEntry
from xla_sweeps.errors import ConfigError
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

_Text = Annotated[str, msgspec.Meta(min_length=1)]

_Number = Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]

_A_NUMBER = "a number from 1e-9 to 1e9"

COLUMNS: Mapping[str, tuple[str, Any, str]] = {
    "model_family": ("family", _Text, "a name"),
    "model_variant": ("variant", _Text, "a name"),
    "resolution": ("resolution_px", Count, "a whole number of pixels"),
    "xla": ("xla", bool, "True or False"),
    "accelerator": ("accelerator", _Text, "a name"),
    "flop (giga)": ("gmacs", _Number | None, f"{_A_NUMBER}, or nothing"),
    "params (million)": ("params_million", _Number | None, f"{_A_NUMBER}, or nothing"),
    "throughput (samples/sec)": ("throughput_samples_per_s", _Number, _A_NUMBER),
}
"""Member of a `Figure`, its type, and the type in words, by column of the file."""

BATCH_SIZE = 4

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

_MACS_APART, _PARAMS_APART = 1.25, 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
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


_Identified = tuple[Figure, CatalogEntry | None, tuple[str, ...]]
"""A figure, its model, and notes on it."""

_Group = Sequence[_Identified]


def parse(text: str, *, where: str) -> list[Figure]:
    """The figures of a CSV file, in its order.

    Columns may stand in any order; further ones are ignored.

    Args:
        text: of the file.
        where: what to call it in errors.

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


def rows(
    figures: Sequence[Figure], catalog: Mapping[str, CatalogEntry], *, label: str
) -> tuple[list[ComparisonRow], list[str]]:
    """One row per model, resolution and accelerator, and a warning per name not in the catalog.

    Args:
        figures: of one import.
        catalog: by name.
        label: of the import; part of the rows' trial ids.
    """
    names = _index(catalog)
    warnings: dict[str, str] = {}
    groups: dict[tuple[str, int, str], list[_Identified]] = {}
    for figure in figures:
        entry, notes = _identified(figure, names, catalog)
        if entry is None:
            warnings.setdefault(figure.variant, _unknown(figure, names))
        model = entry.name if entry else figure.variant
        device = ACCELERATORS.get(figure.accelerator.lower(), figure.accelerator)
        groups.setdefault((model, figure.resolution_px, device), []).append((figure, entry, notes))
    return [_row(key, group, label=label) for key, group in groups.items()], list(warnings.values())


def _index(catalog: Mapping[str, CatalogEntry]) -> dict[str, str]:
    """Names of the catalog by every name, alias and variant; a name wins over the others."""
    aliases = {
        word.lower(): entry.name
        for entry in catalog.values()
        for word in (entry.variant, *entry.aliases)
    }
    return {**aliases, **{name.lower(): name for name in catalog}}


def _identified(
    figure: Figure, names: Mapping[str, str], catalog: Mapping[str, CatalogEntry]
) -> tuple[CatalogEntry | None, tuple[str, ...]]:
    """The catalog's model behind a figure, and notes on it."""
    name = names.get(figure.variant.lower())
    if name is None:
        return None, ("not in the catalog: the name is the file's",)
    entry, notes = catalog[name], []
    built = catalog.get(_REGNET_BUILT.get(name, ""))
    if built and _is_nearer(figure.params_million, built, than=entry):
        notes.append(
            f"called {figure.variant} in the file, whose study built {built.name} under that name"
        )
        entry = built
    return entry, (*notes, *_doubts(figure, entry))


def _is_nearer(params_million: float | None, built: CatalogEntry, *, than: CatalogEntry) -> bool:
    """True if the parameters are unknown, or nearer to those of what was built."""
    if params_million is None:
        return True
    sizes = [entry.published.params_million for entry in (built, than) if entry.published]
    distances = [abs(math.log(params_million / size)) for size in sizes]
    return distances == sorted(distances)


def _doubts(figure: Figure, entry: CatalogEntry) -> list[str]:
    """Notes on parameters and multiply-accumulates in the file that are not the model's."""
    published = entry.published
    if published is None:
        return []
    pairs = [(figure.params_million, published.params_million, "M parameters", _PARAMS_APART)]
    if published.gmacs and figure.resolution_px == entry.resolution:
        pairs.append((figure.gmacs, published.gmacs, "G multiply-accumulates", _MACS_APART))
    return [
        f"the file's {given:g} {unit} are not {entry.name}'s {true:g}"
        for given, true, unit, apart in pairs
        if given is not None and not 1 / apart < given / true < apart
    ]


def _unknown(figure: Figure, names: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(figure.variant.lower(), list(names), n=1, cutoff=0.5)
    hint = f"; the nearest is '{names[near[0]]}'" if near else ""
    what = f"'{figure.variant}' is not in the catalog and keeps its name"
    return f"line {figure.line}: {what}{hint}"


def _rates(group: _Group) -> tuple[float | None, float | None, list[str]]:
    """Throughput of eager and of XLA, and notes on them."""
    notes = list(dict.fromkeys(note for _, _, doubts in group for note in doubts))
    rates: list[float | None] = []
    for mode, compiled in (("eager", False), ("XLA", True)):
        measured = [
            figure.throughput_samples_per_s for figure, _, _ in group if figure.xla is compiled
        ]
        rates.append(statistics.median(measured) if measured else None)
        if not measured:
            notes.append(f"{mode} is not in the file")
        elif len(measured) > 1:
            notes.append(f"{mode} is in the file {len(measured)} times: the median")
    return rates[0], rates[1], notes


def _row(key: tuple[str, int, str], group: _Group, *, label: str) -> ComparisonRow:
    model, size, device = key
    figure, entry, _ = group[0]
    eager, xla, notes = _rates(group)
    if device == ACCELERATORS["a100"]:
        notes.append("float32 with TF32 in matrix products, TensorFlow's default there")
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
            verdict=Verdict.AMBIGUOUS,
            preliminary=True,
            floor=MIN_FLOOR,
            replicates=1,
            rounds=1,
            host_bound=False,
        ),
        status=Status.OK,
        flags=(IMPORTED,),
        provenance=ProvenanceColumns(
            origin=IMPORTED,
            note="; ".join(notes),
            command=_command(entry, source, size) if entry else "",
        ),
    )


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
