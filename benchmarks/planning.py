"""Planning 100,000 trials against 100,000 records: time and memory of the command itself.

The records are made first (that is not timed); then the plan is made three times: with nothing kept
beside the records, and twice with the index kept, which is what resuming a sweep does.

    python benchmarks/planning.py [--trials 100000]
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from factories import make_record, renamed

from xla_sweeps.sweep.compose import Composer, Place, compose_all
from xla_sweeps.sweep.definition import parse_sweep
from xla_sweeps.sweep.search import expand
from xla_sweeps.system import devices

MODELS = ("resnet50", "mobilenet_v2", "vgg16", "efficientnetb0", "convnext_tiny")


def definition(trials: int) -> dict[str, object]:
    """A grid of so many trials."""
    seeds = {"min": 0, "max": trials // (2 * len(MODELS)) - 1}
    axes = {"model": {"values": list(MODELS)}, "seed": seeds, "batch_size": {"values": [1, 4]}}
    return {"name": "large", "method": "grid", "parameters": axes}


def make_records(folder: Path, trials: int) -> None:
    """A record of realistic size for every trial of the sweep."""
    sweep = parse_sweep(definition(trials), where="large.yaml")
    composer = Composer(
        ["tracker=none"], places=[Place(devices.devices()[-1], devices.usable_cores())]
    )
    pattern = make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01)
    text = replace(pattern, trial_id="TRIALTRIALTRIALT").to_json()
    for task in compose_all(composer, expand(sweep), lines={}, where=""):
        place = folder / "records" / task.trial_ids[0]
        place.mkdir(parents=True)
        (place / "0.json").write_bytes(renamed(text, "TRIALTRIALTRIALT", task.trial_ids[0]))


def main() -> None:
    """Make the records, then plan."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100_000)
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_records(folder / "results", trials)
        (folder / "large.yaml").write_text(json.dumps(definition(trials)))
        command = [
            sys.executable,
            "-m",
            "xla_sweeps",
            "sweep",
            "large.yaml",
            "tracker=none",
            "--max-trials",
            str(trials),
        ]
        for what in ("nothing kept", "index kept", "the same again"):
            started = time.monotonic()
            done = subprocess.run(
                [*command, "--dry-run"], cwd=folder, capture_output=True, text=True, check=False
            )
            seconds = time.monotonic() - started
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
            print(
                f"{what}: {seconds:.2f} s, peak {peak:.2f} GiB so far; "
                f"{done.stderr.strip().splitlines()[-1:]}",
                flush=True,
            )
        shutil.rmtree(folder / "results")


if __name__ == "__main__":
    main()
