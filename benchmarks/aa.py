"""A/A on this machine: how often copies of one mode are called different.

Also how often the interval contains 1. Half of the pairs are measured within one process (effort
quick), half across processes (three replicates each). The pairs are those of the real command:
`modes=[graph,graph]`.

    python benchmarks/aa.py [--pairs 60]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

MODELS = (("mobilenet_v2", 96), ("resnet50", 64), ("regnetx_002", 96))


def measure_pair(
    model: str, resolution: int, *, replicates: int, results_dir: Path
) -> dict[str, Any]:
    """One A/A trial by the command line; returns its comparison row."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "xla_sweeps",
            f"model={model}",
            f"resolution={resolution}",
            "modes=[graph,graph]",
            f"effort.replicates={replicates}",
            f"results_dir={results_dir}",
            "ui=quiet",
            "tracker=none",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    done = subprocess.run(
        [sys.executable, "-m", "xla_sweeps", "results", str(results_dir), "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    (row,) = json.loads(done.stdout)
    return dict(row)


def main() -> None:
    """Measure the pairs, each in a results folder of its own, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=60)
    options = parser.parse_args()
    rows: dict[int, list[dict[str, Any]]] = {1: [], 3: []}
    for index in range(options.pairs):
        model, resolution = MODELS[index % len(MODELS)]
        replicates = 3 if index % 2 else 1
        with tempfile.TemporaryDirectory() as folder:
            row = measure_pair(model, resolution, replicates=replicates, results_dir=Path(folder))
        rows[replicates].append(row)
        print(
            f"{index + 1}/{options.pairs} {model} replicates={replicates} {row['speedup']:.4f} "
            f"[{row['speedup_low']:.4f}, {row['speedup_high']:.4f}] "
            f"{row['verdict']} {row['flags']}",
            file=sys.stderr,
            flush=True,
        )
    print(
        "| pairs | measured | faster or slower | interval contains 1 | median half-width "
        "| verdicts |"
    )
    print("|---|---|---|---|---|---|")
    everything = rows[1] + rows[3]
    for name, group in (
        ("within one process", rows[1]),
        ("across 3 processes", rows[3]),
        ("all", everything),
    ):
        wrong = sum(row["verdict"] in ("faster", "slower") for row in group)
        contained = sum(row["speedup_low"] <= 1 <= row["speedup_high"] for row in group)
        widths = sorted((row["speedup_high"] - row["speedup_low"]) / 2 for row in group)
        verdicts = ", ".join(
            f"{count} {verdict}" for verdict, count in Counter(r["verdict"] for r in group).items()
        )
        print(
            f"| {len(group)} | {name} | {wrong} ({wrong / len(group):.1%}) "
            f"| {contained} ({contained / len(group):.1%}) "
            f"| {widths[len(widths) // 2]:.2%} | {verdicts} |"
        )


if __name__ == "__main__":
    main()
