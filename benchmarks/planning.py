"""Planning many trials against as many records: time and memory of the command itself.

The records are made first, untimed. Then `xla-sweeps sweep --dry-run` plans as a whole process:
with nothing kept beside the records, and with the rows kept, which is what resuming a sweep does.
`--before DIR` measures the package of another checkout in turn with this one's.

    python -m benchmarks.planning [--trials 10000] [--repeat 5] [--before DIR] [--write]

`--write` keeps the table in benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from factories import make_record, renamed

from benchmarks.whole_process import Took, machine, markdown, show, timed
from xla_sweeps.sweeps.compose import Composer, compose_all
from xla_sweeps.sweeps.definition import parse_sweep
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.sweeps.search import expand
from xla_sweeps.system import devices

ROOT = Path(__file__).resolve().parents[1]

MODELS = ("resnet50", "mobilenet_v2", "vgg16", "efficientnetb0", "convnext_tiny")

NOTHING, KEPT = "nothing kept", "rows kept"

GOALS = {KEPT: 3.0}
"""Wall seconds, of 10,000 trials."""


def definition(trials: int) -> dict[str, object]:
    """A grid of that many trials."""
    seeds = {"min": 0, "max": trials // (2 * len(MODELS)) - 1}
    axes = {"model": {"values": list(MODELS)}, "seed": seeds, "batch_size": {"values": [1, 4]}}
    return {"name": "large", "method": "grid", "parameters": axes}


def make_records(folder: Path, trials: int) -> None:
    """A record of realistic size for every trial of the sweep."""
    sweep = parse_sweep(definition(trials), where="large.yaml")
    composer = Composer(["tracker=none"], slots=[Slot(name="cpu", device=devices.devices()[-1])])
    pattern = make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01)
    text = replace(pattern, trial_id="TRIALTRIALTRIALT").to_json()
    for task in compose_all(composer, expand(sweep), lines={}, where=""):
        place = folder / "records" / task.trial_ids[0]
        place.mkdir(parents=True)
        (place / "0.json").write_bytes(renamed(text, "TRIALTRIALTRIALT", task.trial_ids[0]))


def measured(
    folder: Path, trials: int, repeat: int, checkouts: Mapping[str, Path]
) -> dict[str, list[Took]]:
    """Plan from nothing once, and repeatedly with the rows kept, each checkout in turn."""
    make_records(folder / "results", trials)
    path = folder / "large.yaml"
    path.write_text(json.dumps(definition(trials)))
    command = [sys.executable, "-m", "xla_sweeps", "sweep", str(path), "tracker=none", "--dry-run"]
    command += [f"results_dir={folder / 'results'}", "--max-trials", str(trials)]
    took: dict[str, list[Took]] = {}
    for version, checkout in checkouts.items():
        shutil.rmtree(folder / "results" / "cache", ignore_errors=True)
        took[f"{NOTHING}{version}"] = [timed(command, checkout)]
    for _ in range(repeat):
        for version, checkout in checkouts.items():
            took.setdefault(f"{KEPT}{version}", []).append(timed(command, checkout))
    return took


def main() -> None:
    """Make the records, then plan."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, nargs="+", default=[10_000])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--before", type=Path, help="root of another checkout")
    parser.add_argument("--write", action="store_true", help="keep the table")
    options = parser.parse_args()
    checkouts = {", before": options.before} if options.before else {}
    sections = [f"`xla-sweeps sweep --dry-run`, all trials done. {machine()}."]
    for trials in options.trials:
        with tempfile.TemporaryDirectory() as name:
            took = measured(Path(name), trials, options.repeat, {**checkouts, "": ROOT})
        goals = GOALS if trials == 10_000 else {}
        sections += [f"{trials:,} trials and as many records:", markdown(took, goals)]
    show("planning", "Planning", sections, write=options.write)


if __name__ == "__main__":
    main()
