"""The bandwidth that the fusion example achieves, against a loop in C that does the same.

    python benchmarks/fusion_bandwidth.py [--batch 1] [--sides 256 1024 4096] [--repetitions 20]

`sum(x + y * z)` reads three arrays and writes next to nothing: in one pass it moves 12 bytes for
each element. The loop in C is compiled here (`cc -O3 -march=native -ffast-math -fopenmp`), and is
run with the same number of threads; beside it STREAM's triad (McCalpin 1995), `a = b + 3 * c`. All
take turns, and the best of each counts, as in STREAM.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.backends.tensorflow import models, modes
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.modes import Mode
from xla_sweeps.system.devices import usable_cores
from xla_sweeps.worker import timing

MODES = (Mode.EAGER, Mode.GRAPH, Mode.XLA)

SOURCE = """
#include <stddef.h>
float fused(const float *x, const float *y, const float *z, size_t n) {
    float total = 0;
    #pragma omp parallel for simd reduction(+:total)
    for (size_t i = 0; i < n; i++) total += x[i] + y[i] * z[i];
    return total;
}
void triad(float *a, const float *b, const float *c, size_t n) {
    #pragma omp parallel for simd
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0f * c[i];
}
"""


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sides", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_args()
    library = _compiled()
    names = [*map(str, MODES), "C loop", "triad"]
    print(f"| side | MiB | {' | '.join(f'{name} GB/s' for name in names)} | xla / C loop |")
    print("|---" * (len(names) + 3) + "|")
    for side in options.sides:
        steps, arrays = _steps(library, side, options.batch)
        best = dict.fromkeys(steps, float("inf"))
        for _ in range(options.repetitions + 1):
            for name, step in steps.items():
                best[name] = min(best[name], _seconds(step))
        speed = {name: arrays * 1e-9 / seconds for name, seconds in best.items()}
        cells = " | ".join(f"{speed[name]:.2f}" for name in names)
        ratio = speed[str(Mode.XLA)] / speed["C loop"]
        print(f"| {side} | {arrays / 2**20:.0f} | {cells} | {ratio:.2f} |", flush=True)


def _steps(
    library: ctypes.CDLL, side: int, batch: int
) -> tuple[dict[str, Callable[[], object]], int]:
    """The timed functions, and the bytes that each moves."""
    overrides = ["model=fusion_example", f"resolution={side}", f"batch_size={batch}", "device=cpu"]
    trial = settings_of(compose_config(overrides)).trial
    built = models.build(trial.model, precision=trial.precision, seed=0)
    inputs = draw(built.inputs, batch, np.random.default_rng(0))
    steps: dict[str, Callable[[], object]] = {}
    for mode in MODES:
        executable = modes.ModeExecutable.bind(built.call, mode, [inputs])
        executable.first_call_s()
        steps[str(mode)] = executable.step
    x, y, z = (np.ascontiguousarray(array) for array in inputs)
    a, pointers = np.empty_like(x), [array.ctypes.data for array in (x, y, z)]
    steps["C loop"] = lambda: library.fused(*pointers, x.size)
    steps["triad"] = lambda: library.triad(a.ctypes.data, *pointers[:2], x.size)
    keep.append((inputs, x, y, z, a))
    return steps, 3 * x.nbytes


keep: list[object] = []
"""Arrays whose addresses C has."""


def _compiled() -> ctypes.CDLL:
    os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores()))
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "loop.c"), Path(folder, "loop.so")
        source.write_text(SOURCE)
        flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, "-o", str(library), str(source)], check=True)
        loaded = ctypes.CDLL(str(library))
    pointer = ctypes.c_void_p
    loaded.fused.argtypes = [pointer, pointer, pointer, ctypes.c_size_t]
    loaded.fused.restype = ctypes.c_float
    loaded.triad.argtypes = [pointer, pointer, pointer, ctypes.c_size_t]
    loaded.triad.restype = None
    return loaded


def _seconds(step: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    with timing.garbage_collection_off():
        step()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
