"""Rows made for all trials at once, against those that each trial alone gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changed_rows import with_columns
from factories import (
    CONFIG,
    MODEL,
    config_of,
    failed_outcome,
    full,
    make_outcome,
    make_record,
    make_rounds,
)

from xla_sweeps.analysis import estimates, stats
from xla_sweeps.analysis.pool import Evidence, Pool, pool_of
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.columns import ANCHOR_TAG
from xla_sweeps.schema.measurement import Failure, Flag, Flagged, Phase, Status
from xla_sweeps.schema.overrides import runtime_text
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow, TrialSummary
from xla_sweeps.store import derive, table
from xla_sweeps.store.store import Store

TIMES = {"eager": 0.4, "graph": 0.2, "xla": 0.19}
ANCHOR = {**CONFIG, "tracker": {"name": "none", "tags": [ANCHOR_TAG]}}
DEAD = Failure(phase=Phase.MEASURE, kind="SIGKILL", message="killed")


def evidence_of(*trials: TrialSummary) -> list[Evidence]:
    """The evidence of trials that learn from each other, as their folder keeps it."""
    return [
        Evidence(
            trial.trial.trial_id, row.provenance.measured_at, row.provenance.host, trial.figures
        )
        for trial in trials
        for row in trial.comparisons[:1]
    ]


def kinds(seed: int) -> dict[str, list[Record]]:
    """Trials of every kind, by what they are."""

    def record(times: dict[str, float] = TIMES, **changes: object) -> Record:
        return make_record(times, **{"noise": 0.02, "seed": seed, **changes})  # type: ignore[arg-type]

    def several(times: dict[str, float], count: int) -> list[Record]:
        return [
            record(times, replicate=number, seed=seed + 1000 * number) for number in range(count)
        ]

    cut_short: dict[str, Any] = {"status": Status.INTERRUPTED, "failure": DEAD}
    cut_short["flags"] = (Flagged(Flag.CUT_SHORT),)
    busy = make_rounds(TIMES, noise=0.1, seed=seed, dirty=range(9))
    dirty = make_rounds(TIMES, count=20, noise=0.02, seed=seed, dirty=(1, 4, 5))
    dropped = make_rounds(TIMES, count=6, seed=seed) + make_rounds(
        {"graph": 0.2, "xla": 0.1}, count=9, noise=0.02, seed=seed
    )
    fails = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.COMPILE_ERROR)}
    twice = {"graph": make_outcome(0.2), "xla": make_outcome(status=Status.NONDETERMINISTIC)}
    return {
        "clean": [record()],
        "long": [record(count=60)],
        "odd": [record(count=13)],
        "two": several(TIMES, 2),
        "five": several(TIMES, 5),
        "full": [full(record())],
        "dirty rounds": [record(rounds=dirty)],
        "dropped mode": [record(rounds=dropped)],
        "contaminated": [record(rounds=busy, status=Status.CONTAMINATED)],
        "contaminated beside clean": [
            *several(TIMES, 2),
            record(replicate=2, rounds=busy, status=Status.CONTAMINATED),
        ],
        "failed": [record({"graph": 0.2}, modes=fails)],
        "nondeterministic": [record({"graph": 0.2, "xla": 0.1}, modes=twice)],
        "interrupted": [record(count=8, **cut_short)],
        "interrupted early": [record(count=3, **cut_short)],
        "nothing": [record(modes={}, rounds=(), status=Status.CRASHED, failure=DEAD)],
        "too few rounds": [record(count=5)],
        "alone": [record({"xla": 0.1})],
        "alone, failed": [record(modes={"xla": failed_outcome(Status.OOM_HOST)}, rounds=())],
        "a/a": several({"graph": 0.2, "graph_2": 0.201}, 6),
        "a/a, one": several({"graph": 0.2, "graph_2": 0.205}, 1),
        "anchor": [
            record({"graph": 0.2, "graph_2": 0.2}, config=ANCHOR, replicate=number)
            for number in range(2)
        ],
        "predict": [
            record(
                {"predict_graph": 0.2, "predict_xla": 0.1, "predict_xla_2": 0.11},
                config=config_of("predict", "predict_graph", "predict_xla", "predict_xla"),
            )
        ],
        "training": [record(config=config_of("train_step"))],
        "rebuilt": [
            record(model=replace(MODEL, params=1)),
            record(model=replace(MODEL, params=2), replicate=1, seed=seed + 1),
        ],
    }


def study() -> dict[str, list[Record]]:
    """A trial of each kind, and A/A pairs, on two devices and hosts."""
    source = random.Random(1)
    groups = [*kinds(0).values()]
    for number in range(48):
        times = {"graph": 0.2, "graph_2": 0.2 * source.lognormvariate(0, 0.03)}
        groups.append([make_record(times, noise=0.01, seed=number)])
    source.shuffle(groups)
    trials_of_kind = {}
    for number, group in enumerate(groups):
        name = f"{number:016x}"
        device, host = source.choice(("Some CPU", "Another CPU")), source.choice("ab")
        trials_of_kind[name] = [
            replace(
                record,
                trial_id=name,
                device={"kind": "cpu", "name": device},
                environment={**record.environment, "host": host},
                started_at=f"2026-01-{number % 28 + 1:02}T00:00:{record.replicate:02}+00:00",
            )
            for record in group
        ]
    return trials_of_kind


def test_a_trial_that_cannot_be_analysed_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = stats.signed_rank_interval

    def limited(differences: estimates.Seconds) -> stats.Interval:
        if len(differences) > 50:
            raise MemoryError
        return real(differences)

    groups = kinds(0)
    named = [(kind, groups[kind], ()) for kind in groups]
    expected = derive.summarize_trials(Store(tmp_path), [one for one in named if one[0] != "long"])
    monkeypatch.setattr(stats, "signed_rank_interval", limited)
    read = derive.summarize_trials(Store(tmp_path), named)
    assert read.table == expected.table
    assert not read.facts["long"].has_rows
    (problem,) = read.problems
    assert "MemoryError" in problem


def rounded(row: ComparisonRow) -> ComparisonRow:
    """Without the last digits of the p-value, which went through a logarithm once more."""
    p_value = row.speedup.p_value
    return with_columns(row, p_value=None if p_value is None else float(f"{p_value:.9g}"))


def test_each_scenario_has_a_floor_of_its_own(tmp_path: Path) -> None:
    """Equal training steps that differ say nothing of calls, and the other way round."""
    store, source = Store(tmp_path), random.Random(2)
    for number in range(40):
        scenario, reach = (("call", 0.001), ("train_step", 0.06))[number % 2]
        times = {"graph": 0.2, "graph_2": 0.2 * source.lognormvariate(0, reach)}
        config = config_of(scenario, *times)
        store.save(make_record(times, noise=0.01, config=config, trial_id=f"{number:016x}"))
    read = derive.read_trials(Store(tmp_path), [f"{number:016x}" for number in range(40)])
    settled = derive.with_verdicts(read.table, read.facts)
    floors: dict[str, set[float]] = {}
    for row in table.rows_of(settled):
        floors.setdefault(row.trial.scenario, set()).add(row.speedup.floor)
    assert floors["call"] == {0.01}
    assert min(floors["train_step"]) > 0.05


def alike(records: Sequence[Record]) -> tuple[str, ...]:
    """Facts that are equal in trials that learn from each other."""
    trial, device = records[0].trial, str(records[0].device["name"])
    environment = str(records[-1].environment.get("id", ""))
    return (
        trial.effort.name,
        str(trial.scenario),
        device,
        environment,
        runtime_text(trial),
        trial.copies,
    )


def test_rows_that_are_judged_as_columns_are_those_of_each_trial_alone(tmp_path: Path) -> None:
    groups = study()
    store = Store(tmp_path)
    for records in groups.values():
        for record in records:
            store.save(record)
    read = derive.read_trials(Store(tmp_path), sorted(groups))
    assert read.problems == ()
    settled = derive.with_verdicts(read.table, read.facts)
    pools: dict[tuple[str, ...], Pool] = {}
    members: dict[tuple[str, ...], list[str]] = {}
    for name, records in groups.items():
        members.setdefault(alike(records), []).append(name)
    for group, names in members.items():
        pools[group] = pool_of(evidence_of(*(summarize(groups[name]) for name in names)))
    expected = [
        row
        for records in groups.values()
        for row in summarize(records, pool=pools[alike(records)]).comparisons
    ]
    judged = table.rows_of(table.sort_rows(settled))
    assert max(row.speedup.floor for row in judged) > 0.01
    assert [rounded(row) for row in judged] == [
        rounded(row) for row in table.rows_of(table.sort_rows(table.table_of(expected)))
    ]
