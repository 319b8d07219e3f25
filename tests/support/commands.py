"""The command line in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import termios
from pathlib import Path

from paths import ROOT


def command(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return subprocess.run(
        [sys.executable, "-m", "xla_sweeps", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env={**kept, "PYTHONPATH": str(ROOT), "HOME": str(cwd), "COLUMNS": "120", **environ},
    )


def in_terminal(*arguments: str, cwd: Path, columns: int) -> list[str]:
    """The lines that the command line writes to a real terminal of this width."""
    parent, child = os.openpty()
    termios.tcsetwinsize(child, (50, columns))
    process = subprocess.Popen(
        [sys.executable, "-m", "xla_sweeps", *arguments],
        cwd=cwd,
        stdin=child,
        stdout=child,
        stderr=child,
        env={
            **{name: value for name, value in os.environ.items() if name != "COLUMNS"},
            "PYTHONPATH": str(ROOT),
            "TERM": "dumb",
            "NO_COLOR": "1",
        },
    )
    os.close(child)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while part := os.read(parent, 65536):
            shown += part
    os.close(parent)
    assert process.wait(timeout=60) == 0
    return shown.decode().replace("\r", "").splitlines()


def own_model(folder: Path, name: str = "tiny") -> Path:
    """A folder for `--config-dir` with one small model that the catalog does not have."""
    path = folder / "own" / "model" / f"{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"name: {name}\nfamily: MobileNetV2\nvariant: MobileNetV2 0.35\ntask: classification\n"
        "resolution: 96\nmin_resolution: 32\n"
        "sources: {applications: {constructor: MobileNetV2, arguments: {alpha: 0.35}}}\n"
    )
    return folder / "own"
