"""Knowledge that trials share: the spread between processes, and the A/A floor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from evidence import evidence_of
from factories import make_record

from xla_sweeps.analysis.interval import JUDGED_FROM, UNKNOWN, Numbers, Prior, judge
from xla_sweeps.analysis.pool import (
    LATEST,
    MIN_FLOOR,
    Evidence,
    Pool,
    pool_of,
    prior_of,
)
from xla_sweeps.analysis.speedup import with_judgement
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import ProcessStart, Record

WITHIN = 0.002
"""Standard error within a process."""

TWINS = ("graph", "graph_2")


def evidence(
    replicates: int,
    between: float,
    *,
    speedup: float = 1.0,
    within: float = WITHIN,
    pair: tuple[str, str] = ("graph", "xla"),
    host: str = "",
    at: int = 0,
) -> Evidence:
    return Evidence(
        trial_id="",
        measured_at=f"{at:06d}",
        host=host,
        baseline=pair[0],
        candidate=pair[1],
        headline=True,
        replicates=replicates,
        speedup=speedup,
        within_percent=100 * within,
        between_percent=100 * between if replicates > 1 else None,
    )


def pooled(trials: Mapping[str, Sequence[Evidence]]) -> Pool:
    """The pool of trials, by id."""
    return pool_of(
        msgspec.structs.replace(one, trial_id=trial)
        for trial, evidence in trials.items()
        for one in evidence
    )


def simulated(
    source: np.random.Generator, trials: int, replicates: int, spread: float
) -> tuple[Numbers, Numbers]:
    """Mean and standard deviation of the replicates' log ratios of each trial; the truth is 0."""
    estimates = source.normal(0, math.hypot(spread, WITHIN), (trials, replicates))
    apart = estimates.std(axis=1, ddof=1) if replicates > 1 else np.full(trials, np.nan)
    return estimates.mean(axis=1), apart


def judged(means: Numbers, between: Numbers, replicates: int, prior: Prior) -> tuple[Numbers, ...]:
    count = len(means)
    columns = judge(
        {
            **dict.fromkeys(JUDGED_FROM, np.full(count, np.nan)),
            "speedup": np.exp(means),
            "within_percent": np.full(count, 100 * WITHIN),
            "between_percent": 100 * between,
            "replicates": np.full(count, replicates),
        },
        priors=np.array([prior] * count),
        floor=np.full(count, 0.01),
    )
    return np.log(columns["low"]), np.log(columns["high"]), columns["p_value"]


@pytest.mark.parametrize("spread", [0.0, 0.005, 0.01, 0.02])
@pytest.mark.parametrize("replicates", [1, 2, 3, 5])
def test_pooled_intervals_hold_the_truth_whatever_processes_differ_by(
    spread: float, replicates: int
) -> None:
    """A sweep of 24 trials; one replicate has ten anchors instead."""
    source = np.random.default_rng(round(1e4 * spread) + replicates)
    held = discoveries = 0
    for _ in range(150):
        means, between = simulated(source, 24, replicates, spread)
        if replicates == 1:
            _, apart = simulated(source, 1, 10, spread)
            prior = prior_of([evidence(10, float(apart[0]))])
        else:
            prior = prior_of([evidence(replicates, float(value)) for value in between])
        low, high, p_value = judged(means, between, replicates, prior)
        held += int(np.count_nonzero((low <= 0) & (high >= 0)))
        discoveries += int(np.count_nonzero(p_value < 0.05))
    assert 0.93 <= held / 150 / 24 <= (0.98 if spread else 0.985)
    assert discoveries / 150 / 24 <= 0.05


@pytest.mark.parametrize("spread", [0.005, 0.02])
def test_one_replicate_whose_spread_is_not_that_of_the_anchors_holds_the_truth_in_93_percent(
    spread: float,
) -> None:
    source = np.random.default_rng(3)
    held = 0
    for _ in range(1500):
        _, apart = simulated(source, 1, 10, spread)
        prior = prior_of([evidence(10, float(apart[0]))])
        own = np.hypot(spread * np.exp(source.normal(0, 0.5, 24)), WITHIN)
        low, high, _ = judged(source.normal(0, 1, 24) * own, np.full(24, np.nan), 1, prior)
        held += int(np.count_nonzero((low <= 0) & (high >= 0)))
    assert 0.925 <= held / 1500 / 24 <= 0.945


