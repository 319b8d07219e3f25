"""Records of a trial to its modes and rows, and whether these settle its headline. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from xla_sweeps.analysis import speedup
from xla_sweeps.analysis.interval import interval_alone
from xla_sweeps.analysis.judging import judge_columns
from xla_sweeps.analysis.measured import counted_rounds, figures_of, measured_of
from xla_sweeps.analysis.mode_summary import summarize_mode
from xla_sweeps.analysis.pool import MIN_FLOOR, NOTHING, Key, Pool
from xla_sweeps.schema.columns import SpeedupColumns
from xla_sweeps.schema.comparisons import by_role, comparison_pairs, implied_modes, label_modes
from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.options import LOCAL
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow, Figure, TrialSummary, columns_of, row_of


def summarize(records: Sequence[Record], *, pool: Pool | None = NOTHING) -> TrialSummary:
    """Summarize the replicates of one trial, which are as in `measured_of`.

    Without a pool of what other trials say the comparisons have no interval yet, and a verdict that
    means nothing.

    Raises:
        ValueError: no records, or records of several trials.
    """
    trial = measured_of(records)
    figures = figures_of(trial)
    modes = {label: summarize_mode(trial, figures, label) for label in trial.labels}
    model = next(
        (record.model for record in reversed(trial.records) if record.model.params),
        trial.records[-1].model,
    )
    flags = [str(Flag.BUILD_CHANGED)] if trial.build_changed else []
    flags += [
        str(Flagged(Flag.SUSTAINED_DIFFERS, label))
        for label in trial.labels
        if _differs(figures.get(("sustained", (label,))))
    ]
    shared = speedup.shared_of(trial.counted, model, also=flags)
    pairs = comparison_pairs(trial.labels) or [("", label) for label in trial.labels]
    rows = tuple(
        speedup.compare(trial.samples, modes, figures, pair, shared=shared) for pair in pairs
    )
    withheld = [
        (row.baseline.mode, row.candidate.mode) for row in rows if row.speedup.value is None
    ]
    figures = {key: one for key, one in figures.items() if key[1] not in withheld}
    summary = TrialSummary(
        trial=shared.trial,
        model=model,
        replicates=sum(bool(counted_rounds(record)) for record in trial.counted),
        flags=shared.flags,
        modes=tuple(modes.values()),
        comparisons=rows,
        figures=tuple(figures.values()),
    )
    return summary if pool is None else with_rows(summary, _judge_rows(rows, figures, pool))


def with_rows(summary: TrialSummary, rows: Iterable[ComparisonRow]) -> TrialSummary:
    """The trial with these rows, and its modes as the rows have them."""
    rows = tuple(rows)
    columns = {side.mode: side for row in rows for side in (row.baseline, row.candidate)}
    modes = tuple(
        msgspec.structs.replace(mode, columns=columns.get(mode.label, mode.columns))
        for mode in summary.modes
    )
    return replace(summary, comparisons=rows, modes=modes)


def _judge_rows(
    rows: Sequence[ComparisonRow], figures: Mapping[Key, Figure], pool: Pool
) -> tuple[ComparisonRow, ...]:
    """The rows with what depends on other trials."""
    columns = columns_of(rows)
    trials = columns["trial_id"]
    made = judge_columns(columns, dict.fromkeys(trials, figures), dict.fromkeys(trials, pool))
    for name, values in made.items():
        numbers = values.tolist() if isinstance(values, np.ndarray) else values
        columns[name] = [None if value != value else value for value in numbers]  # NaN
    documents = zip(*columns.values(), strict=True)
    return tuple(row_of(dict(zip(columns, values, strict=True))) for values in documents)


def headline_failed(records: Sequence[Record]) -> bool:
    """True if a headline comparison has no verdict in these records: it decides the exit code.

    In PyTorch's default modes no user can know what torch.compile captures. Of an own model one
    verdict is enough; of a model of Keras, that it is not captured is the answer.
    """
    if not any(record.modes for record in records):
        return True
    rows = [row for row in summarize(records, pool=None).comparisons if row.headline]
    trial = records[-1].trial
    own = trial.model.library == LOCAL
    usual = trial.modes == label_modes(implied_modes(trial.scenario, "true", "torch", own=own))
    if usual and not own:
        rows = [row for row in rows if row.status is not Status.MODE_NOT_EFFECTIVE]
    missing = [row.speedup.verdict.is_missing for row in rows]
    return all(missing) if usual and own and missing else any(missing)


def headline_clear(records: Sequence[Record]) -> bool:
    """True if these records of a trial settle every comparison of the headline."""
    rows = [row for row in summarize(records).comparisons if row.headline]
    return bool(rows) and all(row.speedup.verdict.is_clear for row in rows)


def decomposition(summary: TrialSummary) -> dict[str, SpeedupColumns]:
    """The steps from eager to each candidate, `eager -> graph` and `graph -> xla`, as speedups."""
    steps = {}
    labels = by_role(mode.label for mode in summary.modes)
    eager, *graphs = (labels.get(mode.role) for mode in (Mode.EAGER, Mode.GRAPH, Mode.DEFAULT))
    for row in summary.comparisons:
        first = row.baseline.mode == eager and row.candidate.mode in graphs
        if row.speedup.value is not None and (first or row.headline):
            steps[f"{row.baseline.mode} -> {row.candidate.mode}"] = row.speedup
    return dict(sorted(steps.items()))


def _differs(sustained: Figure | None) -> bool:
    """True if the whole interval lies more than 1 % from no difference."""
    interval = interval_alone(sustained).map(math.exp) if sustained else None
    return interval is not None and (
        interval.low > 1 + MIN_FLOOR or interval.high < 1 / (1 + MIN_FLOOR)
    )
