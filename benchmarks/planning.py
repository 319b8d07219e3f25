"""Planning 100,000 trials against 100,000 records: time and memory of the command itself.

The records are made first (that is not timed); then the plan is made three times: with nothing kept
beside the records, and twice with the index kept, which is what resuming a sweep does.

    python benchmarks/planning.py [--trials 100000] [--before DIR]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from factories import make_record, renamed

from benchmarks.whole_process import timed
from xla_sweeps.sweep.compose import Composer, Place, compose_all
from xla_sweeps.sweep.definition import parse_sweep
from xla_sweeps.sweep.search import expand
from xla_sweeps.system import devices

ROOT = Path(__file__).resolve().parents[1]

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
    parser.add_argument("--before", type=Path, help="root of another checkout")
    options = parser.parse_args()
    checkouts = {"now": ROOT} if options.before is None else {"before": options.before, "now": ROOT}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_records(folder / "results", options.trials)
        path = folder / "large.yaml"
        path.write_text(json.dumps(definition(options.trials)))
        command = [sys.executable, "-m", "xla_sweeps", "sweep", str(path), "tracker=none"]
        command += [f"results_dir={folder / 'results'}", "--max-trials", str(options.trials)]
        for what in ("nothing kept", "index kept", "the same again"):
            for version, checkout in checkouts.items():
                if what == "nothing kept":
                    shutil.rmtree(folder / "results" / "cache", ignore_errors=True)
                print(f"{what}, {version}: {timed([*command, '--dry-run'], checkout)}", flush=True)


if __name__ == "__main__":
    main()
