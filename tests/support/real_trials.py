"""Trials by the real command with TensorFlow, short ones of a small model."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
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

SMALL = ["model=mnist_mlp", "batch_size=2", *SHORT]


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


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "xla_sweeps", "ui=plain", *arguments],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(cwd),
    )


def finished(*arguments: str, cwd: Path, program: str = "command") -> tuple[int, str, str]:
    """Exit code, output and errors; a program `undisturbed` never waits for a quiet machine."""
    done = forked(program, "ui=plain", *arguments, cwd=cwd, environment=environment(cwd))
    return done.returncode, done.stdout, done.stderr


def records(cwd: Path) -> list[Record]:
    loaded = Store(cwd / "results").load()
    assert loaded.problems == ()
    return [record for group in loaded.records.values() for record in group]


def children(pid: int) -> list[int]:
    """The measuring processes of a command."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"xla_sweeps.backends.tensorflow.worker" in words and str(pid).encode() in words:
                pids.append(int(path.parent.name))
    return pids


def line_with(stream: Any, text: str) -> str:
    for line in stream:
        if text in line:
            return str(line)
    pytest.fail(f"no line with {text!r}")


def gone(pids: list[int], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False
