"""Effort quick against the published study's procedure: wall time, and width of the intervals.

    python -m benchmarks.ancestor --minutes 12 --out results/ancestor.csv

The published procedure, written again from its description: a new process for each execution mode
(eager, then `jit_compile=True`), batch 4, 10 warm-up calls, 100 calls timed as one with
`time.time()`, no synchronization, throughput as the only result. Its speedup is XLA over eager;
ours measures graph mode in the same time as well, and checks that the modes agree.

Two kinds of units, each measured by all procedures, one right after the other, in an order that
rotates, so that a drift of the machine affects all:

- `sweep`: 3 of 12 small models, at 2 resolutions; ours is one `xla-sweeps sweep`, and the same
  with `--ahead 1`.
- `alone`: MobileNetV2, ResNet50 or EfficientNetV2-S at its native size; ours is one command. These
  are repeated; an interval is Student's t interval over the repetitions' log-ratios.

A unit is started only if an equal one fits into the remaining minutes. With the same `--out` it
continues; `--minutes 0` prints the table of the file.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from xla_sweeps.analysis.stats import interval_about
from xla_sweeps.config.catalog import load_catalog

SMALL = (
    "mobilenet_v1",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mobilenet_v3_large",
    "efficientnetb0",
    "efficientnetb1",
    "efficientnetv2b0",
    "efficientnetv2b1",
    "regnetx_002",
    "regnety_002",
    "regnetx_004",
    "nasnet_mobile",
)
RESOLUTIONS = (96, 128)
BLOCK = 3
"""Models of one sweep, which starts its processes once."""
ALONE = ("mobilenet_v2", "resnet50", "efficientnetv2s")

Row = TypeVar("Row")

Figures = tuple[float, float | None, float | None, float | None]
"""What a `Run` has after its procedure, in its order."""

OURS, AHEAD, THEIRS = "ours", "ours, ahead", "ancestor"
PROCEDURES = {"sweep": (OURS, AHEAD, THEIRS), "alone": (OURS, THEIRS)}

PROGRAM = """
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


@dataclass(frozen=True, slots=True)
class Run:
    """A unit by one procedure; the log speedups of XLA where it is measured alone.

    Of a sweep by ours the median half-width of its 95 % intervals of log XLA over graph.
    """

    kind: str
    model: str
    repetition: int
    procedure: str
    seconds: float
    over_eager: float | None = None
    over_graph: float | None = None
    half_width: float | None = None

    @property
    def unit(self) -> tuple[str, str, int]:
        """The kind, the model and the repetition, which all procedures measure."""
        return self.kind, self.model, self.repetition


def units(kinds: Sequence[str], repetitions: int) -> list[tuple[str, str, int]]:
    """All units in their order, which spreads a limited time over all kinds of work."""
    alone = [("alone", model, number) for number in range(repetitions) for model in ALONE]
    starts = range(0, len(SMALL), BLOCK)
    small = [("sweep", " ".join(SMALL[start : start + BLOCK]), 0) for start in starts]
    mixed = []
    while alone or small:
        mixed += small[:1] + alone[: len(ALONE)]
        del small[:1], alone[: len(ALONE)]
    return [unit for unit in mixed if unit[0] in kinds]


def by_them(kind: str, models: str) -> Figures:
    """Seconds, and the log speedup over eager, of the published procedure."""
    catalog, rate = load_catalog(), {}
    started = time.monotonic()
    for model in models.split():
        constructor = str(catalog[model].sources["applications"].recipe["constructor"])
        for resolution in RESOLUTIONS if kind == "sweep" else (catalog[model].resolution,):
            for mode in ("eager", "xla"):
                command = [sys.executable, "-c", PROGRAM, constructor, str(resolution), mode]
                rate[mode] = json.loads(output(command).splitlines()[-1])["throughput"]
    log = None if kind == "sweep" else math.log(rate["xla"] / rate["eager"])
    return time.monotonic() - started, log, None, None


def by_us(kind: str, models: str, *launch: str) -> Figures:
    """Seconds, the log speedups over eager and over graph, and the half-width, of effort quick."""
    with tempfile.TemporaryDirectory() as folder:
        words = [f"model={models}", "jit=true"]
        if kind == "sweep":
            path = Path(folder, "sweep.yaml")
            parameters = {
                "model": {"values": models.split()},
                "resolution": {"values": list(RESOLUTIONS)},
            }
            path.write_text(
                json.dumps({"name": "benchmark", "method": "grid", "parameters": parameters})
            )
            words = ["sweep", str(path), *launch]
        program = [sys.executable, "-m", "xla_sweeps"]
        started = time.monotonic()
        output([*program, *words, f"results_dir={folder}", "ui=quiet", "tracker=none"])
        seconds = time.monotonic() - started
        rows = json.loads(output([*program, "results", folder, "--format", "json", "--all"]))
    rows = [row for row in rows if row["candidate"] == "xla"]
    if kind == "sweep":
        over_graph = [row for row in rows if row["baseline"] == "graph"]
        widths = [math.log(row["speedup_high"] / row["speedup_low"]) / 2 for row in over_graph]
        return seconds, None, None, statistics.median(widths)
    logs = {row["baseline"]: math.log(row["speedup"]) for row in rows}
    return seconds, logs["eager"], logs["graph"], None


