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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from factories import full, make_record, renamed

from xla_sweeps.config import catalog
from xla_sweeps.config.catalog import CatalogEntry

ROWS_A_TRIAL = 3
PATTERNS = 400
DEVICES = ("NVIDIA A100", "NVIDIA T4", "NVIDIA V100")

TWIN_EVERY = 32
"""Trials per A/A twin, of two replicates."""

_ID = "TRIALTRIALTRIALT"


def make_records(folder: Path, trials: int) -> None:
    """Records of realistic size, of every model of the catalog on three devices, and A/A twins."""
    source = random.Random(0)
    entries = list(catalog.load_catalog().values())
    patterns = []
    for number in range(PATTERNS):
        speedup = source.lognormvariate(0.2, 0.3)
        times = {"eager": 0.4, "graph": 0.2, "xla": 0.2 / speedup}
        patterns.append(_record(times, number, entries[number % len(entries)]))
    twins = [_twin(number, entries) for number in range(PATTERNS)]
    for number in range(trials):
        texts = [patterns[number % PATTERNS]]
        if number % TWIN_EVERY == 0:
            texts = twins[number // TWIN_EVERY % PATTERNS]
        _save(folder, f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}", texts)


def make_twin(folder: Path) -> None:
    """One A/A twin more."""
    number = random.randrange(2**62)
    _save(folder, f"{number:016x}", _twin(number, list(catalog.load_catalog().values())))


def _twin(number: int, entries: Sequence[CatalogEntry]) -> list[bytes]:
    apart = random.Random(number).lognormvariate(0, 0.01)
    times = {"graph": 0.2, "graph_2": 0.2 * apart}
    entry = entries[number % len(entries)]
    return [_record(times, number, entry, seed=number + replicate) for replicate in range(2)]


def _record(
    times: Mapping[str, float], number: int, entry: CatalogEntry, *, seed: int = 0
) -> bytes:
    record = full(make_record(times, noise=0.01, seed=seed or number, count=20, trial_id=_ID))
    words = (f"model={entry.name}", f"batch_size={number % 64}", "effort=quick", "jit=true")
    return replace(
        record,
        model=replace(record.model, name=entry.name, family=entry.family, variant=entry.variant),
        trial=replace(
            record.trial,
            model=replace(record.trial.model, name=entry.name, source=next(iter(entry.sources))),
        ),
        device={"kind": "gpu", "name": DEVICES[number % len(DEVICES)]},
        modes={label: replace(mode, sustained_call_s=()) for label, mode in record.modes.items()},
        started_at=f"2026-01-01T{number // 60 % 24:02}:{number % 60:02}:00+00:00",
        words=words,
        request_id=_ID,
    ).to_json()


def _save(folder: Path, trial: str, texts: Sequence[bytes]) -> None:
    place = folder / "records" / trial
    place.mkdir(parents=True)
    for replicate, text in enumerate(texts):
        (place / f"{replicate}.json").write_bytes(renamed(text, _ID, trial))
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
