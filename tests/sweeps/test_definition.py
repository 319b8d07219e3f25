"""Sweep definitions: their trials, counted before they are expanded, and their mistakes."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.overrides import overrides
from xla_sweeps.sweeps.compose import Composer, compose_all
from xla_sweeps.sweeps.definition import DISTRIBUTIONS, PARAMETER_KEYS, load_sweep, parse_sweep
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.sweeps.search import expand
from xla_sweeps.system import devices


@pytest.mark.parametrize("method", ["grid", "random"])
def test_an_enormous_sweep_is_counted_and_not_expanded(method: str) -> None:
    axes = {f"k{index}": {"min": 1, "max": 10**9} for index in range(6)}
    sweep = parse_sweep({"method": method, "run_cap": 3, "parameters": axes}, where="s.yaml")
    assert sweep.combinations == 10**54
    assert len({repr(values) for values in expand(sweep)}) == 3


AXES = {
    **{"model": {"values": ["resnet50", "vgg16"]}, "batch_size": {"min": 1, "max": 3}},
    "jit": {"value": None},
}

GRID: dict[str, Any] = {"method": "grid", "parameters": AXES}

CUSTOM: dict[str, Any] = {
    **{**GRID, "method": "custom", "scheduler": {"engine": "optuna"}, "run_cap": 3},
    "metric": {"name": "speedup", "goal": "maximize"},
}

OPTUNA = {"engine": "optuna"}

WRONG: list[tuple[Any, str]] = [
    ([], "a sweep definition is a mapping with method and parameters"),
    ({}, "method is missing, as in method: grid"),
    ({"method": "grd"}, "unknown method 'grd'. Did you mean 'grid'? Allowed: grid, random, bayes"),
    ({**GRID, "method": "bayes"}, "method bayes needs run_cap"),
    ({**GRID, "method": "random"}, "method random needs run_cap, the number of trials"),
    ({**CUSTOM, "run_cap": None}, "method custom needs run_cap"),
    ({**GRID, "run_cap": 0}, "run_cap=0: expected an integer above 0"),
    ({**GRID, "run_cap": -(10**5000)}, "run_cap=-10^5000: expected an integer above 0"),
    ({**GRID, "method": "bayes", "run_cap": 3}, "metric: expected {name: speedup, goal: maximize}"),
    ({**GRID, "metric": {"name": "a", "goal": "maximise"}}, "unknown goal 'maximise'. Did you"),
    ({**GRID, "metric": {"name": "a", "goal": ["minimize"]}}, "unknown goal '['minimize']'"),
    ({"method": "grid"}, "parameters: expected at least one"),
    (
        {"method": "grid", "parametrs": {}},
        "parameters: expected at least one, as in model: {values: [resnet50, vgg16]} "
        "(unknown key 'parametrs'",
    ),
]

WRONG_SCHEDULERS: list[tuple[Any, str]] = [
    (None, "method custom needs scheduler: {engine: optuna}"),
    ("optuna", "method custom needs scheduler: {engine: optuna}"),
    ({"engine": "ax"}, "unknown engine 'ax'. Allowed: optuna."),
    ({"engine": ["optuna"]}, "unknown engine '['optuna']'."),
    ({**OPTUNA, "worker": 1}, "unknown scheduler key 'worker'. Allowed: eng"),
    *(
        ({**OPTUNA, key: "x"}, f"scheduler.{key}: names Python code, which a definition never runs")
        for key in ("source", "optimizer", "search_space", "terminator")
    ),
]

WRONG_PARAMETERS: list[tuple[Any, str]] = [
    (3, ": expected value: X, values: [X, Y]"),
    ({"min": "3e-4", "max": 0.1}, ".min: 3e-4 is a text in YAML 1.1; write 3.0e-4"),
    (
        {"distribution": "uniform", "min": 0, "max": "-1E5"},
        ".max: -1E5 is a text in YAML 1.1; write -1.0e+5",
    ),
    ({"values": []}, ".values=[]: expected a list with at least"),
    ({"vals": [1]}, ": unknown key 'vals'. Did you mean 'value"),
    ({"min": 3, "max": 1}, ": min=3 is above max=1"),
    ({"min": 0.5, "max": 2.5}, ": a grid needs values that can be counted"),
    ({"parameters": {}}, ".parameters: expected at least one"),
    ({"distribution": "beta"}, ": unknown distribution 'beta'."),
    ({"distribution": ["uniform"]}, ": unknown distribution '['uniform']'"),
    (
        {"values": [1, 2], "probabilities": [0.5, 0.6]},
        ".probabilities=[0.5, 0.6]: expected one for",
    ),
    ({"values": [1, 2], "probabilities": 5}, ".probabilities=5: expected one for each"),
    ({"values": [1, 2], "probabilities": [1e308, math.inf]}, ".probabilities=[1e+308"),
    ({"min": 10**400, "max": 10**401}, ".min=10^400: expected a number, at most 1e+15"),
    ({"min": 0, "max": 1e16}, ".max=1e+16: expected a number, at most 1e+15"),
    (
        {"min": 96, "max": 384, "q": 32},
        ": distribution int_uniform does not use q; allowed: min, max; for steps of q write "
        "distribution: q_uniform",
    ),
    ({"mu": 1, "min": 0}, ": distribution normal does not use min; allowed: mu, sigma"),
    (
        {"value": 1, "probabilities": [1]},
        ": distribution constant does not use probabilities; allowed: value",
    ),
    ({"values": [1], "value": 1}, ": distribution constant does not use values; allowed: value"),
    ({"distribution": "q_uniform", "min": 0, "max": 1, "q": 1e-300}, ": q must be at least 1e-15"),
]


@pytest.mark.parametrize(
    ("document", "line"),
    [
        *WRONG,
        *(({**CUSTOM, "scheduler": given}, line) for given, line in WRONG_SCHEDULERS),
        ({**CUSTOM, "method": "bayes", "scheduler": {"source": "x"}}, "scheduler.source: names Py"),
        *(
            ({"method": "grid", "parameters": {"m": given}}, f"parameters.m{line}")
            for given, line in WRONG_PARAMETERS
        ),
    ],
)
def test_a_wrong_definition_is_reported_with_its_place_and_how_to_fix_it(
    document: Any, line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sweep(document, where="s.yaml")
    assert str(caught.value).startswith(f"s.yaml: {line}")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_key_that_a_distribution_uses_may_be_given(distribution: str) -> None:
    keys: dict[str, Any] = {"min": 1, "max": 9}
    if distribution == "constant":
        keys = {"value": 1}
    elif distribution == "categorical":
        keys = {"values": [1], "probabilities": [1]}
    elif "normal" in distribution:
        keys = {"mu": 0, "sigma": 1}
    keys |= {"q": 2} if distribution.startswith("q_") else {}
    parameters = {"m": {"distribution": distribution, **keys}}
    sweep = parse_sweep({"method": "random", "run_cap": 1, "parameters": parameters}, where="s")
    assert sweep.parameters["m"].distribution == distribution


@pytest.mark.parametrize("where", ["of/mine.yaml", "of/mine"])
def test_a_definition_without_a_name_has_that_of_its_file(where: str) -> None:
    assert parse_sweep(GRID, where=where).name == "mine"


def test_nested_parameters_are_flattened() -> None:
    nested = {
        "effort": {"parameters": {"block_s": {"values": [0.1, 0.2]}, "rounds_min": {"value": 8}}}
    }
    sweep = parse_sweep({"method": "grid", "parameters": nested}, where="s.yaml")
    assert [overrides(values) for values in expand(sweep)] == [
        ["effort.block_s=0.1", "effort.rounds_min=8"],
        ["effort.block_s=0.2", "effort.rounds_min=8"],
    ]


def test_ignored_keys_are_reported_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "method: grid\nearly_terminate: {type: hyperband}\nrun_kap: 3\nparameters: {jit: {value: "
        "true}}\n"
    )
    sweep = load_sweep(tmp_path / "s.yaml")
    assert [line.partition("s.yaml")[2] for line in sweep.warnings] == [
        ":2: ignored early_terminate (W&B server only)",
        ":3: unknown key 'run_kap'. Did you mean 'run_cap'? Allowed: method, name, description, "
        "metric, parameters, command, program, run_cap, project, entity. Ignored, as W&B does.",
    ]


OURS = ["${env}", "${interpreter}", "-m", "xla_sweeps", "${args_json}"]


def test_values_in_the_command_are_constants_of_every_trial() -> None:
    words = ["resolution=96", "precision=mixed_bfloat16", "modes=[graph,xla]", "effort.block_s=0.2"]
    parameters = {"model": {"values": ["vgg16", "vgg19"]}, "effort": {"value": "standard"}}
    definition = {"method": "grid", "parameters": parameters}
    for command in ([*OURS[:4], *words, "${args_no_hyphens}"], " ".join([*OURS, *words])):
        sweep = parse_sweep({**definition, "command": command}, where="s.yaml")
        assert [overrides(values) for values in expand(sweep)] == [
            [f"model={model}", "effort=standard", *words] for model in ("vgg16", "vgg19")
        ]
        assert sweep.warnings == ()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["jit=true"], "command: jit=… is a parameter too; keep one of the two"),
        (["seed=1,2"], "command: 'seed=1,2': give one value, as in key=value"),
        (["seed=1", "seed=2"], "command: conflicting overrides: 'seed=1' and 'seed=2'; give seed"),
    ],
)
def test_a_command_that_contradicts_is_refused(words: list[str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sweep({**GRID, "command": [*OURS, *words]}, where="s.yaml")
    assert str(caught.value).startswith(f"s.yaml: {line}")


def test_what_only_wandbs_agents_read_is_said_to_be_ignored() -> None:
    own = {"project": "p", "entity": "me", "command": ["env", "A=b", "x", "path=a:b", "seed=1"]}
    own["command"] += ["device=cpu"]  # type: ignore[operator]
    assert parse_sweep({**GRID, **own}, where="s.yaml").warnings == (
        "s.yaml: ignored project (W&B agents only); for all launchers type tracker.project=NAME",
        "s.yaml: ignored entity (W&B agents only); for all launchers type tracker.entity=NAME",
        "s.yaml: command: ignored A=b path=a:b device=cpu; expected option=value words "
        "that a file may set",
    )


def test_wandbs_custom_method_with_optuna_is_a_bayes_search() -> None:
    bayes = {key: value for key, value in CUSTOM.items() if key != "scheduler"}
    sweep = parse_sweep(CUSTOM, where="s.yaml")
    assert sweep == parse_sweep({**bayes, "method": "bayes"}, where="s.yaml")
    assert (sweep.method, sweep.warnings) == ("bayes", ())


def test_a_scheduler_of_another_method_is_ignored_with_a_warning() -> None:
    launch = {**GRID, "scheduler": {"resource": "local-process"}}
    (line,) = parse_sweep(launch, where="s.yaml").warnings
    assert line == "s.yaml: ignored scheduler (W&B server only)"


SLOT = Slot(name="cpu", device=devices.devices()[-1])

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)

values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)

parameters = st.dictionaries(
    st.sampled_from(
        [
            *("model", "batch_size", "jit", "effort", "seed", "modes", "_target_", "results_dir"),
            *("x", ""),
        ]
    ),
    st.dictionaries(
        st.sampled_from([*PARAMETER_KEYS, "oops"]),
        values | st.sampled_from([*DISTRIBUTIONS]),
        max_size=4,
    )
    | values,
    max_size=3,
)

documents = st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(["grid", "random", "bayes", "custom"]) | values,
        "scheduler": st.dictionaries(st.sampled_from(["engine", "source"]), values) | values,
        "parameters": parameters | values,
        "run_cap": st.integers(-1, 5) | values,
        "metric": values,
        "name": values,
        "odd": values,
    },
)


@given(documents | values)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_definition_is_a_sweep_or_refused_in_one_line(document: Any) -> None:
    try:
        sweep = parse_sweep(document, where="s.yaml")
    except XlaSweepsError as error:
        assert "\n" not in str(error).strip()  # noqa: PT017
        return
    assert sweep.trials >= 0
    if sweep.method == "bayes" or sweep.trials > 50:
        return
    composer = Composer([], slots=[SLOT], environ={})
    try:
        compose_all(composer, expand(sweep), lines={}, where="s.yaml")
    except XlaSweepsError as error:
        assert str(error).startswith("s.yaml")  # noqa: PT017


ODD_YAML = (
    *("!!python/object/apply:os.system [id]", "&a [*a]", "*a", "{[a]: 1}", "<<: 3", "---", "..."),
    *("%YAML 9.9", "!!set {a}", "!!binary ////", "2001-99-99", "2001-01-01", "1e400", ".nan", "~"),
    *('"\\ud800"', '"\\0"', '"\\x1b[31m"', "!!int abc", "!x y", "!!timestamp z", "? a", "- - -"),
    *("|", ">-", "@", "`", "\t", "\x00", "\x85", "#", "'", '"', "[a, b]", "{a: b}", "9" * 5000),
    *("[" * 40, "{a: " * 40, "!!map [1]", "!!seq {a: 1}", "=", "on", "1:30", "0o9", "\ufeff"),
)

LINES = ["method: grid", "name: mine", "run_cap: 5", "parameters:", "  seed: {value: 1}"]


@given(st.text(max_size=200) | documents.map(lambda value: yaml.safe_dump(value)))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_any_file_is_a_sweep_or_refused_in_one_line(tmp_path: Path, text: str) -> None:
    read(tmp_path / "s.yaml", text)


def read(path: Path, text: str) -> None:
    """Load a definition of this text, or have it refused in a line that names its file."""
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        load_sweep(path)
    except XlaSweepsError as error:
        assert str(path) in str(error)  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("place", range(len(LINES) + 1))
def test_an_odd_line_anywhere_is_read_or_refused_in_one_line(place: int, tmp_path: Path) -> None:
    for odd in ODD_YAML:
        for line in (odd, f"  batch_size: {{value: {odd}}}"):
            read(tmp_path / "s.yaml", "\n".join([*LINES[:place], line, *LINES[place:]]))


def test_a_random_number_that_no_float_can_hold_is_drawn_as_the_largest() -> None:
    drawn = {"mem": {"distribution": "log_normal", "mu": 10**6}}
    sweep = parse_sweep({"method": "random", "run_cap": 1, "parameters": drawn}, where="s.yaml")
    assert next(expand(sweep))["mem"] > 1e300
