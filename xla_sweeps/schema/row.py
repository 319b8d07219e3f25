"""Results of a trial: one mode, one candidate against one baseline (a row), the whole trial."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from typing import Any, get_args, get_type_hints

import msgspec

from xla_sweeps.schema.column import OF_BEFORE, Column, Part, as_column
from xla_sweeps.schema.columns import (
    FailureColumns,
    ModeColumns,
    ProvenanceColumns,
    SpeedupColumns,
    Verdict,
)
from xla_sweeps.schema.measurement import Failure, Status
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial_columns import TrialColumns


class Figure(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """A figure of one mode or of a pair over the replicates of a trial, as logarithms.

    Attributes:
        name: one of `analysis.interval.BUILT_IN`.
        labels: of the mode, or of baseline and candidate.
        replicates: how many gave a number.
        within: variance of one of them, from its own rounds; 0 where that is not known.
        between: variance of these numbers; 0 for a single one.
        contaminated: whether all that counts is contaminated.
        loaded: whether contaminated rounds count, for want of others.
        scatter: variance of one round, as the error of its replicates says it: a spike does not
            change it; 0 where it is not known.
        values: the log of each replicate; `errors`: its standard error, from its own rounds. Of a
            figure that is kept beside rows there are neither: `between` and `within` say enough.
    """

    name: str
    labels: tuple[str, ...]
    replicates: int
    mean: float
    within: float
    between: float
    contaminated: bool = False
    loaded: bool = False
    scatter: float = 0.0
    on_gpu: bool = False
    values: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()


class ModeState(msgspec.Struct, frozen=True, kw_only=True):
    """Status of an execution mode of a trial, and why it has no figures."""

    label: str
    status: Status
    failure: Failure | None


class ModeSummary(ModeState, frozen=True, kw_only=True):
    """One execution mode of one trial, over all its replicates.

    Attributes:
        allowed_rel: the difference from eager that was allowed beside rmse_rel.
        host_bound_index: share of a single call's time that passes until it is enqueued; None on a
            CPU, where calls do not queue.
        steady_memory_bytes: the most that the device's allocator had handed out in steady calls.
    """

    columns: ModeColumns
    compile_s: float | None
    steady_memory_bytes: int | None
    rmse_rel: float | None
    agreement_ok: bool | None
    host_bound_index: float | None
    rounds: int
    replicates: int
    allowed_rel: float | None = None

    def __repr__(self) -> str:
        speed = self.columns.throughput_samples_per_s
        figure = "" if speed is None else f", {speed:.4g} samples/s"
        return f"<{self.label}: {self.status}{figure}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One candidate against one baseline of a trial, or against none: what all outputs share.

    Each field of a part is a column, and its only declaration: the Parquet schema, the filter, the
    page and docs/results.md are made from `COLUMNS`.
    """

    trial: TrialColumns
    headline: bool = as_column("whether this is the trial's main comparison", on_page=True)
    candidate: ModeColumns
    baseline: ModeColumns
    speedup: SpeedupColumns
    status: Status = as_column("ok, contaminated, or why there is no number", on_page=True)
    flags: tuple[str, ...] = as_column("caveats, separated by blanks", on_page=True)
    failure: FailureColumns = field(default_factory=FailureColumns)
    provenance: ProvenanceColumns = field(default_factory=ProvenanceColumns)

    def __repr__(self) -> str:
        gain, numbers = self.speedup, [self.speedup.value, self.speedup.low, self.speedup.high]
        value, low, high = ("?" if number is None else f"{number:.4g}" for number in numbers)
        figure = f" {value} ({low}-{high})" if gain.value is not None else ""
        modes = " against ".join(filter(None, [self.candidate.mode, self.baseline.mode]))
        return f"<{self.trial.model} {modes}: {gain.verdict}{figure}, {self.status}>"


_PARTS: Mapping[str, Any] = {
    name: kind for name, kind in get_type_hints(ComparisonRow).items() if is_dataclass(kind)
}

_FIELDS = {one.name: one for one in fields(ComparisonRow)}


