"""Trials by the real command with TensorFlow, short ones of a small model."""

from __future__ import annotations

import os
from pathlib import Path

from commands import forked
from paths import ROOT

from xla_sweeps.schema.record import Record
from xla_sweeps.store.store import Store
from xla_sweeps.system.leases import LEASES

SHORT = [
    "effort.block_s=0.01",
    "effort.rounds_min=6",
    "effort.rounds_look=6",
    "effort.rounds_max=6",
    "effort.warmup_cap_s=0.5",
    "effort.warmup_s=0.1",
    "effort.latency_calls=10",
    "effort.latency_cap_s=0.5",
]


def environment(cwd: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("WANDB_", "TF_CPP_", "TF_XLA_FLAGS"))
    }
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "120",
        "SECRET_TOKEN": "canary-5ec7e7",
        "WANDB_API_KEY": "canary-k3y",
        LEASES: f"{cwd}-leases",
    }


def finished(*arguments: str, cwd: Path, program: str = "command") -> tuple[int, str, str]:
    """Exit code, output and errors; a program `undisturbed` never waits for a quiet machine."""
    done = forked(program, "ui=plain", *arguments, cwd=cwd, environment=environment(cwd))
    return done.returncode, done.stdout, done.stderr


def records(cwd: Path) -> list[Record]:
    loaded = Store(cwd / "results").load()
    assert loaded.problems == ()
    return [record for group in loaded.records.values() for record in group]
