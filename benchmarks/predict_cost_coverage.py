"""Coverage of the intervals of `predict-cost`, simulated through the project's own functions.

    python -m benchmarks.predict_cost_coverage [--sweeps 400]

Six trials, as `predict-cost` runs them: calls of one batch of 1, 8, 32 and 128, and of 4 and 16
batches of 8. Rounds scatter by 6 % at batch 1 to 0.5 % at 128. The speed of a process differs for
all ways alike, and for each way on its own. A sample costs more in small batches. All trials have
one replicate, or every fourth has two (1+), or all have three.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xla_sweeps.analysis.estimates import Samples, figure
from xla_sweeps.analysis.pool import NOTHING, Evidence, pool_of
from xla_sweeps.analysis.predict_cost import Size, costs_of
from xla_sweeps.analysis.stats import Interval
from xla_sweeps.schema.measurement import Block, Round

REFERENCE = "graph_host"

WAYS = {
    REFERENCE: (0.002, 0.0, 0.001),
    "call_host": (0.01, 0, 0.003),
    "predict": (0.041, 3e-3, 1e-3),
}
"""Seconds of a call before its first sample, of a further batch of it, and of a sample."""

SHAPES = ((1, 1), (8, 1), (32, 1), (128, 1), (8, 4), (8, 16))
NOISE = {1: 0.06, 8: 0.03, 32: 0.012, 128: 0.005}
ROUNDS = 12
REPLICATES = {"1": (1,) * 6, "1+": (2, 1, 1, 1, 2, 1), "3": (3,) * 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Truth and scatter.

    Attributes:
        shared: standard deviation of the log speed of processes, for all ways alike.
        own: for each way on its own.
        bend: how much more a sample costs in a batch of 1; the root of the size divides it.
        noise: factor of the rounds' scatter.
    """

    shared: float = 0.0
    own: float = 0.0
    bend: float = 0.0
    noise: float = 1.0

    def seconds(self, way: str, size: float, batches: int) -> float:
        """The true time of a call; all but `predict` are called for each batch."""
        fixed, further, sample = WAYS[way]
        samples = sample * size * (1 + self.bend / math.sqrt(size))
        each = further if way == "predict" else fixed
        return fixed + each * (batches - 1) + samples * batches


def measure(source: np.random.Generator, world: World, replicates: Sequence[int]) -> list[Size]:
    """The trials of one sweep, each with what they say together."""
    sizes, evidence = [], []
    for shape, count in zip(SHAPES, replicates, strict=True):
        samples = [_replicate(source, world, shape) for _ in range(count)]
        pairs = [(way,) for way in WAYS] + [(REFERENCE, way) for way in WAYS if way != REFERENCE]
        figures = (
            figure("call" if len(labels) == 1 else "speedup", samples, *labels) for labels in pairs
        )
        evidence.append(Evidence(str(shape), "", "host", tuple(filter(None, figures))))
        references = {way: "" if way == REFERENCE else REFERENCE for way in WAYS}
        size = Size(
            batch_size=shape[0],
            batches=shape[1],
            references=references,
            samples=samples,
            pool=NOTHING,
        )
        sizes.append(size)
    pool = pool_of(evidence)
    return [replace(size, pool=pool) for size in sizes]


def _replicate(source: np.random.Generator, world: World, shape: tuple[int, int]) -> Samples:
    shared = source.normal(0, world.shared)
    logs = {
        way: math.log(world.seconds(way, *shape))
        + shared
        + source.normal(0, world.own)
        + source.normal(0, world.noise * NOISE[shape[0]], ROUNDS)
        for way in WAYS
    }
    rounds = [
        Round(
            round=number,
            order=tuple(WAYS),
            blocks=tuple(
                Block(
                    mode=way,
                    calls=1,
                    elapsed_ns=round(1e9 * math.exp(values[number])),
                    enqueue_ns=0,
                )
                for way, values in logs.items()
            ),
        )
        for number in range(ROUNDS)
    ]
    return Samples(rounds)


def simulate(world: World, replicates: Sequence[int], sweeps: int) -> Mapping[str, float]:
    """Share of intervals that hold the truth: of the overheads of `predict`, of calls."""
    source = np.random.default_rng((round(1e3 * world.own), round(10 * world.bend), *replicates))
    held: dict[str, list[bool]] = {}

    def add(name: str, interval: Interval | None, truth: float) -> None:
        inside = interval is not None and interval.low <= truth <= interval.high
        held.setdefault(name, []).append(inside)

    for _ in range(sweeps):
        sizes = measure(source, world, replicates)
        for cost in costs_of(sizes):
            shape = (cost.batch_size, cost.batches)
            truth, name = world.seconds(cost.label, *shape), f"{cost.batches} × {cost.batch_size}"
            add(f"{cost.label} {name}", cost.seconds, truth)
            if cost.label == "predict":
                add(f"overhead {name}", cost.overhead, truth - world.seconds(REFERENCE, *shape))
    return {name: float(np.mean(values)) for name, values in held.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=400, help="of each kind (default 400)")
    sweeps = parser.parse_args().sweeps
    columns = ("overhead", "graph_host", "call_host", "predict")
    print(f"| replicates | processes | each way | small batches | {' | '.join(columns)} |")
    print(f"|---|---|---|---|{'---|' * len(columns)}")
    for name, replicates in REPLICATES.items():
        for shared, own in ((0.02, 0.01), (0.05, 0.01), (0.02, 0.02), (0.05, 0.05)):
            for bend in (0.0, 0.1, 0.5):
                world = World(shared=shared, own=own, bend=bend)
                shares = simulate(world, replicates, sweeps)
                cells = [
                    " / ".join(
                        f"{100 * share:.0f}"
                        for key, share in shares.items()
                        if key.startswith(column)
                    )
                    for column in columns
                ]
                print(
                    f"| {name} | {100 * shared:g} % | {100 * own:g} % | +{100 * bend:g} % | "
                    f"{' | '.join(cells)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
