"""`xla-sweeps results` on many kept rows, against starting Python and reading the Parquet file.

The records are made and their rows kept first (that is not timed). Wall and processor time of whole
processes, in turn; on a busy machine only the latter says something.

    python benchmarks/results_reading.py [--rows 100000] [--repeat 5]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.page_building import ROWS_A_TRIAL, make_records

READ = "import sys, pyarrow.parquet; pyarrow.parquet.read_table(sys.argv[1])"


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Wall and processor seconds of a process."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Make the records, keep the rows, then read them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_records(folder, options.rows // ROWS_A_TRIAL)
        shown = [sys.executable, "-m", "xla_sweeps", "results", str(folder)]
        output = ["-o", str(folder / "rows.out")]
        subprocess.run([*shown, "--format", "parquet", *output], check=True)
        few = "device~a100 and family=ResNetV1 and speedup>1.6"
        commands = {
            "Python and the Parquet file": [
                sys.executable,
                "-c",
                READ,
                str(folder / "cache" / "rows.parquet"),
            ],
            "--format parquet": [*shown, "--format", "parquet", *output],
            "--all --format parquet": [*shown, "--all", "--format", "parquet", *output],
            "--format csv": [*shown, "--format", "csv", *output],
            "--all --format csv": [*shown, "--all", "--format", "csv", *output],
            "table --where": [*shown, "--where", few],
        }
        took: dict[str, list[tuple[float, float]]] = {what: [] for what in commands}
        for _ in range(options.repeat):
            for what, command in commands.items():
                took[what].append(timed(command))
    first: tuple[float, ...] = ()
    for what, pairs in took.items():
        medians = tuple(statistics.median(values) for values in zip(*pairs, strict=True))
        first = first or medians
        ratios = [mine / base for mine, base in zip(medians, first, strict=True)]
        print(
            f"{what}: wall {medians[0]:.2f} s ({ratios[0]:.2f} x), "
            f"processor {medians[1]:.2f} s ({ratios[1]:.2f} x)"
        )


if __name__ == "__main__":
    main()
