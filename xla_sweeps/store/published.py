"""Figures of the public study keras-xla-benchmarks, which ship in `published.csv`.

They are all that the study's repository printed, in any commit. Each line has one figure, with its
commit, file and place; lines with `derived` are differences and quotients of printed figures.

A figure is one measurement: throughput over a hundred calls of four float32 images, eager (`xla`
False) or with jit_compile=True, each timed alone. So the rows have no interval, and the verdict
`ambiguous`, or `none` where only one mode was published. The study's names are names or aliases of
the catalog; where it built another model under a name, the column `model` says which.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources

import msgspec

from xla_sweeps.analysis.pool import MIN_FLOOR
from xla_sweeps.config.catalog import CatalogEntry, load_catalog, names
from xla_sweeps.schema.columns import (
    IMPORTED,
    ModeColumns,
    ProvenanceColumns,
    SpeedupColumns,
    Verdict,
)
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.schema.trial_columns import TrialColumns

BATCH_SIZE = 4

STUDY = "published"
"""Label of the study, a part of its trials' ids."""

ACCELERATORS = {"a100": "NVIDIA A100", "v100": "NVIDIA V100", "t4": "NVIDIA T4"}
"""Device names.

A driver says more (`NVIDIA A100-SXM4-40GB`), so measured rows stand under other names.
"""

_SOURCES = ("applications", "hub", "keras_cv")

_COLUMNS = {
    "variant": "model_variant",
    "resolution_px": "resolution",
    "gmacs": "flop (giga)",
    "params_million": "params (million)",
    "throughput_samples_per_s": "throughput (samples/sec)",
    "absolute_samples_per_s": "absolute_speedup",
    "percent": "speedup_percent",
}


class PrintedFigure(msgspec.Struct, frozen=True, kw_only=True, rename=_COLUMNS):
    """One line of the file: a throughput, or a speedup over eager.

    Attributes:
        gmacs: multiply-accumulates of one image, 1e9 (the study calls them FLOPs), or None.
        absolute_samples_per_s: difference of the throughputs with XLA and in eager mode.
        percent: that difference in percent of the throughput in eager mode.
        model: the model's name in the catalog, if it is not the one that `variant` means.
        run: name of a run that others do not replace; its figures have rows of their own.
        date: the day on which it was published.
    """

    variant: str
    resolution_px: int
    xla: bool | None
    accelerator: str
    gmacs: float | None
    params_million: float | None
    throughput_samples_per_s: float | None
    absolute_samples_per_s: float | None
    percent: float | None
    model: str | None
    run: str | None
    date: str
    note: str | None


def study() -> list[ComparisonRow]:
    """The study's rows: one per model, resolution, accelerator and run."""
    text = (resources.files("xla_sweeps.store") / "published.csv").read_text(encoding="utf-8")
    catalog, name_of = load_catalog(), names()
    groups: dict[tuple[str, int, str, str | None], list[PrintedFigure]] = {}
    for line in csv.DictReader(text.splitlines(), strict=True):
        cells = {column: cell or None for column, cell in line.items()}
        figure = msgspec.convert(cells, PrintedFigure, strict=False)
        model = name_of[figure.model or figure.variant]
        device = ACCELERATORS.get(figure.accelerator, figure.accelerator)
        place = model, figure.resolution_px, device, figure.run
        groups.setdefault(place, []).append(figure)
    return [
        _row(figures, catalog[model], device) for (model, _, device, _), figures in groups.items()
    ]


def _row(figures: Sequence[PrintedFigure], entry: CatalogEntry, device: str) -> ComparisonRow:
    """The row of figures of one model, resolution, device and run."""
    size, run = figures[0].resolution_px, figures[0].run
    eager, xla = (
        _first(one.throughput_samples_per_s for one in figures if one.xla is compiled)
        for compiled in (False, True)
    )
    gain, difference = _gain(figures, eager, xla)
    params = _first(one.params_million for one in figures)
    gmacs = _first(one.gmacs for one in figures)
    source = next(name for name in _SOURCES if name in entry.sources)
    identity = "\n".join([STUDY, entry.name, str(size), device, *filter(None, [run])])
    return ComparisonRow(
        trial=TrialColumns(
            trial_id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            family=entry.family,
            variant=entry.variant,
            model=entry.name,
            source=source,
            task=entry.task,
            resolution_px=size,
            batch_size=BATCH_SIZE,
            samples=BATCH_SIZE,
            precision="float32",
            scenario="call",
            effort="",
            device=device,
            params=None if params is None else round(1e6 * params),
            macs=None if gmacs is None else round(1e9 * gmacs),
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
            measured_at=min(one.date for one in figures),
            note="; ".join(_notes(figures, device, eager, xla)),
            command=_command(entry, source, size),
        ),
    )


def _gain(
    figures: Sequence[PrintedFigure], eager: float | None, xla: float | None
) -> tuple[float | None, float | None]:
    """Ratio and difference of the throughputs; as printed where one of them is not."""
    if eager and xla:
        return xla / eager, xla - eager
    percent = _first(one.percent for one in figures)
    difference = _first(one.absolute_samples_per_s for one in figures)
    return None if percent is None else 1 + percent / 100, difference


def _notes(
    figures: Sequence[PrintedFigure], device: str, eager: float | None, xla: float | None
) -> Iterator[str]:
    """Caveats of a row: its model, its run, what is missing, the device."""
    if model := figures[0].model:
        yield f"called {figures[0].variant} in the file, whose study built {model} under that name"
    if run := figures[0].run:
        yield f"run: {run}"
    yield from dict.fromkeys(one.note for one in figures if one.note)
    if not eager and not xla:
        yield "the speedup alone is in the file"
    elif not (eager and xla):
        yield f"{'XLA' if eager else 'eager'} is not in the file"
    if device == ACCELERATORS["a100"]:
        yield "float32 with TF32 in matrix products, TensorFlow's default there"


def _first(figures: Iterable[float | None]) -> float | None:
    """The first figure that is given."""
    return next((figure for figure in figures if figure is not None), None)


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
