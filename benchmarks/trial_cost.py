"""Wall and CPU seconds of a quick trial, of several checkouts in turn.

The real command line, effort quick, eager, graph and XLA, batch 4, without a tracker. Other
load on the machine changes the wall time, but hardly the CPU time.

    python benchmarks/trial_cost.py [--checkout DIR ...] [--repetitions 5] [MODEL:PX ...]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

MODELS = ("mobilenet_v2:96", "mobilenet_v3_small:96")


def measure(checkout: Path, model: str) -> tuple[float, float]:
    """Wall and CPU seconds of one trial by the package of a checkout."""
    name, _, px = model.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        words = [f"model={name}", f"resolution={px}", "device=cpu", "tracker=none", "ui=quiet"]
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "xla_sweeps", *words, f"results_dir={folder}"],
            env={**os.environ, "PYTHONPATH": str(checkout)},
            cwd=checkout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert not process.returncode, process.args
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def main() -> None:
    """Measure the checkouts in turn, and print the medians and the ratios pair by pair."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL:PX")
    parser.add_argument("--checkout", action="append", type=Path, help="default: this one")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    checkouts = [folder.resolve() for folder in options.checkout or [HERE]]
    print("| model | checkout | wall s | CPU s | wall to the first | CPU to the first |")
    print("|---|---|---|---|---|---|")
    for model in options.models:
        times: dict[Path, list[tuple[float, float]]] = defaultdict(list)
        for number in range(options.repetitions):
            for folder in checkouts if number % 2 == 0 else checkouts[::-1]:
                times[folder].append(measure(folder, model))
        for folder in checkouts:
            medians = [statistics.median(column) for column in zip(*times[folder], strict=True)]
            pairs = zip(times[folder], times[checkouts[0]], strict=True)
            ratios = zip(*((one[0] / two[0], one[1] / two[1]) for one, two in pairs), strict=True)
            cells = [f"{value:.2f}" for value in (*medians, *map(statistics.median, ratios))]
            print(f"| {model} | {folder.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