def _columns() -> Iterator[Column]:
    unit = ""
    for part, hint in get_type_hints(ComparisonRow).items():
        inner = fields(hint) if part in _PARTS else (_FIELDS[part],)
        hints = get_type_hints(hint) if part in _PARTS else {part: hint}
        for one in inner:
            facts = {**one.metadata}
            unit = unit if facts["unit"] == OF_BEFORE else facts["unit"]
            name = facts.pop("name") or one.name
            if hint is ModeColumns:
                prefix = "baseline_" if part == "baseline" else ""
                name = part if one.name == "mode" else f"{prefix}{name}"
                facts["meaning"] = f"{part}: {facts['meaning']}"
            types = get_args(hints[one.name]) or (hints[one.name],)
            yield Column(
                name=name,
                path=f"{part}.{one.name}" if part in _PARTS else part,
                kind=next((kind for kind in (bool, int, float) if kind in types), str),
                **{**facts, "unit": unit},
            )


COLUMNS: Mapping[str, Column] = {column.name: column for column in _columns()}
"""All columns, in order."""

Band = tuple[str, str, str]
"""A column, and those of the bounds of its interval."""


def bands_of(part: str) -> dict[str, list[Band]]:
    """The columns of a part of a row (`candidate`) that show a figure, by the figure's name."""
    columns = [column for column in COLUMNS.values() if column.path.startswith(f"{part}.")]
    bands: dict[str, list[Band]] = {}
    for place, column in enumerate(columns):
        if column.figure:
            low, high = columns[place + 1 : place + 3]
            bands.setdefault(column.figure, []).append((column.name, low.name, high.name))
    return bands


QUESTION = tuple(name for name, column in COLUMNS.items() if column.asked)
"""Columns that make a question, however often it was measured."""

SETTINGS = tuple(
    name for name, column in COLUMNS.items() if column.asked and column.asked.part is Part.SETTING
)
"""Those of them that are neither the model nor what is compared with what."""

_GETTERS = {name: attrgetter(column.path) for name, column in COLUMNS.items()}


def value_of(row: ComparisonRow, column: str) -> Any:
    """The value of a column."""
    return _GETTERS[column](row)


def words_of(setting: Mapping[str, Any]) -> list[str]:
    """Values of a setting by column, in words, without those that go without saying."""
    asked = ((COLUMNS[name].asked, value) for name, value in setting.items())
    words = (one.write(value) for one, value in asked if one and str(value) != one.usual)
    return list(filter(None, words))


def precision_words(precision: str, tf32: bool) -> list[str]:
    """The precision as a name has it: `mixed_float16`, `TF32`; nothing for plain float32."""
    return words_of({"precision": precision, "tf32": tf32})


def flag_words(flags: Iterable[str]) -> str:
    """Flags joined by blanks, each once and without its note, which has blanks itself."""
    return " ".join(dict.fromkeys(flag.partition(": ")[0] for flag in flags))


_PLAIN: Mapping[str, Callable[[Any], str]] = {"verdict": str, "status": str, "flags": flag_words}
"""Functions that make plain data of columns that are none."""


def row_dict(row: ComparisonRow) -> dict[str, Any]:
    """A row as plain data, by column; flags joined by blanks."""
    return {name: values[0] for name, values in columns_of([row]).items()}


def columns_of(rows: Sequence[ComparisonRow]) -> dict[str, list[Any]]:
    """Rows as plain data, a list for each column; flags joined by blanks."""
    columns = {name: list(map(get, rows)) for name, get in _GETTERS.items()}
    return columns | {name: list(map(plain, columns[name])) for name, plain in _PLAIN.items()}


def row_of(document: Mapping[str, Any]) -> ComparisonRow:
    """The row that `row_dict` made plain."""
    values: dict[str, dict[str, Any]] = {part: {} for part in ("", *_PARTS)}
    for name, column in COLUMNS.items():
        part, _, field_name = column.path.rpartition(".")
        values[part][field_name] = document[name]
    own, flags = values.pop(""), document["flags"]
    own["flags"] = tuple(flags.split()) if isinstance(flags, str) else tuple(flags)
    own["status"] = Status(own["status"])
    values["speedup"]["verdict"] = Verdict(document["verdict"])
    return ComparisonRow(**own, **{part: kind(**values[part]) for part, kind in _PARTS.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """One trial over all its replicates: its modes and their comparisons, headline first."""

    trial: TrialColumns
    model: ModelFacts
    replicates: int
    flags: tuple[str, ...]
    modes: tuple[ModeSummary, ...]
    comparisons: tuple[ComparisonRow, ...]
    figures: tuple[Figure, ...] = ()
