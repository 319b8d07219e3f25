"""Drawing the trials of a definition."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import optuna
import pytest
from factories import make_record
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_sweeps.cli.sweep import metrics_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.overrides import overrides
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.compose import Composer, Task
from xla_sweeps.sweeps.definition import DISTRIBUTIONS, Metric, parse_sweep
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.sweeps.search import Search, expand, metric_of, sample
from xla_sweeps.system import devices

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


class Told:
    """Values that the sampler was told of its trials; None of those that failed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: dict[int, float | None] = {}
        tell = optuna.Study.tell

        def note(study: Any, trial: Any, value: float | None = None, **more: Any) -> Any:
            self.values[trial.number] = value
            return tell(study, trial, value, **more)

        monkeypatch.setattr(optuna.Study, "tell", note)


def searched(
    results: Path, cap: int = 9, seed: int = 0, warn: Any = pytest.fail, **values: list[Any]
) -> Search:
    """A search of a small model, whose every record has the speedup 2."""
    parameters = {"model": {"value": "mnist_mlp"}} | {
        key: {"values": several} for key, several in values.items()
    }
    metric = {"name": "speedup", "goal": "maximize"}
    document = {"method": "bayes", "run_cap": cap, "metric": metric, "parameters": parameters}
    slots = [Slot(name="cpu", device=devices.devices()[-1])]
    return Search(
        parse_sweep(document, where="s.yaml"),
        Composer([], slots=slots, environ={}),
        Store(results),
        seed=seed,
        measured=lambda records: {"speedup": 2.0},
        warn=warn,
    )


def end(search: Search, task: Task, results: Path) -> None:
    """Measure a trial that the search proposed."""
    Store(results).save(make_record(trial_id=task.trial_ids[0]))
    search.done(task)


@pytest.mark.parametrize("seed", range(3))
def test_a_search_proposes_no_trial_twice_and_tells_every_result(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(monkeypatch)
    search = searched(tmp_path, seed=seed, batch_size=[1, 2, 3])
    proposed = [search.next() for _ in range(3)]
    assert not told.values, "none has ended"
    for task in proposed:
        assert task is not None
        end(search, task, tmp_path)
    assert len({task.key for task in proposed if task}) == 3
    assert search.tasks == proposed
    assert set(told.values.values()) == {2.0}
    assert search.next() is None


def test_a_search_goes_on_where_a_combination_is_refused_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, said = Told(monkeypatch), list[str]()
    search = searched(tmp_path, warn=said.append, scenario=["call", "detect", "train_step"])
    proposed = [task for _ in range(3) if (task := search.next())]
    assert len(proposed) == 2
    assert search.total == 3, "what runs may change what is proposed"
    for task in proposed:
        end(search, task, tmp_path)
    assert search.next() is None
    assert (search.exhausted, search.total) == (True, 2)
    assert set(told.values.values()) == {2.0, None}
    refused, ended = said
    assert "mnist_mlp is not a detector" in refused
    assert ended.startswith("the search ends after 2 trials of 3: ")


def test_a_search_of_which_every_combination_is_refused_is_a_mistake(tmp_path: Path) -> None:
    search = searched(tmp_path, warn=lambda line: None, scenario=["detect"], batch_size=[1, 2])
    with pytest.raises(ConfigError, match="mnist_mlp is not a detector"):
        search.next()
