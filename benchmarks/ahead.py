"""The same trials one after the other and prepared ahead, in turn: time, and whether they agree.

    python -m benchmarks.ahead --times 8 --out benchmarks/results/ahead.csv

Each turn measures one sweep of four trials twice, in an order that rotates: with `--ahead 0` and
1. The trials are MobileNetV3-Small and MobileNetV2 at
96 px, in the usual modes and as an A/A pair of graph mode; with `--backends three` eight small ones
on TensorFlow, JAX and PyTorch each. Two figures of one trial differ where
the interval of their difference excludes none: about 5 % of them do by chance; memory, which has
no interval, where it differs by 2 %. The first lines compare each way with the first, the last ones
compare turns of one way with each other.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.ancestor import output, read, write
from xla_sweeps.errors import LEFT_CODE

WAYS = {
    "in turn": ("--ahead", "0"),
    "ahead": ("--ahead", "1"),
}

SWEEPS: dict[str, dict[str, Any]] = {
    "one": {
        "model": {"values": ["mobilenet_v3_small", "mobilenet_v2"]},
        "modes": {"values": [["eager", "graph", "xla"], ["graph", "graph"]]},
        "resolution": {"value": 96},
    },
    "three": {
        "model": {"values": ["mnist_mlp", "tiny_dense"]},
        "batch_size": {"values": [1, 8, 32, 128]},
        "modes": {"value": ["graph", "xla", "jax_xla", "torch_compile"]},
    },
}
"""The sweep's parameters, by how many backends it has."""

COLUMNS = {
    "speedup": ("speedup", "speedup_low", "speedup_high"),
    "throughput": ("throughput_samples_per_s", "throughput_low", "throughput_high"),
    "latency_p50": ("latency_p50_ms", "latency_p50_low_ms", "latency_p50_high_ms"),
    "memory": ("memory_bytes", "memory_bytes", "memory_bytes"),
}

MEMORY_ERROR = 0.01

LIMIT = 1.96


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a trial in one turn, with its interval; the sweep's wall time in seconds."""

    turn: int
    way: str
    seconds: float
    trial: str
    status: str
    name: str
    value: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Standard error of its log, from the interval's width."""
        return math.log(self.high / self.low) / (2 * LIMIT) or MEMORY_ERROR


def sweep(turn: int, way: str, backends: str, launch: Sequence[str]) -> list[Figure]:
    """Measure the sweep one way, with further words of its command."""
    parameters = {**SWEEPS[backends], "effort.duplicates": {"value": 0}}
    definition = {"name": "ahead", "method": "grid", "parameters": parameters}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ahead.yaml")
        path.write_text(json.dumps(definition))
        program = [sys.executable, "-P", "-m", "xla_sweeps"]
        words = [f"results_dir={folder}", "ui=quiet", "tracker=none", *launch, *WAYS[way]]
        began = time.monotonic()
        output([*program, "sweep", str(path), *words], LEFT_CODE)
        seconds = time.monotonic() - began
        rows = json.loads(output([*program, "results", folder, "--format", "json", "--all"]))
    made = []
    for row in rows:
        trial = f"{row['model']} {row['candidate']} over {row['baseline']}"
        for name, column in COLUMNS.items():
            value, low, high = (row.get(key) for key in column)
            if value and low and high:
                asked = (turn, way, seconds, trial, row["status"], name)
                made.append(Figure(*asked, value=value, low=low, high=high))
    return made


def table(figures: Sequence[Figure]) -> str:
    """Wall times and agreement, as Markdown."""
    times = {(one.turn, one.way): one.seconds for one in figures}
    turns = sorted({turn for turn, _ in times})
    lines = ["| way | seconds a sweep | of in turn | contaminated |", "|---|---|---|---|"]
    for way in WAYS:
        mine = [times[turn, way] for turn in turns]
        ratio = statistics.geometric_mean(
            times[turn, way] / times[turn, "in turn"] for turn in turns
        )
        trials = {(one.turn, one.trial): one.status for one in figures if one.way == way}
        busy = sum(status == "contaminated" for status in trials.values())
        spent = " ".join(f"{seconds:.0f}" for seconds in mine)
        lines.append(f"| {way} | {spent} | {ratio:.2f} | {busy} of {len(trials)} |")
    kept = {(one.turn, one.way, one.trial, one.name): one for one in figures}
    lines += ["", "| compared | figure | pairs | differ | mean difference | scatter |"]
    lines += ["|---|---|---|---|---|---|"]
    pairs = [
        (f"{way} with in turn", way, "in turn", [(turn, turn) for turn in turns]) for way in WAYS
    ]
    pairs = [
        *pairs[1:],
        *((f"{way}, turn by turn", way, way, list(pairwise(turns))) for way in WAYS),
    ]
    for title, one_way, other_way, compared in pairs:
        for name in COLUMNS:
            differences, clear = [], 0
            for one_turn, other_turn in compared:
                for turn, way, trial, figure in kept:
                    if (turn, way, figure) != (one_turn, one_way, name):
                        continue
                    one, other = (
                        kept[turn, way, trial, name],
                        kept.get((other_turn, other_way, trial, name)),
                    )
                    if other is None:
                        continue
                    difference = math.log(one.value / other.value)
                    differences.append(difference)
                    clear += abs(difference) > LIMIT * math.hypot(one.error, other.error)
            if len(differences) > 1:
                mean, scatter = statistics.fmean(differences), statistics.stdev(differences)
                shown = f"{100 * mean:+.1f} % | {100 * scatter:.1f} %"
                lines.append(f"| {title} | {name} | {len(differences)} | {clear} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    """Measure so many turns, and print the table of the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--times", type=int, default=0, help="further turns to measure (default 0)")
    parser.add_argument("--backends", choices=SWEEPS, default="one", help="in a trial")
    parser.add_argument(
        "--launch", default="", help="words of each sweep, as in '--launcher slurm --chunk 4'"
    )
    parser.add_argument("--out", type=Path, default=Path("results/ahead.csv"), help="CSV file")
    options = parser.parse_args()
    figures = read(options.out, Figure)
    ways = list(WAYS)
    for _ in range(options.times):
        turn = 1 + max((one.turn for one in figures), default=-1)
        first = turn % len(ways)
        for way in ways[first:] + ways[:first]:
            figures += sweep(turn, way, options.backends, shlex.split(options.launch))
            print(f"{turn} {way}: {figures[-1].seconds:.0f} s", flush=True)
        write(figures, options.out)
    if figures:
        print(table(figures))


if __name__ == "__main__":
    main()
