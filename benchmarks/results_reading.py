"""`results`, `compare` and `check` on many records, from the records and from kept rows.

The records are made first, untimed. Whole processes, in turn; on a busy machine only the processor
seconds are meaningful. Beside them a process that starts Python and reads the Parquet file.
`--before DIR` measures the package of another checkout in turn with this one's.

    python -m benchmarks.results_reading [--trials 33333] [--repeat 3] [--before DIR] [--write]

A trial has three rows; every 32nd is an A/A twin of two replicates and one row. `--write` keeps the
table in benchmarks/results/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.page_building import make_records, make_twin
from benchmarks.whole_process import Took, machine, markdown, show, timed

ROOT = Path(__file__).resolve().parents[1]

READ = "import sys, pyarrow.parquet; pyarrow.parquet.read_table(sys.argv[1])"

FROM_RECORDS, FROM_ROWS = "from records, `--all --format parquet`", "`--all --format parquet`"

GOALS = {FROM_RECORDS: 8.0, FROM_ROWS: 1.5}
"""Wall seconds, of 33,333 trials."""


@dataclass(frozen=True)
class Case:
    """A command, and what is done before it, untimed."""

    name: str
    command: Sequence[str]
    prepare: Callable[[], object] = lambda: None


def cases_of(folder: Path) -> list[Case]:
    """The cases to measure in a results folder."""
    shown = [sys.executable, "-m", "xla_sweeps", "results", str(folder)]
    output = ["-o", str(folder / "rows.out")]
    every = [*shown, "--all", "--format", "parquet", *output]
    few = "device~a100 and family=ResNetV1 and speedup>1.6"
    forget = partial(shutil.rmtree, folder / "cache", ignore_errors=True)
    kept = str(folder / "cache" / "rows.parquet")
    return [
        Case(FROM_RECORDS, every, forget),
        Case("one A/A trial more, `--all --format parquet`", every, partial(make_twin, folder)),
        Case("Python and the Parquet file", [sys.executable, "-c", READ, kept]),
        Case("`--format parquet`", [*shown, "--format", "parquet", *output]),
        Case(FROM_ROWS, every),
        Case("`--format csv`", [*shown, "--format", "csv", *output]),
        Case("`--all --format csv`", [*shown, "--all", "--format", "csv", *output]),
        Case("table, `--where`", [*shown, "--where", few]),
        Case("table", shown),
        *(
            Case(f"`{words[0]}`", [*shown[:3], *words])
            for words in (("compare", str(folder), str(folder)), ("check", str(folder)))
        ),
    ]


def measured(
    root: Path, trials: int, repeat: int, checkouts: Mapping[str, Path]
) -> dict[str, list[Took]]:
    """Runs of each case, each checkout in turn."""
    folders = {version: root / f"results{place}" for place, version in enumerate(checkouts)}
    first, *others = folders.values()
    make_records(first, trials)
    for folder in others:
        shutil.copytree(first, folder, copy_function=os.link)
    took: dict[str, list[Took]] = {}
    for _ in range(repeat):
        for cases in zip(*map(cases_of, folders.values()), strict=True):
            for (version, checkout), case in zip(checkouts.items(), cases, strict=True):
                case.prepare()
                took.setdefault(f"{case.name}{version}", []).append(timed(case.command, checkout))
    return took


def main() -> None:
    """Make the records, then read them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, nargs="+", default=[33_333])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--before", type=Path, help="root of another checkout")
    parser.add_argument("--write", action="store_true", help="keep the table")
    options = parser.parse_args()
    checkouts = {", before": options.before} if options.before else {}
    sections = [f"`xla-sweeps results`, medians of {options.repeat}. {machine()}."]
    for trials in options.trials:
        with tempfile.TemporaryDirectory() as name:
            took = measured(Path(name), trials, options.repeat, {**checkouts, "": ROOT})
        goals = GOALS if trials >= 33_333 else {}
        sections += [f"{trials:,} trials of 20 rounds in three modes:", markdown(took, goals)]
    show("results_reading", "Reading results", sections, write=options.write)


if __name__ == "__main__":
    main()
