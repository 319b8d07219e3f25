"""A/A on this machine: how often copies of one mode are called different, and held equal.

    python -m benchmarks.aa --minutes 25 --out benchmarks/results/aa.csv

Small models at small sizes in two copies of graph mode, effort quick with ten rounds. Each command
measures one replicate: copies in one process and copies apart alternate, so that drift of the
machine affects both alike. Contaminated replicates do not count; the next one then waits for a
quiet machine. On a machine that is never quiet `--accept-contaminated` counts them too. With the
same `--records` it continues; `--minutes 0` reads what is there.

Pairs are judged by the project's own functions, each from three processes a copy:

- *within processes*: both copies in the same three processes;
- *one after the other*: of six such processes, a copy in every second one against the other copy in
  the others, in both directions;
- *taking turns* (`copies=apart`): each copy in three processes of its own, which take turns block
  by block.

Pairs within processes learn from each other how processes differ, as the trials of a sweep do. The
two kinds across processes do not, so their half-widths compare. Writes a row per pair, and prints
the table of benchmarks/README.md, as `--table FILE` does of a file.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.ancestor import read, write
from xla_sweeps.analysis.pool import NOTHING, Evidence, Pool, pool_of
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Round, Status
from xla_sweeps.schema.record import Record
from xla_sweeps.store.store import Store

MODELS = ("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v1", "regnetx_002", "efficientnetb0")
RESOLUTIONS = (64, 96, 128)
PLACES = ("together", "apart")
"""The values of `copies`, which are measured in turn."""
REPLICATES = 6
"""Replicates that count of a trial before the next trial is measured."""

CLEAN = frozenset({Status.OK})

WITHIN, AFTER, TURNS = "within processes", "one after the other", "taking turns"

Key = tuple[str, int, str]
"""Model, resolution and copies."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two copies of one mode: their ratio with its 95 % interval, and the verdict."""

    kind: str
    model: str
    resolution_px: int
    ratio: float
    low: float
    high: float
    verdict: str

    @property
    def wrong(self) -> bool:
        """True if the copies are called different."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER)

    @property
    def holds(self) -> bool:
        """True if the interval contains the truth."""
        return self.low <= 1 <= self.high


def pairs_of(
    trials: Mapping[str, Sequence[Record]], statuses: Container[Status] = CLEAN
) -> list[Pair]:
    """The pairs of these trials' replicates with one of the statuses, of each kind."""
    groups = partial(groups_of, trials, statuses)
    threes, sixes = list(groups("together", 3)), list(groups("together", 6))
    learned = pool_of(
        Evidence(str(number), three[-1].started_at, "", summarize(three).figures)
        for number, three in enumerate(threes)
    )
    pool = Pool(
        learned.priors, learned.common
    )  # without the floor that these pairs raise themselves
    swapped = [numbered([six[place ^ 1] for place in range(6)]) for six in sixes]
    pairs = [pair_of(WITHIN, three, pool) for three in threes]
    pairs += [pair_of(AFTER, six, NOTHING) for six in (*sixes, *swapped)]
    pairs += [pair_of(TURNS, three, NOTHING) for three in groups("apart", 3)]
    return [pair for pair in pairs if pair is not None]


def groups_of(
    trials: Mapping[str, Sequence[Record]], statuses: Container[Status], copies: str, size: int
) -> Iterator[list[Record]]:
    """Replicates of trials with these copies and statuses, in whole groups of one size."""
    for records in trials.values():
        counting = [
            record
            for record in records
            if record.status in statuses and record.trial.copies == copies
        ]
        for start in range(0, len(counting) - size + 1, size):
            yield numbered(counting[start : start + size])


def numbered(records: Sequence[Record]) -> list[Record]:
    """The records as the replicates of one trial, in this order, all of which count."""
    return [
        replace(record, replicate=number, status=Status.OK, rounds=counted(record))
        for number, record in enumerate(records)
    ]


def counted(record: Record) -> tuple[Round, ...]:
    """The rounds of a clean replicate; all rounds of a contaminated one, as if they were clean."""
    if record.status is Status.OK:
        return record.rounds
    return tuple(replace(one, dirty="") for one in record.rounds)


def pair_of(kind: str, records: Sequence[Record], pool: Pool) -> Pair | None:
    """The copies of one mode in these replicates; None where they have no interval."""
    row = summarize(records, pool=pool).comparisons[0]
    figures, verdict = row.speedup, str(row.speedup.verdict)
    ratio, low, high = figures.value, figures.low, figures.high
    if kind == AFTER:
        ratio, low, high = figures.aa_across, figures.aa_across_low, figures.aa_across_high
    if ratio is None or low is None or high is None:
        return None
    if kind == AFTER:
        bound = 1 + figures.floor_across
        verdict = "faster" if low > bound else "slower" if high < 1 / bound else "neither"
    return Pair(kind, row.trial.model, row.trial.resolution_px, ratio, low, high, verdict)


def table(pairs: Sequence[Pair]) -> str:
    """The shares of each kind, as Markdown."""
    lines = [
        "| pairs | measured | faster or slower | interval holds 1 | median half-width | verdicts |",
        "|---|---|---|---|---|---|",
    ]
    for kind in (WITHIN, AFTER, TURNS, "all"):
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


def measure(results_dir: Path, statuses: Container[Status], *, until: float) -> None:
    """Measure replicates until a monotonic time: a trial to its end, its copies' places in turn."""
    cells = [(model, size) for size in RESOLUTIONS for model in MODELS]
    while time.monotonic() < until:
        tried, counting = Counter[Key](), Counter[Key]()
        for records in Store(results_dir).load().records.values():
            for record in records:
                key = record.model.name, record.model.resolution_px, record.trial.copies
                tried[key] += 1
                counting[key] += record.status in statuses
        done = {cell: min(counting[*cell, copies] for copies in PLACES) for cell in cells}
        model, size = min(cells, key=lambda cell: (done[cell] // REPLICATES, cells.index(cell)))
        copies = min(PLACES, key=lambda copies: tried[model, size, copies])
        words = [f"model={model}", f"resolution={size}", "modes=[graph,graph]", f"copies={copies}"]
        words += ["effort=quick", "effort.rounds_max=10", "effort.replicates=1"]
        words += [f"results_dir={results_dir}", "ui=quiet", "tracker=none"]
        command = [sys.executable, "-m", "xla_sweeps", *words]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        name = f"{model} {size} px, {copies}"
        print(f"{name}: exit code {ended.returncode}", file=sys.stderr, flush=True)
        if ended.returncode > 1:
            sys.exit(ended.stderr)


def main() -> None:
    """Measure, write the pairs, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="to measure (default 0)")
    parser.add_argument("--accept-contaminated", action="store_true", help="count these too")
    parser.add_argument("--records", type=Path, default=Path("results/aa"), help="results folder")
    parser.add_argument("--out", type=Path, help="CSV file for the pairs")
    parser.add_argument("--table", type=Path, help="only print the table of this CSV file")
    options = parser.parse_args()
    if options.table is not None:
        print(table(read(options.table, Pair)))
        return
    statuses = CLEAN | {Status.CONTAMINATED} if options.accept_contaminated else CLEAN
    measure(options.records, statuses, until=time.monotonic() + 60 * options.minutes)
    pairs = pairs_of(Store(options.records).load().records, statuses)
    if options.out is not None:
        write(pairs, options.out)
    print(table(pairs))


if __name__ == "__main__":
    main()
