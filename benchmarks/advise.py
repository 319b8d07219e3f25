"""Compare `advise` with a whole grid: is its choice as good as the grid's best, in which time?

    python -m benchmarks.advise FOLDER model=tiny_dense [KEY=VALUE …]

Measures every precision and batch size on TensorFlow in all modes, each setting three times
(effort=standard), then asks `advise` in a folder of its own, which tries a setting once
(effort=quick) and ends with pairs. Prints a line for benchmarks/results/advise.md.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

from xla_sweeps.analysis.race import Limits, Way, way_of
from xla_sweeps.cli.arguments import read_trials
from xla_sweeps.store import rows

PRECISIONS, BATCH_SIZES = ("float32", "mixed_bfloat16"), (4, 1, 16, 64)


def main(folder: Path, words: list[str]) -> None:
    """Measure the grid and the advice, and compare them."""
    grid_s = _run_grid(folder / "grid", words)
    began = time.monotonic()
    line = [sys.executable, "-P", "-m", "xla_sweeps", "advise", *words, "--format", "json"]
    done = subprocess.run(
        [*line, f"results_dir={folder / 'race'}"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    race_s = time.monotonic() - began
    answer = json.loads(done.stdout)
    chosen = answer["best"] or answer["now"]
    ways = _ways(folder / "grid")
    best = max(ways.values(), key=lambda way: way.rate)
    setting = chosen["setting"]
    own = ways[setting["precision"], setting["batch_size"], chosen["mode"]]
    verdict = "as good" if own.high >= best.low else "worse"
    name = next(word.partition("=")[2] for word in words if word.startswith("model="))
    print(
        f"| {name} | {len(ways)} | {grid_s:.0f} | {race_s:.0f} | {race_s / grid_s:.2f} | "
        f"{_name(best)} | {_name(own)} | {own.rate / best.rate:.2f} | {verdict} |"
    )


def _run_grid(folder: Path, words: list[str]) -> float:
    began = time.monotonic()
    for precision, size in itertools.product(PRECISIONS, BATCH_SIZES):
        own = [f"precision={precision}", f"batch_size={size}", f"results_dir={folder}"]
        line = [sys.executable, "-P", "-m", "xla_sweeps", *words, *own, "effort=standard"]
        subprocess.run(line, stdout=subprocess.DEVNULL, check=False)
    return time.monotonic() - began


def _ways(folder: Path) -> dict[tuple[str, int, str], Way]:
    """Ways that were measured, by precision, batch size and mode."""
    _, summaries = read_trials(folder, rows.load(folder))
    made = {}
    for summary in summaries.values():
        setting = (summary.trial.precision, summary.trial.batch_size)
        for mode in summary.modes:
            way = way_of((("precision", setting[0]), ("batch_size", setting[1])), mode, Limits())
            if not way.why_not:
                made[*setting, mode.label] = way
    return made


def _name(way: Way) -> str:
    values = dict(way.setting)
    return f"{way.mode}, {values['precision']}, batch {values['batch_size']}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), [*sys.argv[2:], "backend=tensorflow"])
