"""Seconds from a clean clone to the first result, of several commits in turn.

Each turn clones a commit into a fresh folder, runs its `scripts/setup`, and then a trial by its
`scripts/run`. pip and uv have no cache. Wall seconds need a quiet machine; processor seconds of all
processes hardly do.

    python benchmarks/setup.py COMMIT ... [--turns 2] [--trial model=mobilenet_v2 resolution=96]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def seconds(command: Sequence[str], cwd: Path) -> tuple[float, float]:
    """Wall and processor seconds of a command and all that it waits for.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    environment = {**os.environ, "PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("commits", nargs="+")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--trial", nargs="+", default=["model=mobilenet_v2", "resolution=96"])
    options = parser.parse_args()
    heads = (
        "commit",
        "load before",
        *(f"{what}: {s} s" for what in ("set-up", "first trial") for s in ("wall", "processor")),
    )
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for _ in range(options.turns):
        for commit in options.commits:
            with tempfile.TemporaryDirectory() as folder:
                checkout = Path(folder, "checkout")
                subprocess.run(["git", "clone", "--quiet", HERE, checkout], check=True)
                subprocess.run(["git", "checkout", "--quiet", commit], cwd=checkout, check=True)
                load = os.getloadavg()[0]
                setup = seconds(["scripts/setup"], checkout)
                trial = seconds(["scripts/run", *options.trial, "ui=plain"], checkout)
                figures = " | ".join(f"{figure:.1f}" for figure in (load, *setup, *trial))
                print(f"| {commit} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
