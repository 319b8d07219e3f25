"""What every engine must do, on each of them: one process for each, in its own environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_environments import measured, python_of
from paths import ROOT, SUPPORT
from programs import run_program

from xla_sweeps.schema.backend import backend_named, backends
from xla_sweeps.schema.modes import SCENARIOS
from xla_sweeps.schema.trial import Precision

pytestmark = [
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.timeout(600),  # the environments are made first
]

TORCH = (
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="torch's wheel is for 3.11"),
    pytest.mark.exhaustive,  # its environment and its captures take minutes
)

EACH = pytest.mark.parametrize(
    "engine", ["tensorflow", "jax", pytest.param("torch", marks=TORCH)], ids=str
)

TENSORFLOW_DAILY = pytest.mark.parametrize(
    "engine",
    [
        "tensorflow",
        pytest.param("jax", marks=pytest.mark.exhaustive),
        pytest.param("torch", marks=TORCH),
    ],
    ids=str,
)
"""Each engine, daily TensorFlow alone: JAX compiles half a minute for these."""

OTHERS = pytest.mark.parametrize("engine", ["jax", pytest.param("torch", marks=TORCH)], ids=str)

NIGHTLY = {
    "tensorflow": ("measured_training", "measured_predict"),
    "jax": (
        *("measured_with_a_state", "wrong_at_a_shape", "training_with_its_own_loss"),
        *("training_with_dropout", "planted_errors"),
        *("amplified_rounding", "changed_by_tracing"),
    ),
}
"""Checks of exhaustive tests, which have a process of their own."""

MACS = 6 * 6 * 27 * 4 + 4 * 5
"""Multiply-accumulates of a sample of the small model."""


def python(engine: str) -> str:
    if engine == "tensorflow":
        return sys.executable
    try:
        return str(python_of(engine))
    except subprocess.CalledProcessError:
        pytest.skip(f"the package indexes have no {engine} for this Python")


@cache
def all_told(engine: str, *checks: str) -> dict[str, Any]:
    """What these checks of `engine_checks.py`, or all but those after a `-`, showed."""
    given = {
        **backend_named(engine).variables,
        "JAX_PLATFORMS": "cpu",
        "KERAS_TORCH_DEVICE": "cpu",
        "PYTHONPATH": f"{ROOT}:{SUPPORT}",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",  # nothing here is timed
    }
    program = (python(engine), SUPPORT / "engine_checks.py")
    ended = run_program(*program, engine, *checks, more=given, limit_s=580)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    return {name: shown for line in lines for name, shown in json.loads(line).items()}


def told(engine: str, check: str) -> Any:
    nightly = NIGHTLY.get(engine, ())
    chosen = nightly if check in nightly else [f"-{name}" for name in nightly]
    shown = all_told(engine, *chosen)[check]
    assert not isinstance(shown, dict) or "error" not in shown, shown["error"]
    return shown


def statuses(modes: dict[str, Any]) -> set[str]:
    return {outcome["status"] for outcome in modes.values()}


def is_eager(mode: str) -> bool:
    return mode.endswith("eager")


@pytest.mark.parametrize(
    ("check", "engine"),
    [
        pytest.param(check, engine, marks=marks, id=f"{check}-{engine}")
        for check in ("measured_call", "measured_training", "measured_predict")
        for engine, marks in (
            # TensorFlow's training and `predict` have tests of their own.
            ("tensorflow", [] if check == "measured_call" else [pytest.mark.exhaustive]),
            ("jax", []),
            ("torch", TORCH),
        )
    ],
)
def test_each_mode_is_proved_and_computes_what_eager_and_float64_do(
    check: str, engine: str
) -> None:
    shown = told(engine, check)
    modes = shown["modes"]
    assert statuses(modes) == {"ok"}, modes
    for outcome in modes.values():
        assert outcome["effective"]["in_force"]
        assert outcome["effective"]["elsewhere"] == []
        agreed = outcome["agreement"]  # of later inputs there is no reference
        assert agreed["ok"]
        assert (agreed["rmse_ref_rel"] or agreed["rmse_rel"]) < 1e-3
        assert outcome["first_call_s"] > 0 < outcome["warmup_calls"]
    assert shown["spoilt"] == []
    assert shown["macs"] == MACS


@TENSORFLOW_DAILY
def test_a_state_that_calls_change_is_put_back_before_each_compared_call(engine: str) -> None:
    shown = told(engine, "measured_with_a_state")
    assert statuses(shown["modes"]) == {"ok"}, shown["modes"]
    assert shown["spoilt"] == []


NEW_PROGRAMS = {
    **dict.fromkeys(("eager", "jax_eager", "torch_eager"), (0, 0, 0, 0)),
    **dict.fromkeys(("graph", "xla", "jax_xla"), (1, 1, 1, 1)),
    **dict.fromkeys(("graph_dynamic", "torch_compile_dynamic"), (1, 0, 0, 0)),
    "torch_compile": (1, 1, 1, 0),  # it sees a size that varies when it meets the second
}
"""Programs that each of the shapes makes: two batch sizes, a size, another batch size."""


@EACH
def test_a_program_is_counted_for_each_shape_that_makes_one(engine: str) -> None:
    shown = told(engine, "new_shapes")
    assert shown["spoilt"] == []
    for mode, one in shown["modes"].items():
        assert one["status"] == "ok"
        assert list(one["programs"]) == ["b2", "b5", "12", "b7"]
        assert tuple(one["programs"].values()) == NEW_PROGRAMS[mode]
        assert one["again"] == one["programs"], "a stream knows nothing of the one before"
        assert set(one["parts"]) == {*one["programs"], *(f"{n}_later" for n in one["programs"])}
        assert sum(one["parts"].values()) == one["whole"]
        if any(one["programs"].values()):
            assert one["parts"]["b2"] > 3 * one["parts"]["b2_later"]


@TENSORFLOW_DAILY
def test_a_mode_that_is_wrong_at_one_shape_is_wrong_and_the_shape_is_named(engine: str) -> None:
    (status, message), (in_half, in_half_message) = told(engine, "wrong_at_a_shape")
    assert status == in_half == "wrong_result"
    assert message.startswith("at b5: ")
    assert in_half_message.startswith("in float32: at b5: ")


@TENSORFLOW_DAILY
def test_a_planted_error_of_a_thousandth_is_caught_early_and_late(engine: str) -> None:
    wrong = told(engine, "planted_errors")
    late = wrong.pop("eager compiles late")
    assert {tuple(map(is_eager, modes)) for modes in wrong.values()} == {(False,)}
    if engine != "torch":  # whose `whole` compiles nothing
        assert list(map(is_eager, late)) == [True]


@TENSORFLOW_DAILY
def test_a_training_that_is_another_one_at_the_end_is_wrong(engine: str) -> None:
    assert list(map(is_eager, told(engine, "training_that_changes"))) == [False]


@TENSORFLOW_DAILY
def test_a_model_that_amplifies_rounding_is_not_called_wrong(engine: str) -> None:
    for statuses_of_one in told(engine, "amplified_rounding"):
        assert set(statuses_of_one.values()) == {"ok"}


@TENSORFLOW_DAILY
def test_what_tracing_changes_is_no_rounding_of_eager_execution(engine: str) -> None:
    call, training, in_half = told(engine, "changed_by_tracing")
    if engine == "torch":  # what asks whether it is compiled breaks the graph
        assert call.pop("torch_compile") == training.pop("torch_compile") == "mode_not_effective"
        in_half = {}
    for by_mode in (call, training, in_half):
        eager = {mode for mode in by_mode if is_eager(mode) or mode == "call_host"}
        wanted = {mode: "ok" if mode in eager else "wrong_result" for mode in by_mode}
        assert by_mode == wanted


@TENSORFLOW_DAILY
def test_a_model_trains_with_the_loss_that_it_was_compiled_with(engine: str) -> None:
    modes = told(engine, "training_with_its_own_loss")["modes"]
    assert statuses(modes) == {"ok"}, modes
    assert all(outcome["agreement"]["ok"] for outcome in modes.values())


@EACH
def test_a_compiled_mode_is_told_from_an_eager_one(engine: str) -> None:
    modes = told(engine, "measured_call")["modes"]
    keys = {"tensorflow": "jit_compile", "jax": "compilations", "torch": "graphs"}
    compiled = {
        mode: bool(outcome["effective"].get(keys[engine])) for mode, outcome in modes.items()
    }
    if engine == "jax":  # its eager operations are programs as well
        assert modes["jax_xla"]["steady_memory_bytes"] > 0
        for check in ("measured_call", "measured_training"):
            proofs = [each["effective"] for each in told(engine, check)["modes"].values()]
            assert proofs[1]["compilations"] == 1
            assert proofs[1]["compile_s"] > 0 < proofs[1]["lower_s"]
            assert [proof["recompilations"] for proof in proofs] == [0, 0]
    else:
        expected = {mode: not is_eager(mode) and mode != "graph" for mode in modes}
        assert compiled == expected
    if engine == "tensorflow":  # test_predict.py
        return
    settings = [each["effective"] for each in told(engine, "measured_predict")["modes"].values()]
    given = [each["jit_compile"] for each in settings if "jit_compile" in each]
    assert set(given) == {False, True}


@OTHERS
def test_outputs_equal_those_of_tensorflow(engine: str) -> None:
    ours, theirs = (
        np.asarray(told(each, "measured_call")["outputs"]) for each in (engine, "tensorflow")
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4 * np.abs(theirs).max())


@OTHERS
@pytest.mark.exhaustive  # daily: a random step of JAX's, and dropout on TensorFlow
def test_a_training_with_dropout_is_verified_where_random_numbers_can_be_told(engine: str) -> None:
    eager, *others = told(engine, "training_with_dropout")["modes"].values()
    assert eager["status"] == "ok"
    if engine != "torch":
        assert {each["status"] for each in others} == {"ok"}
        return
    (compiled,) = others
    assert compiled["status"] == "unverifiable"
    reason = "torch.compile draws other random numbers than eager in dropout"
    assert reason in compiled["failure"]["message"]


@OTHERS
def test_what_an_engine_cannot_do_is_said_with_the_reason(engine: str) -> None:
    backend = backend_named(engine)
    reason = backend.lacks[Precision.MIXED_FLOAT16]
    assert told(engine, "training_in_half") == (
        f"precision=mixed_float16: {reason} on {backend.title}; use precision=mixed_bfloat16 or "
        "float32"
    )


def test_each_scenario_without_modes_has_a_reason() -> None:
    for facts in SCENARIOS.values():
        having = {mode.backend for mode in facts.modes}
        lacking = [backend.name for backend in backends() if backend.name not in having]
        assert bool(lacking) == bool(facts.why_lacking)


NO_TENSORS = {"nothing": "None", "text": "a str", "number": "a float", "array": "a NumPy array"}

SHOWN: dict[str, Any] = {
    "call_that_fails": ["ValueError", "ConfigError"],  # at its own size it is not the size
    "inputs_rotate": "in turn",
    "new_inputs_are_like_the_old_ones": "like the old ones",
    "what_is_no_tensor": {
        name: f"the model returned {kind}; tensors are needed, alone or in lists, tuples or "
        "dictionaries"
        for name, kind in NO_TENSORS.items()
    },
    "complex_outputs": [[[[1, 2]], [[3, -4]]], [[0, 5]]],  # with their imaginary parts
    "outputs_of_own_classes": [[[1, 1]], [[1, 1], [2, 2]]],  # which are read as dictionaries
    # A twin that stays in float32 by its code is no reference.
    "a_twin_of_fixed_types": [
        "float64",
        ["the model sets its own dtypes, so it cannot be built in float64"],
    ],
}
"""What every engine must show."""


@EACH
@pytest.mark.parametrize("check", SHOWN)
def test_every_engine_shows_the_same(check: str, engine: str) -> None:
    assert told(engine, check) == SHOWN[check]


@EACH
def test_a_size_that_a_model_does_not_take_is_named(engine: str) -> None:
    assert told(engine, "size_that_is_fixed").startswith("shapes: tiny does not take 12: ")


@EACH
def test_a_model_that_decides_by_values_runs_eagerly_only(engine: str) -> None:
    modes = told(engine, "a_model_that_decides_by_values")
    ran = {mode for mode, outcome in modes.items() if outcome["status"] == "ok"}
    assert ran == set(filter(is_eager, modes))
    if engine == "jax":
        assert modes["jax_xla"]["status"] == "dynamic_shape"
        assert "decides by computed values" in modes["jax_xla"]["failure"]["message"]


@EACH
def test_what_keras_lowers_is_named(engine: str) -> None:
    modes = told(engine, "lowered")
    refused = [each for each in modes.values() if each["status"] == "mode_not_effective"]
    assert refused
    for outcome in refused:
        assert outcome["effective"]["jit_compile_asked"] is True
        assert outcome["failure"]["message"] == (
            "Keras lowered jit_compile=True to False: supports_jit is False in own (Activation)"
        )


@OTHERS
def test_a_gpu_that_is_not_seen_is_one_line_with_what_to_do(engine: str) -> None:
    line = told(engine, "no_gpu")
    assert "sees no GPU" in line
    assert "pip install" in line
    assert "\n" not in line


def test_jax_trains_by_a_models_own_step() -> None:
    modes = told("jax", "jax_own_step")["modes"]
    assert statuses(modes) == {"ok"}, modes
    assert all(outcome["agreement"]["rmse_rel"] is not None for outcome in modes.values())


def test_weights_that_jax_holds_as_constants_are_named() -> None:
    assert told("jax", "jax_weights") == ["weights_not_read"] * 2


def test_multiply_accumulates_are_counted_in_the_program_that_jax_lowers() -> None:
    assert told("jax", "jax_macs") == {
        "dot": [64, False],
        "jit": [64, False],
        "convolution": [2 * 64 * 9 * 6 * 12, False],
        "grouped": [2 * 64 * 9 * 2 * 12, False],
        "scan": [5 * 64, False],
        "while": [64, True],
    }


def test_a_loop_that_jax_compiles_in_each_call_is_measured_with_a_flag() -> None:
    statuses, flags = told("jax", "jax_loops")
    ((mode, note),) = [rest for flag, *rest in flags if flag == "recompiles_per_input"]
    assert (statuses, mode) == (["ok", "ok"], "jax_eager")
    assert note.startswith("the second call compiled 1 program, for example of jax.lax.scan")


@TORCH[0]
@TORCH[1]
def test_a_mode_of_pytorch_is_proved_by_the_graphs_that_were_captured() -> None:
    shown = told("torch", "torch_proofs")
    assert shown["one graph"] == shown["its copy"] == shown["eager"] == ""
    assert shown["several"] == ""  # measured, with the flag `graph_breaks`
    assert "0 graphs with 1 graph breaks" in shown["none"]
    assert "not the model as one graph" in shown["none"]
    assert shown["once again"] == ""  # a number that varies
    assert shown["again"] == "each of 4 further calls compiled again"
    assert shown["elsewhere"] == "a tensor is on cpu, not on cuda"


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++")
@TORCH[0]
@TORCH[1]
@pytest.mark.parametrize("scenario", ["call", "train_step", "predict"])
def test_pytorch_compiles_what_it_captured(scenario: str, tmp_path: Path) -> None:
    words = ("backend=torch", f"scenario={scenario}")
    record = measured(Path(python("torch")), tmp_path, *words, ends=int(scenario == "train_step"))
    for mode, outcome in record["modes"].items():
        proof = outcome["effective"]
        whole = is_eager(mode) or (proof["graphs"] and not proof["gave_up"])
        assert outcome["status"] == ("ok" if whole else "mode_not_effective")


@pytest.mark.exhaustive
def test_one_trial_compares_tensorflow_and_jax_on_the_same_weights(tmp_path: Path) -> None:
    beside = next(Path(python("jax")).parent.parent.glob("lib/python3*")) / "site-packages"
    record = measured(
        Path(sys.executable),
        tmp_path,
        "modes=[graph,xla,jax_xla]",
        environ={"PYTHONPATH": str(beside)},
    )
    outcomes = record["modes"]
    assert statuses(outcomes) == {"ok"}
    assert {"graph", "xla", "jax_xla"} <= outcomes.keys()
    assert outcomes["jax_xla"]["agreement"]["rmse_rel"] < 1e-5
    assert outcomes["jax_xla"]["effective"]["compilations"] == 1


@OTHERS
def test_errors_that_doctor_plants_are_caught_in_each_compiled_mode(engine: str) -> None:
    words = [python(engine), "-m", f"xla_sweeps.backends.{engine}.plants", "cpu"]
    environment = {**os.environ, **backend_named(engine).variables, "KERAS_TORCH_DEVICE": "cpu"}
    given = {"cwd": ROOT, "env": environment, "check": False, "timeout": 300}
    done: Any = subprocess.run(words, capture_output=True, **given)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr.decode()
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["verdict"] for one in told} == {"ok"}, told
    assert len(told) == {"jax": 1, "torch": 2}[engine]
