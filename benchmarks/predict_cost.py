"""Calls, and the overhead of `predict`, by the harness against a bare loop over them, in turn.

python -m benchmarks.predict_cost [MODEL] [RESOLUTION] [SECONDS A POINT]
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xla_sweeps.analysis import stats
from xla_sweeps.backends.keras import building, framework
from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.backends.tensorflow.scenarios.predict import PredictBench, Repeated
from xla_sweeps.config import catalog
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.measurement import INPUTS
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.trial import Trial
from xla_sweeps.trial import pacing
from xla_sweeps.worker import timing

MODES = (Mode.GRAPH_HOST, Mode.PREDICT_GRAPH, Mode.PREDICT_XLA)

SIZES = (1, 8, 32)

LEAST_PAIRS = 12

RESAMPLES = 500

Times = npt.NDArray[np.float64]


def main() -> None:
    """Time each way at each batch size both ways, alternating; print the ratios."""
    model = sys.argv[1] if len(sys.argv) > 1 else "mobilenet_v2"
    resolution = int(sys.argv[2]) if len(sys.argv) > 2 else catalog.load_catalog()[model].resolution
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 20.0
    words = ["scenario=predict", f"model={model}", f"resolution={resolution}"]
    trial = settings_of(compose_config(words)).trial
    built = PredictBench.build_model(trial)
    print("| mode | batch | harness ms | bare loop ms | harness / bare | 95 % interval |")
    print("|---|---|---|---|---|---|")
    times: dict[Mode, list[Times]] = {mode: [] for mode in MODES}
    for size in SIZES:
        bench = _bench(trial, built, size)
        for mode in MODES:
            times[mode].append(_both(bench, mode, seconds))
    print("\n| batch | overhead | harness ms | bare loop ms | harness / bare | 95 % interval |")
    print("|---|---|---|---|---|---|")
    for size, *pairs in zip(SIZES, times[Mode.GRAPH_HOST], times[Mode.PREDICT_GRAPH], strict=True):
        _print_overhead(size, pairs)


def _print_overhead(size: int, times: Sequence[Times]) -> None:
    """Both sides' overhead, and the interval of its ratio from resampled pairs of blocks.

    Args:
        size: of a batch.
        times: pairs of blocks of the function and of `predict`.
    """
    rng = np.random.default_rng(0)
    drawn = [
        _overhead_ms([pairs[rng.integers(0, len(pairs), len(pairs))] for pairs in times])
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile([harness / bare for harness, bare in drawn], (0.025, 0.975))
    harness, bare = _overhead_ms(times)
    print(
        f"| {size} | {Mode.PREDICT_GRAPH} - {Mode.GRAPH_HOST} | {harness:.4f} | {bare:.4f} "
        f"| {harness / bare:.4f} | {low:.4f}-{high:.4f} |"
    )


def _overhead_ms(times: Sequence[Times]) -> Times:
    """Overhead of the second way by the harness and by the bare loop, shape (2,)."""
    function, method = (np.median(pairs, axis=0) for pairs in times)
    overhead: Times = 1e3 * (method - function)
    return overhead


def _bench(trial: Trial, built: building.BuiltModel, size: int) -> PredictBench:
    rng = np.random.default_rng(0)
    inputs = [draw(built.inputs, size, rng) for _ in range(INPUTS)]
    built.call(inputs[0])
    return PredictBench(
        trial=replace(trial, batch_size=size),
        device="/device:CPU:0",
        built=built,
        inputs=inputs,
        eager=[],
        deterministic=True,
        facts=framework.facts_of(trial, built),
    )


def _both(bench: PredictBench, mode: Mode, seconds: float) -> Times:
    """Seconds of a call by the harness and by the bare loop, of pairs of blocks, shape (n, 2)."""
    executable = bench.make(mode)
    assert isinstance(executable, Repeated)
    executable.first_call_s()
    effort, size, clock = bench.trial.effort, bench.trial.batch_size, time.perf_counter_ns
    warm = timing.warm_up(executable, effort=effort, clock=clock)
    calls = pacing.calls_per_block(warm.call_s, sync_s=0.0, block_s=effort.block_s)
    given, call = executable.given, _bare(executable, mode, size)

    def by_harness() -> float:
        return timing.measure_block(executable, "", calls, clock=clock).call_s

    def by_loop() -> float:
        started = time.perf_counter()
        for index in range(calls):
            call(given[index % len(given)])
        return (time.perf_counter() - started) / calls

    pairs: list[tuple[float, float]] = []
    begun = time.perf_counter()
    with timing.garbage_collection_off():
        while len(pairs) < LEAST_PAIRS or time.perf_counter() - begun < seconds:
            if len(pairs) % 2:
                bare, harness = by_loop(), by_harness()
            else:
                harness, bare = by_harness(), by_loop()
            pairs.append((harness, bare))
            gc.collect()
    ratio = stats.signed_rank_interval([math.log(harness / bare) for harness, bare in pairs])
    harness, bare = 1e3 * np.median(pairs, axis=0)
    print(
        f"| {mode} | {size} | {harness:.3f} | {bare:.3f} | {math.exp(ratio.estimate):.4f} "
        f"| {math.exp(ratio.low):.4f}-{math.exp(ratio.high):.4f} |",
        flush=True,
    )
    return np.array(pairs)


def _bare(executable: Repeated, mode: Mode, size: int) -> Any:
    """The function that a person would write."""
    if mode is Mode.GRAPH_HOST:
        return lambda samples: executable.function(samples).numpy()
    model = executable.model  # type: ignore[attr-defined]
    return lambda samples: model.predict(samples, batch_size=size, verbose=0)


if __name__ == "__main__":
    main()
