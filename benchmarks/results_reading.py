"""`xla-sweeps results` on many records: from the records, from kept rows, after one trial more.

The records are made first, untimed. Whole processes, in turn; on a busy machine only the processor
seconds say something. Beside them a process that starts Python and reads the Parquet file.
`--before DIR` measures the package of another checkout in turn with this one's.

    python benchmarks/results_reading.py [--rows 100000] [--repeat 5] [--before DIR]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.page_building import ROWS_A_TRIAL, make_records, make_twin
from benchmarks.whole_process import Took, median, timed

ROOT = Path(__file__).resolve().parents[1]

READ = "import sys, pyarrow.parquet; pyarrow.parquet.read_table(sys.argv[1])"


@dataclass(frozen=True)
class Case:
    """A command, and what is done before it, untimed."""

    name: str
    command: Sequence[str]
    prepare: Callable[[], object] = lambda: None


def cases_of(folder: Path) -> list[Case]:
    """What is measured in a results folder."""
    shown = [sys.executable, "-m", "xla_sweeps", "results", str(folder)]
    output = ["-o", str(folder / "rows.out")]
    every = [*shown, "--all", "--format", "parquet", *output]
    few = "device~a100 and family=ResNetV1 and speedup>1.6"
    forget = partial(shutil.rmtree, folder / "cache", ignore_errors=True)
    kept = str(folder / "cache" / "rows.parquet")
    return [
        Case("from records, --all --format parquet", every, forget),
        Case("one A/A trial more, --all --format parquet", every, partial(make_twin, folder)),
        Case("Python and the Parquet file", [sys.executable, "-c", READ, kept]),
        Case("--format parquet", [*shown, "--format", "parquet", *output]),
        Case("--all --format parquet", every),
        Case("--format csv", [*shown, "--format", "csv", *output]),
        Case("--all --format csv", [*shown, "--all", "--format", "csv", *output]),
        Case("table --where", [*shown, "--where", few]),
    ]


def main() -> None:
    """Make the records, then read them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--before", type=Path, help="root of another checkout")
    options = parser.parse_args()
    checkouts = {"now": ROOT} if options.before is None else {"before": options.before, "now": ROOT}
    took: dict[tuple[str, str], list[Took]] = {}
    with tempfile.TemporaryDirectory() as name:
        folders = {version: Path(name) / version for version in checkouts}
        first, *others = folders.values()
        make_records(first, options.rows // ROWS_A_TRIAL)
        for folder in others:
            shutil.copytree(first, folder, copy_function=os.link)
        for _ in range(options.repeat):
            for cases in zip(*map(cases_of, folders.values()), strict=True):
                for (version, checkout), case in zip(checkouts.items(), cases, strict=True):
                    case.prepare()
                    took.setdefault((case.name, version), []).append(timed(case.command, checkout))
    for (name, version), several in took.items():
        print(f"{name}, {version}: {median(several)}")


if __name__ == "__main__":
    main()
