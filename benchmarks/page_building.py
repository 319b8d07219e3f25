"""Building a page of many rows by the command, from records alone and with cached rows.

The records are made first, untimed: modes eager, graph and xla, so three rows a trial, 20 rounds
each.

    python benchmarks/page_building.py [--rows 100000] [--repeat 3]
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from factories import CONFIG, make_record, renamed

from xla_sweeps.config import catalog

ROWS_A_TRIAL = 3
PATTERNS = 400
DEVICES = ("NVIDIA A100", "NVIDIA T4", "NVIDIA V100")


def make_records(folder: Path, trials: int) -> None:
    """Records of realistic size, of every model of the catalog on three devices."""
    source = random.Random(0)
    entries = list(catalog.load_catalog().values())
    patterns = []
    for number in range(PATTERNS):
        entry, device = entries[number % len(entries)], DEVICES[number % len(DEVICES)]
        speedup = source.lognormvariate(0.2, 0.3)
        record = make_record(
            {"eager": 0.4, "graph": 0.2, "xla": 0.2 / speedup}, noise=0.01, seed=number, count=20
        )
        model = replace(record.model, name=entry.name, family=entry.family, variant=entry.variant)
        config = {**CONFIG, "model": {"name": entry.name}, "source": next(iter(entry.sources))}
        made = replace(
            record,
            model=model,
            config=config,
            device={"kind": "gpu", "name": device},
            trial_id="TRIALTRIALTRIALT",
        )
        patterns.append(made.to_json())
    for number in range(trials):
        name = f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"
        place = folder / "records" / name
        place.mkdir(parents=True)
        pattern = patterns[number % PATTERNS]
        (place / "0.json").write_bytes(renamed(pattern, "TRIALTRIALTRIALT", name))
        os.utime(place, (1, 1))


def main() -> None:
    """Make the records, then build."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_records(folder, options.rows // ROWS_A_TRIAL)
        command = [
            sys.executable,
            "-m",
            "xla_sweeps",
            "dashboard",
            str(folder),
            "-o",
            str(folder / "page.html"),
        ]
        took: dict[str, list[float]] = {"from records": [], "with cached rows": []}
        for _ in range(options.repeat):
            (folder / "cache" / "rows.parquet").unlink(missing_ok=True)
            for seconds in took.values():
                started = time.monotonic()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                seconds.append(time.monotonic() - started)
        for what, seconds in took.items():
            shown = ", ".join(f"{value:.1f}" for value in seconds)
            print(f"{what}: {statistics.median(seconds):.1f} s (median of {shown})")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(
            f"{(folder / 'page.html').stat().st_size / 1e6:.2f} MB, largest process {peak:.2f} GiB"
        )


if __name__ == "__main__":
    main()
