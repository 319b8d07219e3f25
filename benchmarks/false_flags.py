"""Rate at which healthy small models are accused of keeping answers (`slow_on_new_inputs`).

Each mode of each model is warmed up once, then the test that a trial makes at its end is made many
times, alone and beside processes that keep every core busy. A planted mode, which keeps the answers
of values that it has seen, must be found each time.

    python -m benchmarks.false_flags [--times 300]

Or flags of records, where most modes are healthy: as they were given, and `warmup_not_stationary`
as it is decided now.

    python -m benchmarks.false_flags --records FOLDER [FOLDER ...]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xla_sweeps.backends.tensorflow.modes import ModeExecutable
from xla_sweeps.schema.measurement import INPUTS, Flag, Status, Trend
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.record import Record
from xla_sweeps.trial import pacing
from xla_sweeps.worker import timing

MODES = (Mode.EAGER, Mode.GRAPH, Mode.XLA)

BATCH = 4

UNCOUNTED = 50


def dense() -> keras.Model:
    return keras.Sequential([keras.Input((32,)), keras.layers.Dense(16), keras.layers.Dense(4)])


def convolution() -> keras.Model:
    layers = [keras.layers.Conv2D(8, 3), keras.layers.GlobalAveragePooling2D()]
    return keras.Sequential([keras.Input((16, 16, 3)), *layers, keras.layers.Dense(4)])


def keep_answers(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A call that answers what it has seen from memory, and is ten times slower elsewhere."""
    seen: dict[bytes, Any] = {}

    def run(batch: Any) -> Any:
        key = batch.numpy().tobytes()
        if key not in seen:
            seen.update({key: [call(batch) for _ in range(10)][-1]})
        return seen[key]

    return run


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Processes beside, each of which keeps a core busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def accusations(executable: ModeExecutable, inputs: list[Any], times: int) -> int:
    """Number of tests that accuse; each begins with these inputs, which it mixes."""
    count = 0
    for _ in range(times):
        executable.inputs = inputs
        count += timing.slow_on_new_inputs(executable, clock=time.perf_counter_ns)
    return count


def print_flags(folder: Path) -> None:
    """Print how many modes of a folder's records have each flag."""
    counts = Counter[str]()
    for path in sorted(folder.rglob("records/*/*.json")):
        record = Record.from_json(path.read_bytes())
        given = {(flagged.flag, flagged.mode) for flagged in record.flags}
        for label, outcome in record.modes.items():
            if outcome.status is not Status.OK or not outcome.latencies_s:
                continue
            trend = outcome.warmup_trend or pacing.trend(record.rounds, label)
            moves = trend is Trend.MOVING and pacing.changes_alone(record.rounds, label)
            counts.update(modes=1, now=moves)
            for flag in (Flag.WARMUP_NOT_STATIONARY, Flag.INPUTS_DIFFER):
                counts[flag] += (flag, label) in given
    print(
        f"{folder}: of {counts['modes']} modes {counts[Flag.WARMUP_NOT_STATIONARY]} have "
        f"{Flag.WARMUP_NOT_STATIONARY}, and {counts['now']} as it is decided now; "
        f"{counts[Flag.INPUTS_DIFFER]} have {Flag.INPUTS_DIFFER}"
    )


def main() -> None:
    """Print a line for each model and mode, and the rates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--records", type=Path, nargs="+", default=[])
    arguments = parser.parse_args()
    for folder in arguments.records:
        print_flags(folder)
    if arguments.records:
        return
    times = arguments.times
    print("| model | mode | ms a call | alone | beside load | planted, alone | beside load |")
    print("|---|---|---|---|---|---|---|")
    total = [0, 0, 0]
    for make in (dense, convolution):
        model = make()
        rng = np.random.default_rng(0)
        shape = (BATCH, *model.input_shape[1:])
        inputs = [tf.constant(rng.random(shape).astype(np.float32)) for _ in range(INPUTS)]
        for mode in MODES:
            call = lambda batch, model=model: model(batch, training=False)  # noqa: E731
            bound = ModeExecutable.bind(call, mode, inputs)
            planted = ModeExecutable.bind(call, mode, inputs)
            planted.run = keep_answers(planted.run)
            for _ in range(UNCOUNTED):
                bound.step()
            began = time.perf_counter()
            for _ in range(UNCOUNTED):
                bound.step()
            call_ms = 1e3 * (time.perf_counter() - began) / UNCOUNTED
            counts = []
            for beside in (0, os.cpu_count() or 1):
                with load(beside):
                    false, found = (
                        accusations(bound, inputs, times),
                        accusations(planted, inputs, 30),
                    )
                    counts.append((false, found))
            (alone, found), (loaded, found_loaded) = counts
            total = [total[0] + alone, total[1] + loaded, total[2] + times]
            cells = [f"{alone} of {times}", f"{loaded} of {times}"]
            cells += [f"{found} of 30", f"{found_loaded} of 30"]
            print(f"| {make.__name__} | {mode} | {call_ms:.2f} | {' | '.join(cells)} |", flush=True)
    rates = [f"{100 * count / total[2]:.2f} %" for count in total[:2]]
    print(f"\nFalse: {rates[0]} alone, {rates[1]} beside load.")


if __name__ == "__main__":
    main()
