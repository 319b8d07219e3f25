"""Sweep definitions: what they stand for, counted before anything is expanded, and what is wrong with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_sweeps.composition import compose_config
from xla_sweeps.config import to_settings
from xla_sweeps.errors import ConfigError
from xla_sweeps.sweep import expand, override_value, overrides, parse_sweep
from xla_sweeps.sweeping import load_sweep

ROOT = Path(__file__).resolve().parents[1]
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
    assert list(expand(sweep)) == [
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
    assert len({tuple(words) for words in chosen}) == len(chosen) == min(cap, 6)
    assert {tuple(words) for words in chosen} <= {tuple(words) for words in expand(parse_sweep(GRID, where="s"))}


def test_an_enormous_sweep_is_counted_and_not_expanded() -> None:
    axes = {f"k{index}": {"values": list(range(1000))} for index in range(6)}
    sweep = parse_sweep({"method": "random", "run_cap": 3, "parameters": axes}, where="s.yaml")
    assert sweep.combinations == 10**18
    assert len(list(expand(sweep))) == 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (False, "false"), (4, "4"), (0.5, "0.5"), ("resnet50", "resnet50"),
        ("a b", "'a b'"), ("it's", "'it\\'s'"), (["graph", "xla"], "[graph,xla]"), ({"a": [1, None]}, "{a:[1,null]}"),
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
            "s.yaml: unknown method 'grd'. Did you mean 'grid'? Allowed: grid, random.",
        ),
        ({"method": "bayes", "parameters": {}}, "s.yaml: unknown method 'bayes'."),
        ({"method": "grid"}, "s.yaml: parameters: name at least one"),
        ({**GRID, "parametrs": {}}, "s.yaml: unknown key 'parametrs'. Did you mean 'parameters'?"),
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
            "s.yaml: parameters.m: give value, values, or whole",
        ),
        (
            {"method": "grid", "parameters": {"m": {"parameters": {}}}},
            "s.yaml: parameters.m: nested parameters are not read",
        ),
    ],
)
def test_a_wrong_definition_is_told_where_and_how_to_mend_it(document: Any, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sweep(document, where="s.yaml")
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize("path", sorted((ROOT / "sweeps").glob("*.yaml")), ids=lambda path: str(path.name))
def test_every_definition_that_is_shipped_composes_into_trials(path: Path) -> None:
    for words in expand(load_sweep(path)):
        assert to_settings(compose_config(words), explicit={word.partition("=")[0] for word in words}, environ={})


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
    assert done.stderr == "3 trials of smoke\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("method: grid\nparameters: [1\nx: 2\n", ": not valid YAML: "),
        ("a: &x 1\nb: *x\n", ":2: YAML aliases are not allowed"),
        (
            "method: grid\nparameters: {model: {values: [resnet5]}}\n",
            "unknown model 'resnet5'. Did you mean 'resnet50'?",
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
