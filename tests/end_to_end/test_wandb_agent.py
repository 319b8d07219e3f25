"""A real W&B sweep with a real agent and the server of the tests."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from paths import ROOT
from programs import run_program
from wandb_runs import WANDB
from wandb_server import wandb_server

from xla_sweeps.store.store import Store

pytestmark = [pytest.mark.tf, pytest.mark.exhaustive]
"""Daily a real agent runs scripted trials (launchers/test_wandb_agents.py)."""

SWEEP = """\
method: grid
metric: {name: speedup, goal: maximize}
command: ["${env}", "${interpreter}", "-m", "xla_sweeps", "${args_json}"]
parameters:
  model: {value: mobilenet_v1}
  resolution: {values: [32]}
  batch_size: {value: 2}
  jit: {value: true}
  modes: {value: [graph, xla]}
  effort.rounds_min: {value: 6}
  effort.rounds_look: {value: 6}
  effort.rounds_max: {value: 6}
  effort.block_s: {value: 0.01}
  effort.warmup_s: {value: 0.1}
  effort.latency_calls: {value: 10}
"""


def test_an_agent_runs_a_trial_of_a_sweep_and_its_run_contains_the_result(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    with wandb_server() as server:
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PYTHONPATH": str(ROOT), "WANDB_PROJECT": "agents", "PATH": programs}
        run_wandb = partial(
            run_program, WANDB, cwd=tmp_path, more=server.environment(HOME=str(tmp_path), **own)
        )
        made = run_wandb("sweep", "--project", "agents", "sweep.yaml")
        sweep = made.stderr.rpartition("wandb agent ")[2].split()[0]
        ran = run_wandb("agent", "--count", "1", sweep)
        (run,) = server.backend.runs.values()
    assert (tmp_path / "results" / "records").is_dir(), ran.stdout + ran.stderr
    (records,) = Store(tmp_path / "results").load().records.values()
    assert run.sweep
    assert run.exit_code == 0, ran.stdout + ran.stderr
    assert run.config["model"] == "mobilenet_v1"
    assert run.config["xla"] is True
    assert run.summary["speedup"] > 0
    assert len(run.history) == len(records[0].rounds) + 1  # and the point of the results
