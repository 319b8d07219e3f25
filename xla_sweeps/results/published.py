"""Read the published figures of the study keras-xla-benchmarks as comparison rows. Pure.

A figure there (columns: `COLUMNS`) is one measurement: throughput over a hundred calls of four
float32 images, eager (`xla` False) or with jit_compile=True, each timed alone. So the rows have no
interval, and no verdict but `ambiguous`.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

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

COLUMNS = (
    "model_family",
    "model_variant",
    "resolution",
    "xla",
    "accelerator",
    "flop (giga)",
    "params (million)",
    "throughput (samples/sec)",
)

BATCH_SIZE = 4

ACCELERATORS = {"a100": "NVIDIA A100", "v100": "NVIDIA V100", "t4": "NVIDIA T4"}
"""Device names.

A driver says more (`NVIDIA A100-SXM4-40GB`), so measured rows stand under other names.
"""

_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

_SPELLINGS = (
    (r"efficient(?:net)?(b\d|[sml])v2|efficient(?:net)?v2(b\d|[sml])", r"efficientnetv2\1\2"),
    (r"efficient(?:net)?(?:v1)?(b\d)", r"efficientnet\1"),
    (r"(resnet\d+)v1", r"\1"),
    (r"(?:mlp)?mixer([bl]\d\d).*", r"mixer\1"),
    (r"(vit(?:[sbl]\d+|r\d+[sl]\d+)).*", r"\1"),
    (r"yolov8(xs|xl|[sml])(?:pascalvoc|coco|detector)?", r"yolov8\1"),
    (r"retinanet(?:resnet50)?(?:pascalvoc|coco)?", r"retinanetresnet50"),
)
"""How others write names of the catalog, both with nothing but letters and digits in them."""

_REGNET = re.compile(r"(regnet[xy])(006|008|016)")

_REGNET_BUILT = {"006": "008", "008": "016", "016": "002"}
"""What the study built under these names, for X and Y alike."""

_SOURCES = ("applications", "hub", "keras_cv")

_MACS_APART, _PARAMS_APART = 1.25, 1.05

_LEAST, _MOST = 1e-9, 1e9

_Plausible = Annotated[float, msgspec.Meta(ge=_LEAST, le=_MOST)]


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
    gmacs: _Plausible | None
    params_million: _Plausible | None
    throughput_samples_per_s: _Plausible


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
        header = next((line for line in reader if any(cell.strip() for cell in line)), None)
        if header is None:
            raise ConfigError(f"{where}: the file is empty")
        places = _places(header, where=where)
        figures = []
        for cells in reader:
            if any(cell.strip() for cell in cells):
                figures.append(_figure(cells, places, line=reader.line_num, where=where))
    except csv.Error as error:
        raise ConfigError(f"{where}, line {reader.line_num}: not CSV: {error}") from error
    if not figures:
        raise ConfigError(f"{where}: no line below the header")
    return figures


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
    groups: dict[
        tuple[str, int, str], list[tuple[Figure, CatalogEntry | None, tuple[str, ...]]]
    ] = {}
    for figure in figures:
        entry, notes = _identified(figure, names, catalog)
        if entry is None:
            warnings.setdefault(figure.variant, _unknown(figure, names))
        model = entry.name if entry else figure.variant
        device = ACCELERATORS.get(figure.accelerator.lower(), figure.accelerator)
        groups.setdefault((model, figure.resolution_px, device), []).append((figure, entry, notes))
    return [_row(key, group, label=label) for key, group in groups.items()], list(warnings.values())


def _places(header: Sequence[str], *, where: str) -> dict[str, int]:
    given = [cell.strip().lower() for cell in header]
    missing = [column for column in COLUMNS if column not in given]
    if missing:
        near = difflib.get_close_matches(missing[0], given, n=1, cutoff=0.5)
        hint = f" Is it '{near[0]}'?" if near else ""
        raise ConfigError(
            f"{where}, line 1: no column {', '.join(map(repr, missing))}.{hint} "
            f"Needed: {', '.join(COLUMNS)}"
        )
    twice = [column for column in COLUMNS if given.count(column) > 1]
    if twice:
        raise ConfigError(f"{where}, line 1: column {twice[0]!r} is there twice")
    return {column: given.index(column) for column in COLUMNS}


def _figure(cells: Sequence[str], places: Mapping[str, int], *, line: int, where: str) -> Figure:
    def text(column: str) -> str:
        cell = cells[places[column]].strip() if places[column] < len(cells) else ""
        if not cell and column not in ("flop (giga)", "params (million)"):
            raise ConfigError(f"{where}, line {line}, column '{column}': nothing there")
        return cell

    def number(column: str) -> float:
        given = text(column)
        try:
            value = float(given)
        except ValueError:
            raise ConfigError(
                f"{where}, line {line}, column '{column}': {given[:40]!r} is not a number"
            ) from None
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{where}, line {line}, column '{column}': {given} is not above 0")
        if not _LEAST <= value <= _MOST:
            raise ConfigError(
                f"{where}, line {line}, column '{column}': {given} is not between "
                f"{_LEAST:g} and {_MOST:g}"
            )
        return value

    size, xla = number("resolution"), text("xla").lower()
    if not size.is_integer():
        raise ConfigError(
            f"{where}, line {line}, column 'resolution': {size:g} is no whole number of pixels"
        )
    if xla not in _TRUTH:
        raise ConfigError(
            f"{where}, line {line}, column 'xla': {text('xla')[:40]!r} is neither True nor False"
        )
    return Figure(
        line=line,
        family=text("model_family"),
        variant=text("model_variant"),
        resolution_px=int(size),
        xla=_TRUTH[xla],
        accelerator=text("accelerator"),
        throughput_samples_per_s=number("throughput (samples/sec)"),
        gmacs=number("flop (giga)") if text("flop (giga)") else None,
        params_million=number("params (million)") if text("params (million)") else None,
    )


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _index(catalog: Mapping[str, CatalogEntry]) -> dict[str, str]:
    """Names of the catalog by every folded name, alias and variant.

    A name wins over an alias, that over a variant.
    """
    index: dict[str, str] = {}
    for words in (
        lambda entry: (entry.name,),
        lambda entry: entry.aliases,
        lambda entry: (entry.variant,),
    ):
        for entry in catalog.values():
            for word in words(entry):
                index.setdefault(_folded(word), entry.name)
    return index


def _identified(
    figure: Figure, names: Mapping[str, str], catalog: Mapping[str, CatalogEntry]
) -> tuple[CatalogEntry | None, tuple[str, ...]]:
    """The catalog's model behind a figure, and notes on it."""
    folded = _folded(figure.variant)
    spellings = [
        folded,
        *(match.expand(to) for of, to in _SPELLINGS if (match := re.fullmatch(of, folded))),
    ]
    name = next((names[spelling] for spelling in spellings if spelling in names), None)
    if name is None:
        return None, ("not in the catalog: the name is the file's",)
    entry, notes = catalog[name], []
    regnet = _REGNET.fullmatch(folded)
    built = names.get(f"{regnet[1]}{_REGNET_BUILT[regnet[2]]}") if regnet else None
    if built and _is_nearer(figure.params_million, catalog[built], than=entry):
        notes.append(
            f"called {figure.variant} in the file, whose study built {built} under that name"
        )
        entry = catalog[built]
    return entry, (*notes, *_doubts(figure, entry))


