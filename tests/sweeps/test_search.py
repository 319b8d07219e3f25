"""Drawing the trials of a definition."""

from __future__ import annotations

import random
from typing import Any

import pytest
from factories import make_record
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_sweeps.cli.sweep import metrics_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.overrides import overrides
from xla_sweeps.sweeps.definition import DISTRIBUTIONS, Metric, parse_sweep
from xla_sweeps.sweeps.search import expand, metric_of, sample

AXES = {
    **{"model": {"values": ["resnet50", "vgg16"]}, "batch_size": {"min": 1, "max": 3}},
    "jit": {"value": None},
}

GRID: dict[str, Any] = {"method": "grid", "parameters": AXES}


def test_a_grid_is_every_combination_in_the_order_of_the_file() -> None:
    sweep = parse_sweep(GRID, where="s.yaml")
    assert (sweep.combinations, sweep.trials) == (6, 6)
    assert [overrides(values) for values in expand(sweep)] == [
        [f"model={model}", f"batch_size={size}", "jit=null"]
        for model in ("resnet50", "vgg16")
        for size in (1, 2, 3)
    ]
    assert len(list(expand(parse_sweep({**GRID, "run_cap": 4}, where="s.yaml")))) == 4


@given(st.integers(1, 30), st.integers(0, 5))
def test_a_random_search_is_seeded_and_repeats_no_trial_before_all_are_drawn(
    cap: int, seed: int
) -> None:
    sweep = parse_sweep({**GRID, "method": "random", "run_cap": cap}, where="s.yaml")
    chosen = list(expand(sweep, seed=seed))
    assert chosen == list(expand(sweep, seed=seed))
    assert len({repr(values) for values in chosen}) == len(chosen) == min(cap, 6)
    assert {repr(values) for values in chosen} <= {
        repr(values) for values in expand(parse_sweep(GRID, where="s"))
    }


@pytest.mark.parametrize("distribution", sorted(DISTRIBUTIONS))
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_every_distribution_draws_within_its_bounds(distribution: str, seed: int) -> None:
    given_keys = {"value": 3, "values": [1, 2], "min": 1, "max": 9}
    axis = {
        "distribution": distribution,
        **{key: given_keys[key] for key in DISTRIBUTIONS[distribution]},
    }
    if distribution.startswith("q_"):
        axis["q"] = 2
    document = {"method": "random", "run_cap": 1, "parameters": {"m": axis}}
    drawn = sample(parse_sweep(document, where="s").parameters["m"], random.Random(seed))
    assert "normal" in distribution or 1 <= drawn <= 9
    if distribution in ("q_normal", "q_log_normal", "q_uniform"):
        assert (drawn - (1 if distribution == "q_uniform" else 0)) % 2 == 0


def test_a_trial_that_failed_has_no_metric_and_ends_no_search() -> None:
    row = metrics_of([make_record({"eager": 0.4})])
    assert metric_of(row, Metric(name="speedup", goal="maximize")) is None
    with pytest.raises(ConfigError, match="metric spedup: not a column"):
        metric_of(row, Metric(name="spedup", goal="maximize"))