def test_pooling_halves_the_interval_of_three_replicates() -> None:
    source = np.random.default_rng(0)
    alone: list[float] = []
    together: list[float] = []
    for _ in range(50):
        means, between = simulated(source, 24, 3, 0.01)
        prior = prior_of([evidence(3, float(value)) for value in between])
        for widths, given in ((alone, UNKNOWN), (together, prior)):
            low, high, _ = judged(means, between, 3, given)
            widths.append(float((high - low).mean()))
    assert np.mean(together) < 0.6 * np.mean(alone)


def test_one_trial_with_nobody_to_learn_from_keeps_students_interval() -> None:
    prior = prior_of([evidence(5, 0.01)])
    own, plain = (
        judged(np.zeros(1), np.array([0.01]), 5, given)[1][0] for given in (prior, UNKNOWN)
    )
    assert prior.pooled == 4
    assert own == pytest.approx(plain)
    assert prior_of([evidence(3, 0.01)]) is UNKNOWN


def test_trials_whose_spread_scatters_count_less_for_each_other() -> None:
    alike = prior_of([evidence(4, value) for value in np.linspace(0.008, 0.012, 30)])
    apart = prior_of([evidence(4, value) for value in np.geomspace(0.0005, 0.2, 30)])
    assert alike.freedom == pytest.approx(8 * 30, rel=0.2)
    assert apart.freedom < 2
    assert alike.between == pytest.approx(0.01**2 - WITHIN**2, rel=0.05)


def test_a_pair_of_modes_learns_from_its_own_where_there_is_enough() -> None:
    trials = {f"x{n}": (evidence(3, 0.02),) for n in range(4)}
    anchors = {"a": (evidence(12, 0.005, pair=TWINS),)}
    pool = pooled({**trials, **anchors})
    assert pool.prior("graph", "xla").pooled == 8
    assert pool.prior("graph", "graph_2").pooled == 11
    assert pool.prior("eager", "xla") == pool.headline
    assert pool.headline.pooled == 19
    assert pooled(anchors).prior("graph", "xla").pooled == 11


def test_only_the_latest_trials_count() -> None:
    old = {f"old{n}": (evidence(3, 0.5, at=n),) for n in range(50)}
    new = {f"new{n}": (evidence(3, 0.01, at=1000 + n),) for n in range(LATEST)}
    assert pooled({**new, **old}) == pooled(new)


def replicates(count: int, spread: float, **changes: Any) -> list[Record]:
    source = np.random.default_rng(7)
    return [
        make_record(
            {"graph": 0.2 * math.exp(source.normal(0, spread)), "xla": 0.19},
            noise=0.004,
            seed=number,
            replicate=number,
            **changes,
        )
        for number in range(count)
    ]


def test_one_replicate_is_widened_by_what_other_trials_differ_by() -> None:
    records = replicates(1, 0.0)
    pool = pooled({"other": (evidence(10, 0.04),)})
    (alone,) = summarize(records).comparisons
    taught = with_judgement(alone, pool)
    assert (alone.speedup.freedom, alone.speedup.p_value) == (None, None)
    assert alone.speedup.verdict is Verdict.FASTER
    assert taught.speedup.freedom == pytest.approx(1 / (1 / 9 + 1 / 8), rel=0.01)
    assert taught.speedup.verdict is Verdict.AMBIGUOUS
    half = math.log((taught.speedup.high or 0) / (taught.speedup.low or 1)) / 2
    assert half == pytest.approx(2.717 * 0.04, rel=0.05)
    assert taught.speedup.value == alone.speedup.value


def test_contaminated_trials_neither_teach_nor_learn() -> None:
    pool = pooled({"other": (evidence(10, 0.04),)})
    summary = summarize(replicates(2, 0.01, status=Status.CONTAMINATED))
    assert evidence_of(summary) == []
    assert with_judgement(summary.comparisons[0], pool).speedup.freedom is None
    assert len(evidence_of(summarize(replicates(2, 0.01)))) == 1


def twins(
    count: int, spread: float, *, host: str = "h", seed: int = 0
) -> dict[str, tuple[Evidence, ...]]:
    """A/A trials whose copies differ by `spread` beyond what their rounds explain."""
    apart = np.random.default_rng(seed).normal(0, math.hypot(spread, WITHIN), count)
    return {
        f"{host}{number}": (
            evidence(1, 0, speedup=math.exp(value), pair=TWINS, host=host, at=number),
        )
        for number, value in enumerate(apart)
    }