def output(command: Sequence[str], *allowed: int) -> str:
    """The output of a command, which ends this program unless its exit code is 0 or allowed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, *allowed):
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return done.stdout


def measure(
    runs: list[Run], todo: Iterable[tuple[str, str, int]], *, until: float, out: Path
) -> None:
    """Measure missing units until a monotonic time; each unit is written when it is done."""
    turns: Counter[str] = Counter()
    for unit in todo:
        kind, model, repetition = unit
        turns[kind] += 1
        like = [run for run in runs if (run.kind, run.model) == (kind, model)]
        like = like or [run for run in runs if run.kind == kind]
        procedures = PROCEDURES[kind]
        needed = len(procedures) * statistics.fmean(run.seconds for run in like) if like else 0.0
        if unit in {run.unit for run in runs} or time.monotonic() + needed > until:
            continue
        first = turns[kind] % len(procedures)
        for procedure in procedures[first:] + procedures[:first]:
            launch = ("--ahead", "1") if procedure == AHEAD else ()
            figures = by_them(kind, model) if procedure == THEIRS else by_us(kind, model, *launch)
            run = Run(kind, model, repetition, procedure, *figures)
            print(f"{kind} {model} {repetition} {procedure}: {run.seconds:.0f} s", flush=True)
            runs.append(run)
        write(runs, out)


def write(runs: Sequence[Any], path: Path) -> None:
    """Write a row for each run, a data class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, [field.name for field in fields(runs[0])])
        writer.writeheader()
        writer.writerows(asdict(run) for run in runs)


def read(path: Path, kind: type[Row]) -> list[Row]:
    """The runs of a file that `write` wrote; none where there is none."""
    if not path.exists():
        return []
    with path.open(newline="") as handle:
        rows = [
            {key: value or None for key, value in row.items()} for row in csv.DictReader(handle)
        ]
    return [msgspec.convert(row, kind, strict=False) for row in rows]


def table(runs: Sequence[Run]) -> str:
    """Wall time over theirs, and the intervals, as Markdown."""
    lines = ["| units | procedure | s | of the ancestor's | half-width |", "|---|---|---|---|---|"]
    for title in ("sweep", *ALONE):
        group = [run for run in runs if title == (run.kind if run.kind == "sweep" else run.model)]
        theirs = {run.unit: run.seconds for run in group if run.procedure == THEIRS}
        for procedure in (OURS, AHEAD):
            ours = [run for run in group if run.procedure == procedure and run.unit in theirs]
            if not ours:
                continue
            trials = len(ours) * BLOCK * len(RESOLUTIONS)
            name = f"{trials} trials of sweeps" if title == "sweep" else f"{title} × {len(ours)}"
            spent = sum(run.seconds for run in ours)
            ratio = spent / sum(theirs[run.unit] for run in ours)
            widths = [run.half_width for run in ours if run.half_width is not None]
            width = f"{statistics.median(widths):.0%}" if widths else ""
            lines.append(f"| {name} | {procedure} | {spent:.0f} | {ratio:.2f} | {width} |")
    lines += ["", "| model | procedure | speedup of XLA | 95 % interval | half-width |"]
    lines += ["|---|---|---|---|---|"]
    for model in ALONE:
        for procedure, over in ((THEIRS, "eager"), (OURS, "eager"), (OURS, "graph")):
            logs = [
                value
                for run in runs
                if (run.kind, run.model, run.procedure) == ("alone", model, procedure)
                and (value := getattr(run, f"over_{over}")) is not None
            ]
            if len(logs) > 1:
                middle, error = statistics.fmean(logs), statistics.stdev(logs) / len(logs) ** 0.5
                interval = interval_about(middle, error, freedom=len(logs) - 1)
                figures = map(math.exp, (interval.estimate, interval.low, interval.high))
                shown = "{:.3f} | {:.3f}-{:.3f}".format(*figures)
                half = (interval.high - interval.low) / 2
                lines.append(f"| {model} | {procedure}, over {over} | {shown} | {half:.2%} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="to measure (default 0)")
    parser.add_argument("--out", type=Path, default=Path("results/ancestor.csv"), help="CSV file")
    parser.add_argument("--repetitions", type=int, default=3, help="of a model alone (default 3)")
    parser.add_argument("--only", choices=("sweep", "alone"), help="units of one kind")
    options = parser.parse_args()
    runs = read(options.out, Run)
    kinds = (options.only,) if options.only else ("sweep", "alone")
    until = time.monotonic() + 60 * options.minutes
    if options.minutes:
        todo = units(kinds, options.repetitions)
        measure(runs, todo, until=until, out=options.out)
    print(table(runs))


if __name__ == "__main__":
    main()
