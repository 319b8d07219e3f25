"""The command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
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
