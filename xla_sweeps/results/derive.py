"""Derive comparison rows from records, and what depends on other trials from the rows' columns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from xla_sweeps.analysis import noise, summary
from xla_sweeps.analysis.noise import Span
from xla_sweeps.analysis.speedup import comparison_pairs, judged
from xla_sweeps.results.store import Store, guarded
from xla_sweeps.results.table import joined, table_of
from xla_sweeps.schema.measurement import Flag
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow, TrialSummary
from xla_sweeps.schema.trial import is_aa_pair

if TYPE_CHECKING:
    import pyarrow

PARALLEL_FROM = 1000
"""Trials from which several processes read faster than one."""

CHUNK = 200

AaDistances = dict[str, dict[str, list[float]]]
"""`noise.aa_distance` of each A/A pair, by device and trial."""


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record: when it was measured, and the anchor's seconds per call."""

    device: str
    started_at: str
    anchor: bool
    call_s: float | None


class Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is kept of a trial beside its rows.

    Attributes:
        listing: `Store.listing` when it was read; "" to read it again next time.
        runs: its records.
    """

    listing: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Trials:
    """Some trials: their rows, judged against the smallest floor and without the flag `drift`."""

    table: pyarrow.Table
    facts: Mapping[str, Facts]
    problems: tuple[str, ...] = field(default=())


def facts_of(records: Sequence[Record], listing: str) -> Facts:
    """What to keep of a trial beside its rows."""
    runs = []
    for record in records:
        anchor = noise.is_anchor(record)
        call_s = noise.call_s(record) if anchor else None
        runs.append(Run(noise.device_of(record), record.started_at, anchor, call_s))
    return Facts(listing, tuple(runs))


def read_trials(results_dir: Path, names: Sequence[str]) -> Trials:
    """Read and summarize these trials."""
    store = Store(results_dir)
    facts: dict[str, Facts] = {}
    problems: list[str] = []
    rows: list[ComparisonRow] = []
    for name in names:
        listing = store.listing(name)
        loaded = store.load(name)
        records = loaded.records.get(name, [])
        found, unusable = guarded(
            store.records_dir / name,
            partial(_summarized, records, "" if loaded.problems else listing),
        )
        problems += (*loaded.problems, *unusable)
        facts[name] = Facts("", ()) if found is None else found[1]
        if found is not None:
            rows += found[0]
    return Trials(table_of(rows), facts, tuple(problems))


def _summarized(records: Sequence[Record], listing: str) -> tuple[Sequence[ComparisonRow], Facts]:
    rows = summary.summarize(records).comparisons if records else ()
    return rows, facts_of(records, listing)


def read_many(
    results_dir: Path, names: Sequence[str], advance: Callable[[int, int], None]
) -> Iterator[Trials]:
    """Read trials in chunks, with several processes where there are many."""
    chunks = [names[first : first + CHUNK] for first in range(0, len(names), CHUNK)]
    done = 0
    with contextlib.ExitStack() as stack:
        run: Callable[..., Iterable[Trials]] = map
        if len(names) >= PARALLEL_FROM:
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor

            workers = min(len(chunks), len(os.sched_getaffinity(0)))
            spawn = multiprocessing.get_context("spawn")
            run = stack.enter_context(ProcessPoolExecutor(workers, mp_context=spawn)).map
        found = run(read_trials, [results_dir] * len(chunks), chunks)
        for chunk, trials in zip(chunks, found, strict=True):
            done += len(chunk)
            advance(done, len(names))
            yield trials


def settled(
    table: pyarrow.Table, facts: Mapping[str, Facts]
) -> tuple[pyarrow.Table, dict[str, list[Span]]]:
    """The rows with what depends on other trials: floor, verdict and the flag `drift`.

    Returns:
        The table, and the spans of drift by device.
    """
    runs = [run for fact in facts.values() for run in fact.runs if run.anchor]
    spans = noise.spans_of(
        (run.device, run.started_at, run.call_s) for run in runs if run.call_s is not None
    )
    drifted = {
        name
        for name, fact in facts.items()
        if any(_drifts(run, spans.get(run.device, ())) for run in fact.runs)
    }
    return _with_drift(_with_floors(table), drifted), spans


def aa_distances(table: pyarrow.Table) -> AaDistances:
    """How far apart the A/A pairs of each device are."""
    import pyarrow.compute as compute

    labels = table.group_by(["baseline", "candidate"]).aggregate([]).to_pylist()
    found: AaDistances = {}
    for pair in labels:
        if not is_aa_pair(pair["baseline"], pair["candidate"]):
            continue
        chosen = compute.and_(
            *(compute.equal(table[side], pair[side]) for side in ("baseline", "candidate"))
        )
        for row in table.filter(chosen).select(["device", "trial_id", "speedup"]).to_pylist():
            if row["speedup"]:
                trials = found.setdefault(row["device"], {})
                trials.setdefault(row["trial_id"], []).append(noise.aa_distance(row["speedup"]))
    return found


def aa_distances_of(found: TrialSummary) -> list[float]:
    """How far apart the A/A pairs of one trial are."""
    return [
        noise.aa_distance(row.speedup.value)
        for row in found.comparisons
        if row.speedup.value and is_aa_pair(row.baseline.mode, row.candidate.mode)
    ]


def aa_distances_of_records(store: Store) -> tuple[AaDistances, tuple[str, ...]]:
    """The same as `aa_distances`, from all records: for a folder of which nothing is kept.

    Returns:
        The distances, and a line for each file that cannot be used.
    """
    devices: AaDistances = {}
    problems: tuple[str, ...] = ()
    for trial, _ in store.folders():
        loaded = store.load(trial)
        problems += loaded.problems
        for records in loaded.records.values():
            if any(is_aa_pair(*pair) for pair in comparison_pairs(list(records[0].modes))):
                found, _ = guarded(store.records_dir / trial, partial(summary.summarize, records))
                if found is not None:
                    devices.setdefault(found.device, {})[trial] = aa_distances_of(found)
    return devices, problems


def floor_of(trials: Mapping[str, Sequence[float]]) -> float:
    """The floor that the A/A pairs of one device ask for."""
    return noise.floor_of([distance for found in trials.values() for distance in found])


def _drifts(run: Run, spans: Iterable[Span]) -> bool:
    return not run.anchor and noise.is_within(run.started_at, spans)


def _with_floors(table: pyarrow.Table) -> pyarrow.Table:
    """The rows, each judged against the floor of its device."""
    floors = {name: floor_of(trials) for name, trials in aa_distances(table).items()}
    devices = table["device"].combine_chunks().dictionary_encode()
    names = devices.dictionary.to_pylist()
    by_name = np.array([floors.get(name, summary.MIN_FLOOR) for name in names], dtype=float)
    wanted = by_name[np.asarray(devices.indices)] if names else np.empty(0)
    wrong = np.flatnonzero(wanted != table["floor"].to_numpy())
    if not wrong.size:
        return table
    verdicts, p_values = table["verdict"].to_pylist(), table["p_value"].to_pylist()
    bounds = ["speedup", "speedup_low", "speedup_high", "speedup_low_90", "speedup_high_90"]
    chosen = table.select([*bounds, "replicates", "rounds"]).take(wrong).to_pylist()
    for place, row in zip(wrong.tolist(), chosen, strict=True):
        replicates, rounds = row.pop("replicates"), row.pop("rounds")
        if row["speedup"] is not None and replicates:
            verdict, p_values[place] = judged(
                list(row.values()), floor=wanted[place], replicates=replicates, rounds=rounds
            )
            verdicts[place] = str(verdict)
    return _replaced(table, floor=wanted.tolist(), verdict=verdicts, p_value=p_values)


def _with_drift(table: pyarrow.Table, drifted: set[str]) -> pyarrow.Table:
    """The rows with the flag `drift` where their trial drifted, and only there."""
    flags = table["flags"].to_pylist()
    words = {text: set(text.split()) - {str(Flag.DRIFT)} for text in set(flags)}
    plain = {text: " ".join(sorted(found)) for text, found in words.items()}
    marked = {text: " ".join(sorted({*found, Flag.DRIFT})) for text, found in words.items()}
    trials = table["trial_id"].to_pylist() if drifted else [""] * len(flags)
    changed = [
        (marked if trial in drifted else plain)[text]
        for trial, text in zip(trials, flags, strict=True)
    ]
    return table if changed == flags else _replaced(table, flags=changed)


def _replaced(table: pyarrow.Table, **columns: list[Any]) -> pyarrow.Table:
    import pyarrow

    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        kept = table.schema.field(place)
        table = table.set_column(place, kept, pyarrow.array(values, kept.type))
    return table


def without(table: pyarrow.Table, trials: Iterable[str]) -> pyarrow.Table:
    """The rows of all other trials."""
    import pyarrow
    import pyarrow.compute as compute

    dropped = pyarrow.array(sorted(trials), pyarrow.string())
    return table.filter(compute.invert(compute.is_in(table["trial_id"], value_set=dropped)))


def merged(table: pyarrow.Table, dropped: Iterable[str], read: Sequence[Trials]) -> pyarrow.Table:
    """The kept rows without the dropped trials, and the rows of what was read."""
    return joined([without(table, dropped), *(part.table for part in read)])
