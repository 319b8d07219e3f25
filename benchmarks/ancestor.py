"""Effort quick against the published study's procedure: wall time, and width of the interval.

The published procedure, written again from its description: a new process for each execution mode
(eager, then `jit_compile=True`), batch 4, 10 warm-up calls, 100 calls timed as one with
`time.time()`, no synchronization, throughput as the only result. Its speedup is eager over XLA, so
the interval of that ratio is compared; ours measures graph mode in the same time as well. Both are
repeated; the interval is the t interval over the repetitions' log-ratios.

    python benchmarks/ancestor.py [--repetitions 5] [MODEL ...]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from xla_sweeps.analysis import stats
from xla_sweeps.config.catalog import load_catalog

MODELS = ("mobilenet_v2", "resnet50", "efficientnetv2s")

ANCESTOR_PROGRAM = """
import json, sys, time
import keras, tensorflow as tf
constructor, resolution, xla = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "xla"
shape = (resolution, resolution, 3)
model = getattr(keras.applications, constructor)(weights=None, input_shape=shape)
def forward(images):
    return model(images, training=False)
call = tf.function(forward, jit_compile=True) if xla else forward
images = tf.random.normal((4, resolution, resolution, 3))
for _ in range(10):
    call(images)
started = time.time()
for _ in range(100):
    call(images)
print(json.dumps({"throughput": 4 * 100 / (time.time() - started)}))
"""


def ancestor_log_ratio(constructor: str, resolution: int) -> float:
    """Repeat the published procedure once: log(XLA throughput / eager throughput)."""
    throughput = {}
    for mode in ("eager", "xla"):
        done = subprocess.run(
            [sys.executable, "-c", ANCESTOR_PROGRAM, constructor, str(resolution), mode],
            capture_output=True,
            text=True,
            check=True,
        )
        throughput[mode] = json.loads(done.stdout.splitlines()[-1])["throughput"]
    return math.log(throughput["xla"] / throughput["eager"])


def our_log_ratio(model: str, results_dir: Path) -> dict[str, float]:
    """Repeat ours at effort=quick once: the log speedups of XLA over eager and over graph."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "xla_sweeps",
            f"model={model}",
            "jit=true",
            f"results_dir={results_dir}",
            "ui=quiet",
            "tracker=none",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "xla_sweeps",
            "results",
            str(results_dir),
            "--format",
            "json",
            "--all",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [row for row in json.loads(done.stdout) if row["candidate"] == "xla"]
    return {row["baseline"]: math.log(row["speedup"]) for row in rows}


def main() -> None:
    """Run both procedures in turn and print one row a model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    print(
        "| model | procedure | wall s (median, all) | XLA over eager | 95 % interval | half-width |"
    )
    print("|---|---|---|---|---|---|")
    for model in options.models:
        entry = load_catalog()[model]
        constructor = entry.sources["applications"].recipe["constructor"]
        walls: dict[str, list[float]] = {"ancestor": [], "ours": []}
        logs: dict[str, list[float]] = {"ancestor": [], "ours": [], "ours, XLA over graph": []}
        for _ in range(options.repetitions):
            started = time.perf_counter()
            logs["ancestor"].append(ancestor_log_ratio(constructor, entry.resolution))
            walls["ancestor"].append(time.perf_counter() - started)
            with tempfile.TemporaryDirectory() as folder:
                started = time.perf_counter()
                ours = our_log_ratio(model, Path(folder))
                walls["ours"].append(time.perf_counter() - started)
            logs["ours"].append(ours["eager"])
            logs["ours, XLA over graph"].append(ours["graph"])
        for name, values in logs.items():
            interval = stats.t_interval(values)
            wall = walls.get(name)
            seconds = f"{statistics.median(wall):.0f}, {sum(wall):.0f}" if wall else ""
            low, high, middle = (
                math.exp(value) for value in (interval.low, interval.high, interval.estimate)
            )
            half = (interval.high - interval.low) / 2
            print(
                f"| {model} | {name} | {seconds} | {middle:.3f} "
                f"| {low:.3f}-{high:.3f} | {half:.2%} |",
                flush=True,
            )
        ratio = sum(walls["ours"]) / sum(walls["ancestor"])
        print(f"| {model} | wall time ours / ancestor | {ratio:.2f} | | | |", flush=True)


if __name__ == "__main__":
    main()
