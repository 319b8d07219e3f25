"""Sweep definitions: what they stand for, counted before anything is expanded, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.overrides import overrides
from xla_sweeps.sweep.definition import load_sweep, parse_sweep
from xla_sweeps.sweep.search import expand


def test_an_enormous_sweep_is_counted_and_not_expanded() -> None:
    axes = {f"k{index}": {"values": list(range(1000))} for index in range(6)}
    sweep = parse_sweep({"method": "random", "run_cap": 3, "parameters": axes}, where="s.yaml")
    assert sweep.combinations == 10**18
    assert len(list(expand(sweep))) == 3


GRID: dict[str, Any] = {
    "method": "grid",
    "parameters": {
        "model": {"values": ["resnet50", "vgg16"]},
        "batch_size": {"min": 1, "max": 3},
        "jit": {"value": None},
    },
}


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([], "s.yaml: a sweep definition is a mapping with method and parameters"),
        (
            {"method": "grd", "parameters": {}},
            "s.yaml: unknown method 'grd'. Did you mean 'grid'? Allowed: grid, random, bayes.",
        ),
        ({**GRID, "method": "bayes"}, "s.yaml: method bayes needs run_cap"),
        (
            {**GRID, "method": "bayes", "run_cap": 3},
            "s.yaml: metric: expected {name: speedup, goal: maximize}",
        ),
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
            {
                "method": "grid",
                "parameters": {"m": {"values": [1, 2], "probabilities": [0.5, 0.6]}},
            },
            "s.yaml: parameters.m.probabilities=[0.5, 0.6]: expected one for each value, with sum 1",
        ),
        ({"method": "grid"}, "s.yaml: parameters: expected at least one"),
        (
            {"method": "grid", "parametrs": {}},
            "s.yaml: parameters: expected at least one, as in model: {values: [resnet50, vgg16]} (unknown key 'parametrs'",
        ),
        ({**GRID, "run_cap": 0}, "s.yaml: run_cap=0: expected an integer above 0"),
        ({**GRID, "method": "random"}, "s.yaml: method random needs run_cap, the number of trials"),
        (
            {"method": "grid", "parameters": {"m": 3}},
            "s.yaml: parameters.m: expected value: X, values: [X, Y]",
        ),
        (
            {"method": "grid", "parameters": {"m": {"values": []}}},
            "s.yaml: parameters.m.values=[]: expected a list with at least",
        ),
        (
            {"method": "grid", "parameters": {"m": {"vals": [1]}}},
            "s.yaml: parameters.m: unknown key 'vals'. Did you mean 'value",
        ),
        (
            {"method": "grid", "parameters": {"m": {"min": 3, "max": 1}}},
            "s.yaml: parameters.m: min=3 is above max=1",
        ),
        (
            {"method": "grid", "parameters": {"m": {"parameters": {}}}},
            "s.yaml: parameters.m.parameters: expected at least one",
        ),
    ],
)
def test_a_wrong_definition_is_refused_with_place_and_fix(document: Any, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sweep(document, where="s.yaml")
    assert str(caught.value).startswith(line)


def test_nested_parameters_are_flattened() -> None:
    nested = {
        "effort": {"parameters": {"block_s": {"values": [0.1, 0.2]}, "rounds_min": {"value": 8}}}
    }
    sweep = parse_sweep({"method": "grid", "parameters": nested}, where="s.yaml")
    assert [overrides(values) for values in expand(sweep)] == [
        ["effort.block_s=0.1", "effort.rounds_min=8"],
        ["effort.block_s=0.2", "effort.rounds_min=8"],
    ]


def test_keys_that_are_ignored_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "method: grid\nearly_terminate: {type: hyperband}\nrun_kap: 3\nparameters: {jit: {value: true}}\n"
    )
    sweep = load_sweep(tmp_path / "s.yaml")
    assert [line.partition("s.yaml")[2] for line in sweep.warnings] == [
        ":2: ignored early_terminate (W&B server only)",
        ":3: unknown key 'run_kap'. Did you mean 'run_cap'? Allowed: method, name, description, metric, parameters, command, "
        "program, run_cap, project, entity. Ignored, as W&B does.",
    ]


def test_an_option_of_an_earlier_version_is_ignored_with_a_warning() -> None:
    parameters = {"jit": {"value": True}, "known_records": {"value": 3}}
    sweep = parse_sweep({"method": "grid", "parameters": parameters}, where="s.yaml")
    assert list(sweep.parameters) == ["jit"]
    assert sweep.warnings == ("s.yaml: ignored known_records (of an earlier version)",)
