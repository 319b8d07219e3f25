"""Reported throughput against a bare loop over the same function in the same process, in turn.

python benchmarks/bare_loop.py [MODEL] [RESOLUTION] [REPETITIONS]
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np

from xla_sweeps.analysis import stats
from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.backends.tensorflow import devices, modes
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.config import catalog
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.modes import Mode
from xla_sweeps.trial import pacing
from xla_sweeps.worker import timing


def main() -> None:
    """Time graph mode and XLA both ways, alternating; print the ratios with their intervals."""
    model = sys.argv[1] if len(sys.argv) > 1 else "mobilenet_v2"
    resolution = int(sys.argv[2]) if len(sys.argv) > 2 else catalog.load_catalog()[model].resolution
    repetitions = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    trial = settings_of(compose_config([f"model={model}", f"resolution={resolution}"])).trial
    built = Bench.build_model(trial)
    rng = np.random.default_rng(0)
    inputs = [draw(built.inputs, trial.batch_size, rng) for _ in range(3)]
    built.call(inputs[0])
    print("| mode | harness images/s | bare loop images/s | harness / bare | 95 % interval |")
    print("|---|---|---|---|---|")
    for mode in (Mode.GRAPH, Mode.XLA):
        executable = modes.ModeExecutable.bind(built.call, mode, inputs)
        executable.first_call_s()
        warm = timing.warm_up(executable, effort=trial.effort, clock=time.perf_counter_ns)
        calls = pacing.calls_per_block(warm.call_s, sync_s=0.0, block_s=trial.effort.block_s)
        ratios, harness, bare = [], [], []
        for index in range(repetitions):

            def by_harness() -> float:
                clock = time.perf_counter_ns
                return timing.measure_block(executable, "", calls, clock=clock).call_s  # noqa: B023

            def by_loop() -> float:
                function = executable.function  # noqa: B023
                started = time.perf_counter()
                for _ in range(calls):  # noqa: B023
                    function(inputs[0])
                devices.synchronize()
                return (time.perf_counter() - started) / calls  # noqa: B023

            if index % 2:
                first, second = by_loop(), by_harness()
                bare.append(first)
                harness.append(second)
            else:
                harness.append(by_harness())
                bare.append(by_loop())
            ratios.append(math.log(bare[-1] / harness[-1]))
        interval = stats.signed_rank_interval(ratios)
        per_s = [trial.batch_size / float(np.median(values)) for values in (harness, bare)]
        print(
            f"| {mode} | {per_s[0]:.2f} | {per_s[1]:.2f} | {math.exp(interval.estimate):.4f} "
            f"| {math.exp(interval.low):.4f}-{math.exp(interval.high):.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
