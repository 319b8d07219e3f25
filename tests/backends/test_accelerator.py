"""Every scenario, mode and backend once on a stand-in for an accelerator, through real workers."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from factories import TRIAL
from stand_in import GREEDY, PLACES, measured, trial_of

from xla_sweeps.schema.backend import backend_named
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import SCENARIOS, Scenario
from xla_sweeps.trial.replicate import ReplicateResult

pytestmark = [
    pytest.mark.accelerator,
    pytest.mark.tf,
    pytest.mark.slow,
    pytest.mark.timeout(600),  # the environments are made first
]

WORDS = {
    Scenario.DETECT: ("model=yolo_v8_xs", "resolution=32", "batch_size=2"),
    Scenario.PREDICT: ("batches=2",),
    Scenario.FIT: ("batches=2",),
}

DAILY: dict[tuple[str, Scenario], tuple[str, ...]] = {
    ("tensorflow", Scenario.CALL): ("graph", "xla"),
    ("tensorflow", Scenario.DETECT): ("xla",),
    ("tensorflow", Scenario.PREDICT): ("graph_host", "predict_xla"),
    ("tensorflow", Scenario.TRAIN_STEP): ("graph", "xla", "train_on_batch_xla"),
    ("tensorflow", Scenario.FIT): ("input", "fit_graph", "fit_xla"),
    ("tensorflow", Scenario.NEW_SHAPES): ("xla",),
    ("jax", Scenario.CALL): ("jax_eager", "jax_xla"),
}
"""Modes that differ most; the others go the same ways."""

MODES: dict[tuple[str, Scenario], tuple[str, ...]] = {
    (backend, scenario): tuple(
        str(mode)
        for mode in facts.modes
        # Of which a graph is captured depends on the version of PyTorch.
        if mode.backend == backend and "compile" not in str(mode)
    )
    for scenario, facts in SCENARIOS.items()
    if scenario is not Scenario.COLD_START  # its processes would be many
    for backend in PLACES
}

NEEDS = {
    "torch": (
        pytest.mark.skipif(
            sys.version_info[:2] != (3, 11) or shutil.which("g++") is None,
            reason="torch's wheel is for Python 3.11, and torch.compile needs g++",
        ),
        pytest.mark.exhaustive,
    )
}

CASES = [
    pytest.param(
        *key,
        mode,
        marks=(
            *NEEDS.get(key[0], ()),
            *(() if mode in DAILY.get(key, ()) else (pytest.mark.exhaustive,)),
        ),
    )
    for key, modes in MODES.items()
    for mode in modes
]


@cache
def result_of(backend: str, scenario: Scenario, modes: tuple[str, ...]) -> ReplicateResult:
    with TemporaryDirectory() as folder:
        words = WORDS.get(scenario, ())
        trial = trial_of(Path(folder), f"scenario={scenario}", *words, modes=modes)
        result, log = measured(trial, Path(folder))
    assert result.finished, (result.failure, log)
    assert backend != "jax" or "Traceback" not in log, "the statistics come from one program"
    assert result.model is not None
    assert result.model.macs, result.model.macs_note
    return result


@pytest.mark.parametrize(("backend", "scenario", "mode"), CASES)
def test_a_mode_computes_on_the_accelerator_what_eager_computes(
    backend: str, scenario: Scenario, mode: str
) -> None:
    daily = DAILY.get((backend, scenario), ())
    modes = daily if mode in daily else MODES[backend, scenario]
    outcome = result_of(backend, scenario, modes).modes[mode]
    assert outcome.status is Status.OK, outcome.failure
    assert outcome.effective["in_force"]
    assert outcome.agreement
    assert outcome.agreement.ok
    if mode != "input":  # which computes on the host
        assert any(re.fullmatch(PLACES[backend], place) for place in outcome.effective["device"])
        assert outcome.effective["elsewhere"] == []


@pytest.mark.parametrize(
    "backend", [pytest.param(name, marks=NEEDS.get(name, ())) for name in PLACES]
)
def test_waiting_is_tested_in_each_mode_that_queues(backend: str) -> None:
    asked = DAILY.get((backend, Scenario.CALL), MODES[backend, Scenario.CALL])
    sync = result_of(backend, Scenario.CALL, asked).sync
    assert sync["works"]
    assert set(sync["modes"]) == set(asked if backend != "torch" else ("torch_eager",))
    for test in sync["modes"].values():
        assert test["works"]
        assert test["synced_s"] + test["after_s"] >= 0.15
    assert sync["queued"] is (backend == "jax")  # the others' calls on a CPU return when done


@NEEDS["torch"][0]
@pytest.mark.exhaustive
def test_workers_of_three_backends_test_their_own_modes(tmp_path: Path) -> None:
    modes = ("graph", "jax_xla", "torch_eager")
    result, log = measured(trial_of(tmp_path, modes=modes), tmp_path)
    assert result.finished, (result.failure, log)
    assert {outcome.status for outcome in result.modes.values()} == {Status.OK}
    parts = ("modes", "jax.modes", "torch.modes")
    assert [list(result.sync[part]) for part in parts] == [[mode] for mode in modes]


@pytest.mark.parametrize("mode", ["xla", pytest.param("jax_xla", marks=pytest.mark.exhaustive)])
def test_a_model_that_needs_too_much_memory_runs_out_of_it(mode: str, tmp_path: Path) -> None:
    trial = trial_of(tmp_path, modes=(mode,), code=GREEDY)
    result, _ = measured(trial, tmp_path)
    assert not result.finished
    assert result.status in (Status.OOM_GPU, Status.OOM_HOST)
    assert result.failure is not None
    assert "try batch_size=1" in result.failure.hint


def test_jax_has_the_cpu_beside_a_gpu_for_references() -> None:
    trial = replace(TRIAL, device="gpu:0")
    given = backend_named("jax").environment(trial, {})
    assert given["JAX_PLATFORMS"].split(",") == ["cuda", "cpu"]