def _is_nearer(params_million: float | None, built: CatalogEntry, *, than: CatalogEntry) -> bool:
    """Whether the parameters are those of what was built rather than of what it is called.

    Unknown ones say yes.
    """
    if params_million is None or built.published is None or than.published is None:
        return params_million is None
    apart = [
        abs(math.log(params_million / entry.published.params_million))
        for entry in (built, than)
        if entry.published
    ]
    return apart[0] < apart[1]


def _doubts(figure: Figure, entry: CatalogEntry) -> list[str]:
    """What of the file's own figures is not the model's."""
    known = entry.published
    if known is None:
        return []
    pairs = [(figure.params_million, known.params_million, "M parameters", _PARAMS_APART)]
    if known.gmacs and figure.resolution_px == entry.resolution:
        pairs.append((figure.gmacs, known.gmacs, "G multiply-accumulates", _MACS_APART))
    return [
        f"the file's {given:g} {unit} are not {entry.name}'s {true:g}"
        for given, true, unit, apart in pairs
        if given is not None and not 1 / apart < given / true < apart
    ]


def _unknown(figure: Figure, names: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(_folded(figure.variant), list(names), n=1, cutoff=0.5)
    hint = f"; the nearest is '{names[near[0]]}'" if near else ""
    what = f"'{figure.variant}' is not in the catalog and keeps its name"
    return f"line {figure.line}: {what}{hint}"


def _rates(
    group: Sequence[tuple[Figure, CatalogEntry | None, tuple[str, ...]]],
) -> tuple[float | None, float | None, list[str]]:
    """Throughput of eager and of XLA, and notes on them."""
    notes = list(dict.fromkeys(note for _, _, found in group for note in found))
    rates: list[float | None] = []
    for mode, compiled in (("eager", False), ("XLA", True)):
        found = [
            figure.throughput_samples_per_s for figure, _, _ in group if figure.xla is compiled
        ]
        rates.append(statistics.median(found) if found else None)
        if len(found) != 1:
            notes.append(
                f"{mode} is in the file {len(found)} times: the median"
                if found
                else f"{mode} is not in the file"
            )
    return rates[0], rates[1], notes


def _row(
    key: tuple[str, int, str],
    group: Sequence[tuple[Figure, CatalogEntry | None, tuple[str, ...]]],
    *,
    label: str,
) -> ComparisonRow:
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
    """What a person would type to measure the same here."""
    resolution = f" resolution={size}" if size != entry.resolution else ""
    return f"python -m xla_sweeps model={entry.name} source={source}{resolution} jit=true"
