"""Time and memory of the commands that read a whole results folder, for made-up trials.

Each trial is a copy of the golden record with times, batch size and name of its own; so are those
of the other folder that `compare` reads. `cold` is the first command in a folder, without kept
rows; `warm` follows it.

    python benchmarks/readers.py [--trials 10000] [--write]
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from xla_sweeps.schema.record import seal

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
GOLDEN = ROOT / "tests" / "data" / "records" / "schema_6.json"
MEASURES = """
import os, resource, subprocess, sys, time
began = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""


def write_trials(results: Path, count: int, seed: int) -> None:
    """Write a folder of trials."""
    golden = json.loads(GOLDEN.read_bytes())
    source = random.Random(seed)
    for number in range(count):
        record = _scaled(copy.deepcopy(golden), source)
        record["trial_id"] = f"{number:016x}"
        record["status"], record["contamination"] = "ok", {}
        record["request_id"] = f"{number:016x}"
        record["trial"]["model"]["resolution_px"] = 32 + number
        record["words"][1] = f"resolution={32 + number}"
        folder = results / "records" / record["trial_id"]
        folder.mkdir(parents=True)
        (folder / f"{record['replicate']}.json").write_bytes(seal(record))


def _scaled(record: dict[str, Any], source: random.Random) -> dict[str, Any]:
    """A record in which each block takes another time."""
    for one in record["rounds"]:
        for block in one["blocks"]:
            block["elapsed_ns"] += round(block["elapsed_ns"] * abs(source.gauss(0, 0.05)))
    return record


def measured(*words: str) -> tuple[int, float, float, float]:
    """Exit code, seconds, processor seconds and MiB of a command."""
    command = [sys.executable, "-c", MEASURES, sys.executable, "-P", "-m", "xla_sweeps", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    code, *figures = done.stdout.split()
    return int(code), *map(float, figures)  # type: ignore[return-value]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--write", action="store_true", help="to benchmarks/results/readers.md")
    options = parser.parse_args()
    lines = [
        f"{options.trials:,} trials of one record ({GOLDEN.stat().st_size / 1000:.0f} kB) each; "
        f"{os.cpu_count()} cores of {platform.machine()}, load {os.getloadavg()[0]:.1f} at the "
        f"start, {time.strftime('%Y-%m-%d')}. Others used the machine: seconds are upper bounds.",
        "",
        "| command | seconds | processor seconds | MiB | exit code |",
        "| --- | --- | --- | --- | --- |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        first, second = (Path(folder, name) for name in ("a", "b"))
        for seed, results in enumerate((first, second)):
            write_trials(results, options.trials, seed)
        csv = ("results", str(first), "--format", "csv")
        for title, words, is_cold in (
            ("results --format csv, cold", csv, True),
            ("results --format csv, warm", csv, False),
            ("results, warm", csv[:2], False),
            ("check, cold", ("check", str(first)), True),
            ("check, warm", ("check", str(first)), False),
            ("compare, cold", ("compare", str(first), str(second)), True),
            ("compare, warm", ("compare", str(first), str(second)), False),
        ):
            for results in (first, second) if is_cold else ():
                shutil.rmtree(results / "cache", ignore_errors=True)
            if title.startswith("check, warm"):
                measured(*csv)
            code, seconds, own, mebibytes = measured(*words)
            lines.append(f"| {title} | {seconds:.1f} | {own:.1f} | {mebibytes:.0f} | {code} |")
            print(lines[-1], flush=True)
    if options.write:
        (RESULTS / "readers.md").write_text("\n".join(["# Readers", "", *lines, ""]))


if __name__ == "__main__":
    main()
