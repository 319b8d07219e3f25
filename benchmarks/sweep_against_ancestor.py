"""A sweep at effort quick against the published study's procedure for the same: wall time.

24 trials, 12 small models at 2 resolutions, batch 4. Ours: `xla-sweeps sweep`, which measures
eager, graph and XLA, checks that they agree, and records. Theirs: a new process for each execution
mode (eager, then `jit_compile=True`), one after the other, 10 warm-up and 100 timed calls, as in
`ancestor.py`. The models come in three blocks of four; in each block both procedures are run, in
alternating order, so that a drift of the machine affects both.

    python -m benchmarks.sweep_against_ancestor
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.ancestor import ancestor_log_ratio
from xla_sweeps.config.catalog import load_catalog

MODELS = (
    "mobilenet_v1",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mobilenet_v3_large",
    "efficientnetb0",
    "efficientnetb1",
    "efficientnetv2b0",
    "efficientnetv2b1",
    "regnetx_002",
    "regnety_002",
    "regnetx_004",
    "nasnet_mobile",
)
RESOLUTIONS = (96, 128)
BLOCK = 4


def ours(models: tuple[str, ...], folder: Path) -> float:
    """Seconds of one sweep over these models."""
    path = folder / "sweep.yaml"
    path.write_text(
        json.dumps(
            {
                "name": "benchmark",
                "method": "grid",
                "parameters": {
                    "model": {"values": list(models)},
                    "resolution": {"values": list(RESOLUTIONS)},
                },
            }
        )
    )
    started = time.monotonic()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "xla_sweeps",
            "sweep",
            str(path),
            "tracker=none",
            f"results_dir={folder}/{models[0]}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    print(done.stdout.splitlines()[0] if done.stdout else done.stderr[-300:], flush=True)
    return seconds


def theirs(models: tuple[str, ...]) -> float:
    """Seconds of the published procedure over these models."""
    catalog = load_catalog()
    started = time.monotonic()
    for model in models:
        for resolution in RESOLUTIONS:
            ancestor_log_ratio(
                str(catalog[model].sources["applications"].recipe["constructor"]), resolution
            )
    return time.monotonic() - started


def main() -> None:
    """Run the blocks and print the table."""
    spent = {"ours": 0.0, "theirs": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        for number, first in enumerate(range(0, len(MODELS), BLOCK)):
            models = MODELS[first : first + BLOCK]
            for who in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
                seconds = ours(models, Path(folder)) if who == "ours" else theirs(models)
                spent[who] += seconds
                print(f"{who:7} {', '.join(models)}: {seconds:.0f} s", flush=True)
    ratio = spent["ours"] / spent["theirs"]
    print(
        f"24 trials: ours {spent['ours']:.0f} s, theirs {spent['theirs']:.0f} s, ratio {ratio:.2f}"
    )


if __name__ == "__main__":
    main()
