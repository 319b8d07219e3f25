"""Sweep definitions: what they stand for, counted before anything is expanded, and what is wrong with them."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_sweeps import environment
from xla_sweeps.composition import compose_config
from xla_sweeps.config import to_settings
from xla_sweeps.errors import ConfigError
from xla_sweeps.planning import Composer, Place
from xla_sweeps.proposals import expand, sample
from xla_sweeps.runner import identify
from xla_sweeps.sweep import DISTRIBUTIONS, flattened, override_value, overrides, parse_sweep
from xla_sweeps.sweeping import load_sweep
from xla_sweeps.trial import request_id

ROOT = Path(__file__).resolve().parents[1]
PLACE = Place(environment.devices()[-1], environment.usable_cores())
GRID: dict[str, Any] = {
    "method": "grid",
    "parameters": {
        "model": {"values": ["resnet50", "vgg16"]},
        "batch_size": {"min": 1, "max": 3},
        "jit": {"value": None},
    },
}


def test_a_grid_is_every_combination_in_the_order_of_the_file() -> None:
    sweep = parse_sweep(GRID, where="s.yaml")
    assert (sweep.combinations, sweep.trials) == (6, 6)
    assert [overrides(values) for values in expand(sweep)] == [
        [f"model={model}", f"batch_size={size}", "jit=null"] for model in ("resnet50", "vgg16") for size in (1, 2, 3)
    ]


def test_run_cap_ends_a_grid_early() -> None:
    sweep = parse_sweep({**GRID, "run_cap": 4}, where="s.yaml")
    assert sweep.trials == 4
    assert len(list(expand(sweep))) == 4


@given(st.integers(1, 30), st.integers(0, 5))
def test_a_random_search_is_seeded_and_repeats_nothing_while_there_is_more(cap: int, seed: int) -> None:
    sweep = parse_sweep({**GRID, "method": "random", "run_cap": cap}, where="s.yaml")
    chosen = list(expand(sweep, seed=seed))
    assert chosen == list(expand(sweep, seed=seed))
    assert len({repr(values) for values in chosen}) == len(chosen) == min(cap, 6)
    assert {repr(values) for values in chosen} <= {repr(values) for values in expand(parse_sweep(GRID, where="s"))}


def test_an_enormous_sweep_is_counted_and_not_expanded() -> None:
    axes = {f"k{index}": {"values": list(range(1000))} for index in range(6)}
    sweep = parse_sweep({"method": "random", "run_cap": 3, "parameters": axes}, where="s.yaml")
    assert sweep.combinations == 10**18
    assert len(list(expand(sweep))) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (False, "false"), (4, "4"), (0.5, "0.5"), ("resnet50", "resnet50"),
        ("4", "'4'"), ("true", "'true'"), ("1e5", "'1e5'"), ("a b", "'a b'"), ("it's", "'it\\'s'"), (["graph", "xla"], "[graph,xla]"), ({"a": [1, None]}, "{a:[1,null]}"),
    ],
)  # fmt: skip
def test_values_are_written_as_hydra_reads_them(value: Any, text: str) -> None:
    assert override_value(value) == text


@pytest.mark.parametrize(
    "value", ["a b", "it's", "x=1", "[1,2]", "{a}", "a,b", "$x", "ä", "back\\slash", "end\\", "q\\'"]
)
def test_hydra_reads_every_text_back(value: str) -> None:
    composed = compose_config([*overrides({"results_dir": value})])
    assert composed.results_dir == value


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([], "s.yaml: a sweep definition is a mapping with method and parameters"),
        (
            {"method": "grd", "parameters": {}},
            "s.yaml: unknown method 'grd'. Did you mean 'grid'? Allowed: grid, random, bayes.",
        ),
        ({**GRID, "method": "bayes"}, "s.yaml: method bayes needs run_cap"),
        ({**GRID, "method": "bayes", "run_cap": 3}, "s.yaml: metric: write {name: speedup, goal: maximize}"),
        (
            {**GRID, "metric": {"name": "speedup", "goal": "maximise"}},
            "s.yaml: unknown goal 'maximise'. Did you mean 'maximize'?",
        ),
        (
            {"method": "grid", "parameters": {"m": {"min": 0.5, "max": 2.5}}},
            "s.yaml: parameters.m: a grid needs values that can be counted",
        ),
        (
            {"method": "random", "run_cap": 1, "parameters": {"m": {"distribution": "beta"}}},
            "s.yaml: parameters.m: unknown distribution 'beta'.",
        ),
        (
            {"method": "grid", "parameters": {"m": {"values": [1, 2], "probabilities": [0.5, 0.6]}}},
            "s.yaml: parameters.m.probabilities=[0.5, 0.6]: one for each value, together 1",
        ),
        ({"method": "grid"}, "s.yaml: parameters: name at least one"),
        (
            {"method": "grid", "parametrs": {}},
            "s.yaml: parameters: name at least one, as in model: {values: [resnet50, vgg16]} (unknown key 'parametrs'",
        ),
        ({**GRID, "run_cap": 0}, "s.yaml: run_cap=0: a whole number above 0 is needed"),
        ({**GRID, "method": "random"}, "s.yaml: method random needs run_cap, the number of trials"),
        ({"method": "grid", "parameters": {"m": 3}}, "s.yaml: parameters.m: write value: X, values: [X, Y]"),
        (
            {"method": "grid", "parameters": {"m": {"values": []}}},
            "s.yaml: parameters.m.values=[]: a list with at least",
        ),
        (
            {"method": "grid", "parameters": {"m": {"vals": [1]}}},
            "s.yaml: parameters.m: unknown key 'vals'. Did you mean 'value",
        ),
        (
            {"method": "grid", "parameters": {"m": {"min": 3, "max": 1}}},
            "s.yaml: parameters.m: min=3 is above max=1",
        ),
        ({"method": "grid", "parameters": {"m": {"parameters": {}}}}, "s.yaml: parameters.m.parameters: name one"),
    ],
)
def test_a_wrong_definition_is_told_where_and_how_to_mend_it(document: Any, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sweep(document, where="s.yaml")
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize("path", sorted((ROOT / "sweeps").glob("*.yaml")), ids=lambda path: str(path.name))
def test_every_definition_that_is_shipped_composes_into_trials(path: Path) -> None:
    sweep = load_sweep(path)
    assert sweep.warnings == ()
    assert path.read_text().startswith("# "), "a line that says what it is for"
    composer = Composer([], places=[PLACE], environ={})
    keys = {composer.task(values).key for values in expand(sweep)} if sweep.method != "bayes" else {"?"}
    assert len(keys) == sweep.trials


@given(st.sampled_from(sorted(path.stem for path in (ROOT / "conf" / "model").glob("*.yaml") if path.stem != "local")),
       st.sampled_from([{}, {"jit": None}, {"batch_size": 1, "seed": 3}, {"effort": "standard"}, {"effort": {"block_s": 0.1}}]))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_composing_fast_gives_what_hydra_composes(model: str, values: dict[str, Any]) -> None:
    chosen = {"model": model, **values}
    task = Composer(["weights=random"], places=[PLACE], environ={}).task(chosen)
    words = [*overrides(flattened(chosen, ("effort",))), "weights=random"]
    assert list(task.words) == words
    composed = to_settings(compose_config(words), explicit={word.partition("=")[0] for word in words}, environ={})
    assert task.key == identify(composed, environment.environment())
    assert task.request_id == request_id(composed.trial)


def test_nested_parameters_are_flat_ones() -> None:
    nested = {"effort": {"parameters": {"block_s": {"values": [0.1, 0.2]}, "rounds_min": {"value": 8}}}}
    sweep = parse_sweep({"method": "grid", "parameters": nested}, where="s.yaml")
    assert [overrides(values) for values in expand(sweep)] == [
        ["effort.block_s=0.1", "effort.rounds_min=8"], ["effort.block_s=0.2", "effort.rounds_min=8"],
    ]  # fmt: skip


@pytest.mark.parametrize("distribution", sorted(DISTRIBUTIONS))
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_every_distribution_draws_within_its_bounds(distribution: str, seed: int) -> None:
    given_keys = {"value": 3, "values": [1, 2], "min": 1, "max": 9}
    axis = {"distribution": distribution, **{key: given_keys[key] for key in DISTRIBUTIONS[distribution]}}
    if distribution.startswith("q_"):
        axis["q"] = 2
    document = {"method": "random", "run_cap": 1, "parameters": {"m": axis}}
    drawn = sample(parse_sweep(document, where="s").parameters["m"], random.Random(seed))
    assert "normal" in distribution or 1 <= drawn <= 9
    if distribution in ("q_normal", "q_log_normal", "q_uniform"):
        assert (drawn - (1 if distribution == "q_uniform" else 0)) % 2 == 0


def test_keys_that_are_passed_over_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "method: grid\nearly_terminate: {type: hyperband}\nrun_kap: 3\nparameters: {jit: {value: true}}\n"
    )
    sweep = load_sweep(tmp_path / "s.yaml")
    assert [line.partition("s.yaml")[2] for line in sweep.warnings] == [
        ":2: early_terminate is for W&B's own server; passed over here",
        ":3: unknown key 'run_kap'. Did you mean 'run_cap'? Allowed: method, name, description, metric, parameters, command, "
        "program, run_cap, project, entity. Passed over, as W&B does.",
    ]


def sweep_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xla_sweeps", "sweep", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(cwd)},
    )  # fmt: skip


def test_a_dry_run_prints_the_commands_a_person_would_type(tmp_path: Path) -> None:
    done = sweep_command(
        str(ROOT / "sweeps" / "smoke.yaml"), "batch_size=1", "--dry-run", "resolution=64", cwd=tmp_path
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "python -m xla_sweeps model=mobilenet_v2 jit=true batch_size=1 resolution=64"
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == (
        "smoke: 3 trials; 0 done, 3 to measure (3 replicates)\n"
        "no estimate of the time: nothing like it has been measured into this folder yet\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("method: grid\nparameters: [1\nx: 2\n", ": not valid YAML: "),
        ("a: &x 1\nb: *x\n", ":2: YAML aliases are not allowed"),
        (
            "method: grid\nparameters: {model: {values: [resnet5]}}\n",
            "s.yaml:2: unknown model 'resnet5'. Did you mean 'resnet50'?",
        ),
        ("method: grid\nparameters: {seed: {min: 1, max: 20000}}\n", "20,000 trials are more than --max-trials=10,000"),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_2(text: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(text)
    done = sweep_command("s.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_absent_file_is_one_line(tmp_path: Path) -> None:
    assert sweep_command("none.yaml", cwd=tmp_path).stderr == "xla-sweeps: none.yaml: no such file\n"
