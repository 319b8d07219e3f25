"""A/A on this machine: how often copies of one mode are called different, and held equal.

    python -m benchmarks.aa --minutes 25 --out benchmarks/results/aa.csv

Small models at small sizes in two copies of graph mode, effort quick with ten rounds. Each command
measures one replicate; before it the machine must be quiet, and contaminated ones do not count. Run
again with the same `--records`, it goes on; `--minutes 0` reads what is there. Six clean replicates
of a trial make four pairs, judged by the project's own functions:

- *within processes*: the two copies in three processes each, twice;
- *across processes*: a copy in every second process against the other in the others, in both
  directions. These two share their processes, so a process that is slow shows in both.

Writes a row a pair, and prints the table of benchmarks/README.md, as `--table FILE` does of a file.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import msgspec
import psutil

from xla_sweeps.analysis.pool import NOTHING, Pool, evidence_of, pool_of
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.results.store import Store
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

MODELS = ("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v1", "regnetx_002", "efficientnetb0")
RESOLUTIONS = (64, 96, 128)
REPLICATES = 6
QUIET_SHARE = 0.1
"""Of the machine's cores in use by others, up to which it is quiet."""
QUIET_WAIT_S = 60.0

WITHIN, ACROSS = "within processes", "across processes"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two copies of one mode: their ratio with its 95 % interval, and what was made of it."""

    kind: str
    model: str
    resolution_px: int
    ratio: float
    low: float
    high: float
    verdict: str

    @property
    def wrong(self) -> bool:
        """Whether the copies are called different."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER)

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= 1 <= self.high


def pairs_of(trials: Mapping[str, Sequence[Record]]) -> list[Pair]:
    """The pairs of these trials' clean replicates; every six of a trial make four.

    Those within processes learn from each other how processes differ, as the trials of a sweep do.
    """
    sixes = []
    for records in trials.values():
        clean = [record for record in records if record.status is Status.OK]
        starts = range(0, len(clean) - REPLICATES + 1, REPLICATES)
        sixes += [numbered(clean[start : start + REPLICATES]) for start in starts]
    halves = [numbered(six[start : start + 3]) for six in sixes for start in (0, 3)]
    found = {str(number): evidence_of(summarize(half)) for number, half in enumerate(halves)}
    pool = pool_of(found)
    pairs = [pair for half in halves if (pair := within(half, pool)) is not None]
    swapped = [numbered([six[place ^ 1] for place in range(REPLICATES)]) for six in sixes]
    return pairs + [pair for six in (*sixes, *swapped) if (pair := across(six)) is not None]


def numbered(records: Sequence[Record]) -> list[Record]:
    """The records as the replicates of one trial, in this order."""
    return [replace(record, replicate=number) for number, record in enumerate(records)]


def within(records: Sequence[Record], pool: Pool) -> Pair | None:
    """The copies in the same processes."""
    row = summarize(records, pool=pool).comparisons[0]
    figures = row.speedup
    if figures.value is None or figures.low is None or figures.high is None:
        return None
    place = (row.trial.model, row.trial.resolution_px)
    verdict = str(figures.verdict)
    return Pair(WITHIN, *place, figures.value, figures.low, figures.high, verdict)


def across(records: Sequence[Record]) -> Pair | None:
    """A copy in every second process against the other in the others."""
    row = summarize(records, pool=NOTHING).comparisons[0]
    low, high = row.speedup.aa_across_low, row.speedup.aa_across_high
    if row.speedup.aa_across is None or low is None or high is None:
        return None
    bound = 1 + row.speedup.floor_across
    verdict = Verdict.FASTER if low > bound else Verdict.SLOWER if high < 1 / bound else "neither"
    place = (row.trial.model, row.trial.resolution_px)
    return Pair(ACROSS, *place, row.speedup.aa_across, low, high, str(verdict))


def table(pairs: Sequence[Pair]) -> str:
    """The shares of each kind, as Markdown."""
    lines = [
        "| pairs | measured | faster or slower | interval holds 1 | median half-width | verdicts |",
        "|---|---|---|---|---|---|",
    ]
    for kind in (WITHIN, ACROSS, "all"):
        group = [pair for pair in pairs if kind in (pair.kind, "all")]
        if not group:
            continue
        wrong, held = (sum(getattr(pair, name) for pair in group) for name in ("wrong", "holds"))
        width = statistics.median((pair.high - pair.low) / 2 for pair in group)
        words = Counter(pair.verdict for pair in group).most_common()
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in words)
        shares = [f"{number} ({100 * number / len(group):.1f} %)" for number in (wrong, held)]
        cells = [str(len(group)), kind, *shares, f"{100 * width:.2f} %", verdicts]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def write(pairs: Sequence[Pair], path: Path) -> None:
    """Write a row a pair."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, [field.name for field in fields(Pair)])
        writer.writeheader()
        writer.writerows(asdict(pair) for pair in pairs)


def read(path: Path) -> list[Pair]:
    """The pairs of a file that `write` wrote."""
    with path.open(newline="") as handle:
        return [msgspec.convert(row, Pair, strict=False) for row in csv.DictReader(handle)]


def measure(results_dir: Path, *, until: float) -> None:
    """Measure replicates, six clean ones of a trial after the other, until a monotonic time."""
    cells = [(model, size) for size in RESOLUTIONS for model in MODELS]
    while time.monotonic() < until:
        clean = Counter(
            (record.model.name, record.model.resolution_px)
            for records in Store(results_dir).load().records.values()
            for record in records
            if record.status is Status.OK
        )
        model, size = min(cells, key=lambda cell: (clean[cell] // REPLICATES, cells.index(cell)))
        wait_for_quiet(until)
        words = [f"model={model}", f"resolution={size}", "modes=[graph,graph]", "effort=quick"]
        words += ["effort.rounds_max=10", "effort.replicates=1", f"results_dir={results_dir}"]
        command = [sys.executable, "-m", "xla_sweeps", *words, "ui=quiet", "tracker=none"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"{model} {size} px: exit code {done.returncode}", file=sys.stderr, flush=True)
        if done.returncode > 1:
            sys.exit(done.stderr)


def wait_for_quiet(until: float) -> None:
    """Wait until others use little of the machine for two seconds, a minute at most."""
    until = min(until, time.monotonic() + QUIET_WAIT_S)
    while time.monotonic() < until and psutil.cpu_percent(interval=2.0) > 100 * QUIET_SHARE:
        pass


def main() -> None:
    """Measure for so many minutes, write the pairs, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="to measure (default 0)")
    parser.add_argument("--records", type=Path, default=Path("results/aa"), help="results folder")
    parser.add_argument("--out", type=Path, help="CSV file for the pairs")
    parser.add_argument("--table", type=Path, help="only print the table of this CSV file")
    options = parser.parse_args()
    if options.table is not None:
        print(table(read(options.table)))
        return
    measure(options.records, until=time.monotonic() + 60 * options.minutes)
    pairs = pairs_of(Store(options.records).load().records)
    if options.out is not None:
        write(pairs, options.out)
    print(table(pairs))


if __name__ == "__main__":
    main()
