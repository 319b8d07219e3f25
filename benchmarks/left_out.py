"""Coverage of the intervals of kept records, found by leaving processes out.

    python -m benchmarks.left_out [--by-mode] FOLDER [FOLDER ...]

Each choice of K replicates of a trial has an interval, and the mean of its other replicates stands
in place of the truth. That mean has an error too: where n others vary alike, the two differ by
sqrt(1 + K / n) times as much as K replicates differ from the truth, so the interval is widened by
this factor first. Every trial, mode and pair counts, contaminated ones too.

- `first`: no other trial is known, so the spread is the built-in one.
- `later`: it is learned as in a sweep, from the other trials of the folder in the same group.

Prints the share of intervals that hold, with their median half-width, for K = 1, 2, 3, beside the
spread between processes: pooled by degrees of freedom, less the rounds' own errors. In percent;
takes half a minute. The choices of one trial overlap, so they count as fewer than they are.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from xla_sweeps.analysis.interval import BUILT_IN, interval_of
from xla_sweeps.analysis.measured import figures_of, measured_of
from xla_sweeps.analysis.pool import NOTHING, Evidence, Pool, pool_of
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import Figure
from xla_sweeps.store.derive import Facts, summarize_trials
from xla_sweeps.store.store import Store

MOST = 3
"""The most replicates whose interval is asked."""

Trials = Mapping[str, Sequence[Record]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Some replicates of a trial, beside its others: one figure of them.

    Attributes:
        learned: what the trials of its group say.
    """

    trial: str
    figure: Figure
    others: Figure
    learned: Pool

    def check(self, *, later: bool) -> tuple[bool, float]:
        """Whether the interval holds the mean of the others, and its half-width."""
        pool = self.learned if later else NOTHING
        interval = interval_of(self.figure, pool.prior(self.figure))
        reach = (interval.high - interval.low) / 2
        wider = math.sqrt(1 + self.figure.replicates / self.others.replicates)
        return abs(self.others.mean - self.figure.mean) <= wider * reach, reach


def read_trials(folder: Path) -> Trials:
    """The records of a results folder, by trial."""
    trials: dict[str, list[Record]] = {}
    for path in sorted((folder / "records").glob("*/*.json")):
        record = Record.from_json(path.read_bytes())
        trials.setdefault(record.trial_id, []).append(record)
    return trials


def figures(records: Sequence[Record], names: Collection[str]) -> list[Figure]:
    """The figures of these names that replicates of one trial give."""
    return [one for one in figures_of(measured_of(records)).values() if one.name in names]


def evidence_of(trial: str, fact: Facts, chosen: Sequence[Figure]) -> Evidence:
    """What others learn from figures of a trial."""
    spread = tuple(replace(one, values=(), errors=()) for one in chosen)
    return Evidence(trial, fact.measured_at, fact.host, spread)


def cases_of(
    folder: Path, *, names: Collection[str] = tuple(BUILT_IN), most: int = MOST
) -> Iterator[LeftOut]:
    """Every figure of every choice of at most so many replicates, of all trials of a folder."""
    trials = read_trials(folder)
    parts = ((trial, records, ()) for trial, records in trials.items())
    facts = summarize_trials(Store(folder), parts).facts
    evidence = {
        trial: evidence_of(trial, fact, [one for one in fact.figures if one.name in names])
        for trial, fact in facts.items()
    }
    for trial, records in trials.items():
        kept = measured_of(records).records
        group = facts[trial].group
        alike = [evidence[name] for name in facts if name != trial and facts[name].group == group]
        for count in range(1, min(most, len(kept) - 1) + 1):
            for chosen in itertools.combinations(kept, count):
                own = figures(chosen, names)
                rest = [record for record in kept if record not in chosen]
                others = {(one.name, one.labels): one for one in figures(rest, names)}
                learned = pool_of([*alike, evidence_of(trial, facts[trial], own)])
                for one in own:
                    other = others.get((one.name, one.labels))
                    if other and one.replicates == count:
                        yield LeftOut(trial=trial, figure=one, others=other, learned=learned)


def spread_of(several: Sequence[Figure]) -> float:
    """The standard deviation between processes, beyond the rounds' own errors."""
    freedom = np.array([one.replicates - 1 for one in several], dtype=float)
    beyond = np.array([one.between - one.within for one in several])
    return math.sqrt(max(0.0, float(np.average(beyond, weights=freedom))))


def coverage_of(cases: Sequence[LeftOut], *, later: bool) -> tuple[float, float]:
    """Share of intervals that hold, and their median half-width; of no case nan."""
    if not cases:
        return math.nan, math.nan
    inside, reach = zip(*(one.check(later=later) for one in cases), strict=True)
    return float(np.mean(inside)), float(np.median(reach))


def kind_of(figure: Figure, *, by_mode: bool) -> tuple[str, str, str]:
    """The row of the table that a figure belongs to."""
    labels = "/".join(figure.labels) if by_mode else ""
    return figure.name, "GPU" if figure.on_gpu else "CPU", labels


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", help="results folders")
    parser.add_argument("--by-mode", action="store_true", help="a row for each mode and pair")
    options = parser.parse_args()
    several: dict[tuple[str, str, str], list[Figure]] = {}
    cases: dict[tuple[str, str, str], list[LeftOut]] = {}
    for folder in options.folders:
        for records in read_trials(folder).values():
            for one in figures(records, BUILT_IN):
                if one.replicates > 1:
                    several.setdefault(kind_of(one, by_mode=options.by_mode), []).append(one)
        for case in cases_of(folder):
            cases.setdefault(kind_of(case.figure, by_mode=options.by_mode), []).append(case)
    print("| figure | spread | built in | replicates | cases (trials) | first | later |")
    print("|---|---|---|---|---|---|---|")
    for kind in sorted(several):
        name, device, _ = kind
        spreads = (
            f"{100 * spread_of(several[kind]):.1f} | {100 * BUILT_IN[name][device == 'GPU']:.1f}"
        )
        for count in range(1, MOST + 1):
            mine = [one for one in cases.get(kind, []) if one.figure.replicates == count]
            if not mine:
                continue
            cells = [f"{len(mine)} ({len({one.trial for one in mine})})"]
            for later in (False, True):
                share, reach = coverage_of(mine, later=later)
                cells.append(f"{100 * share:.0f} (±{100 * reach:.1f})")
            print(f"| {' '.join(filter(None, kind))} | {spreads} | {count} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
