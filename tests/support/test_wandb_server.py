"""The W&B server of the tests works with the real client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from wandb_runs import WANDB
from wandb_server import WandbServer


@pytest.mark.slow
@pytest.mark.exhaustive  # daily: launchers/test_wandb_agents.py, with the same server
def test_a_real_sweep_and_agent_work_with_it(server: WandbServer, tmp_path: Path) -> None:
    definition = tmp_path / "sweep.yaml"
    definition.write_text(
        "method: grid\nparameters:\n  jit: {values: [true]}\n  model: {value: resnet50}\n"
        f'command: [{sys.executable}, -c, \'import os,sys;print(os.environ["WANDB_RUN_ID"], '
        "sys.argv[1])', "
        "'${args_json}']\n"
    )
    done = subprocess.run(
        [WANDB, "sweep", "--project", "p", definition], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (name,) = server.backend.sweeps
    done = subprocess.run(
        [WANDB, "agent", f"tester/p/{name}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    handed_out = server.backend.sweeps[name].handed_out
    assert [values["jit"] for values in handed_out.values()] == [True]
    for run_id, values in handed_out.items():
        assert f"{run_id} {json.dumps(values)}" in done.stdout
