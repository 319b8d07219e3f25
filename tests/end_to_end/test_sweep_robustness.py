"""What must not bring a sweep down: hostile definitions, a W&B server that is gone, hundreds of trials in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from driving import drive
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import SUPPORT
from wandb_server import wandb_server

from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.sweep.compose import Composer, Place, compose_all
from xla_sweeps.sweep.definition import DISTRIBUTIONS, PARAMETER_KEYS, load_sweep, parse_sweep
from xla_sweeps.sweep.search import expand
from xla_sweeps.system import devices

SWEEP = str(SUPPORT / "fake_sweep.py")

PLACE = Place(devices.devices()[-1], devices.usable_cores())

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
            "model",
            "batch_size",
            "jit",
            "effort",
            "seed",
            "modes",
            "_target_",
            "results_dir",
            "x",
            "",
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
        "method": st.sampled_from(["grid", "random", "bayes"]) | values,
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
    composer = Composer([], places=[PLACE], environ={})
    try:
        list(
            compose_all(
                composer,
                expand(sweep),
                lines={},
                where="s.yaml",
            )
        )
    except XlaSweepsError as error:
        assert str(error).startswith("s.yaml")  # noqa: PT017


@given(st.text(max_size=200) | documents.map(lambda value: yaml.safe_dump(value)))
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_file_is_a_sweep_or_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        load_sweep(path)
    except XlaSweepsError as error:
        assert str(path) in str(error)  # noqa: PT017


PAYLOADS = [
    {"_target_": {"value": "os.system"}},
    {"effort": {"value": {"_target_": "pathlib.Path.write_text"}}},
    {"model": {"value": "${oc.env:WANDB_API_KEY}"}},
    {"results_dir": {"value": "${oc.env:HOME}"}},
    {"weights": {"value": "${oc.env:WANDB_API_KEY}"}},
    {"model": {"value": "../../../etc/passwd"}},
    {"source": {"value": "/etc/passwd"}},
    {"hydra.launcher._target_": {"value": "os.system"}},
    {"tracker": {"parameters": {"_target_": {"value": "os.system"}}}},
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: json.dumps(payload)[:50])
def test_a_hostile_definition_is_refused_before_any_of_it_is_resolved(
    payload: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(json.dumps({"method": "grid", "parameters": payload}))
    done = subprocess.run(
        [sys.executable, SWEEP, "sweep", "s.yaml", "--dry-run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "WANDB_API_KEY": "canary-5ec7e7"},
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "canary" not in done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.yaml"]


@pytest.mark.slow
def test_a_sweep_without_a_wandb_server_measures_everything_and_push_sends_it_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.yaml").write_text(
        json.dumps(
            {
                "name": "mine",
                "method": "grid",
                "parameters": {
                    "model": {"values": ["mobilenet_v2", "resnet50", "vgg16"]},
                    "modes": {"value": ["graph", "xla"]},
                },
            }
        )
    )
    with wandb_server() as server:
        environ = {
            **os.environ,
            **server.environment(HOME=str(tmp_path / "home")),
            "FAKE_WORKER": "",
        }
        server.die()
        done = subprocess.run(
            [sys.executable, SWEEP, "sweep", "s.yaml", "tracker=wandb"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            env=environ,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("mine: 3 trials: 3 ok")
        server.heal()
        for _ in range(2):
            pushed = subprocess.run(
                [sys.executable, "-m", "xla_sweeps", "push"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=300,
                env=environ,
            )
            assert pushed.returncode == 0, pushed.stderr
        ours = {name: run for name, run in server.runs.items() if run.history}
        assert sorted(run.config["cfg"]["model"]["name"] for run in ours.values()) == [
            "mobilenet_v2",
            "resnet50",
            "vgg16",
        ]
        assert all(len(run.history) == 8 for run in ours.values())
        assert {run.group for run in ours.values()} == {"mine"}


def test_many_trials_leave_no_descriptor_thread_or_file_behind(tmp_path: Path) -> None:
    def used() -> tuple[int, int]:
        return sum(1 for _ in Path("/proc/self/fd").iterdir()), threading.active_count()

    drive(tmp_path, *(f"a{number}=ok" for number in range(10)))
    before = used()
    outcome, _ = drive(
        tmp_path, *(f"b{number}=ok" for number in range(int(os.environ.get("SOAK_TRIALS", "60"))))
    )
    assert set(outcome.counts) == {"ok"}
    assert used() == before
    assert not list((tmp_path / "records").rglob(".*"))