@pytest.mark.parametrize(
    ("count", "spread", "floor"), [(19, 0.03, 0.01), (100, 0.0, 0.01), (100, 0.03, 0.0605)]
)
def test_the_floor_is_what_copies_differ_by_beyond_their_own_intervals(
    count: int, spread: float, floor: float
) -> None:
    assert pooled(twins(count, spread)).floor("h") == pytest.approx(floor, rel=0.2)


def test_noise_that_the_intervals_hold_already_raises_no_floor() -> None:
    """A quick A/A sweep on a noisy day: copies differ by 5 %, and their intervals say so."""
    noisy = {
        trial: (evidence(1, 0, speedup=pair.speedup**20, within=20 * WITHIN, pair=TWINS),)
        for trial, (pair,) in twins(60, 0.0).items()
    }
    pool = pooled({trial: tuple(pair) for trial, pair in noisy.items()})
    assert pool.floor("") == MIN_FLOOR


def test_the_floor_is_that_of_the_host_and_of_its_latest_pairs() -> None:
    loud, quiet = twins(40, 0.05, host="loud"), twins(40, 0.0, host="quiet")
    pool = pooled({**loud, **quiet})
    assert pool.floor("loud") > 0.05
    assert (pool.floor("quiet"), pool.floor("unknown")) == (MIN_FLOOR, MIN_FLOOR)
    later = {
        f"later{trial}": (evidence(1, 0, pair=TWINS, host="loud", at=5000 + n),)
        for n, trial in enumerate(twins(100, 0.0))
    }
    assert pooled({**loud, **later}).floor("loud") == MIN_FLOOR


def test_differences_between_processes_have_a_floor_of_their_own() -> None:
    source = np.random.default_rng(8)
    pairs = {}
    for number in range(60):
        ratio = math.exp(source.normal(0, 0.03))
        bounds = {"aa_across_low": ratio / 1.01, "aa_across_high": ratio * 1.01}
        (twin,) = twins(1, 0.0)["h0"]
        judged_pair = msgspec.structs.replace(twin, replicates=6, aa_across=ratio, **bounds)
        pairs[f"x{number}"] = (judged_pair,)
    pool = pooled(pairs)
    assert pool.floor("h") == MIN_FLOOR
    assert pool.floor_across("h") == pytest.approx(math.expm1(1.96 * 0.03), rel=0.3)
    few = pooled(dict(list(pairs.items())[:19]))
    assert few.floor_across("h") == few.floor("h") == MIN_FLOOR
    assert pooled(twins(100, 0.03)).floor_across("h") > 0.04, "at least the other floor"


def test_the_floor_decides_what_counts() -> None:
    record = make_record({"graph": 0.102, "xla": 0.1})
    (row,) = summarize([record]).comparisons
    assert row.speedup.verdict is Verdict.FASTER
    judged = with_judgement(row, Pool(floors={"": 0.038}))
    assert judged.speedup.verdict is Verdict.EQUIVALENT


@pytest.mark.parametrize(
    ("starts", "taught", "column"),
    [
        (("fresh", "fresh"), 1, "fresh"),
        (("unknown", "unknown"), 1, ""),
        (("unknown", "fresh"), 1, "fresh"),
        (("forked", "fresh", "fresh"), 0, "forked,fresh"),
        (("forked", "forked"), 0, "forked"),
    ],
)
def test_others_learn_from_fresh_processes_alone(
    starts: Sequence[ProcessStart], taught: int, column: str
) -> None:
    records = [
        replace(record, process=start)
        for record, start in zip(replicates(len(starts), 0.01), starts, strict=True)
    ]
    summary = summarize(records)
    assert len(evidence_of(summary)) == taught
    assert {row.provenance.process for row in summary.comparisons} == {column}
    assert {row.speedup.replicates for row in summary.comparisons} == {len(starts)}


def test_a_contaminated_fork_beside_clean_fresh_processes_teaches_too() -> None:
    first, *others = replicates(3, 0.01, process="fresh")
    busy = replace(first, process="forked", status=Status.CONTAMINATED)
    assert len(evidence_of(summarize([busy, *others]))) == 1
