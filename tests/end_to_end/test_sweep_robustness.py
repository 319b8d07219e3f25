"""A sweep survives a W&B server that is down and hundreds of trials in one process."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest
from driving import drive
from paths import SUPPORT
from programs import run_program
from wandb_server import wandb_server

from xla_sweeps.store.store import Store

SWEEP = str(SUPPORT / "fake_sweep.py")


@pytest.mark.exhaustive
def test_a_sweep_without_a_wandb_server_measures_everything_and_push_sends_it_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.yaml").write_text(
        json.dumps(
            {
                "name": "mine",
                "method": "grid",
                "parameters": {
                    "model": {"values": ["mobilenet_v2", "resnet50"]},
                    "modes": {"value": ["graph", "xla"]},
                    "effort.duplicates": {"value": 0},
                },
            }
        )
    )
    with wandb_server() as server:
        own = {**server.environment(HOME=str(tmp_path / "home")), "FAKE_WORKER": "impatient"}
        server.die()
        words = (SWEEP, "sweep", "s.yaml", "tracker=wandb")
        done = run_program(sys.executable, *words, cwd=tmp_path, more=own)
        assert done.stdout.startswith("mine: 2 trials: 2 ok")
        server.heal()
        for _ in range(2):
            run_program(sys.executable, "-m", "xla_sweeps", "push", cwd=tmp_path, more=own)
        ours = {name: run for name, run in server.runs.items() if run.history}
        assert sorted(run.config["model"] for run in ours.values()) == [
            "mobilenet_v2",
            "resnet50",
        ]
        measured = Store(tmp_path / "results").load().records.values()
        counts = {
            record.trial.model.name: len(record.rounds)
            for records in measured
            for record in records
        }
        assert {run.config["model"]: len(run.history) - 1 for run in ours.values()} == counts
        assert {run.group for run in ours.values()} == {"mine"}


def test_many_trials_leave_no_descriptor_thread_or_file_behind(tmp_path: Path) -> None:
    def used() -> tuple[int, int]:
        while any(thread.name.startswith("job on ") for thread in threading.enumerate()):
            time.sleep(0.01)  # each ends a little later than its job
        return sum(1 for _ in Path("/proc/self/fd").iterdir()), threading.active_count()

    drive(tmp_path, *(f"a{number}=ok" for number in range(2)))
    before = used()
    outcome, _ = drive(
        tmp_path, *(f"b{number}=ok" for number in range(int(os.environ.get("SOAK_TRIALS", "6"))))
    )
    assert set(outcome.counts) == {"ok"}
    assert used() == before
    assert not list((tmp_path / "records").rglob(".*"))
