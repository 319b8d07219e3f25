"""Several drivers on one sweep at once, with the real command line.

Real Hydra, W&B's helper and the end of a trial; only the measuring process is scripted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from paths import SUPPORT

from xla_sweeps.store.store import Store

SWEEP = str(SUPPORT / "fake_sweep.py")

DEFINITION = """
method: grid
parameters:
  model: {value: mobilenet_v2}
  effort: {value: quick}
  effort.duplicates: {value: 0}
  modes: {value: [graph, xla]}
  resolution: {value: 32}
  batch_size: {values: [%s]}
"""

WITHIN_S = 600.0


def driver_of(results: Path, *, trials: int, seconds: float) -> tuple[list[str], Mapping[str, str]]:
    """The command of a driver, and its variables.

    Args:
        results: the results folder; the definition is written beside it.
        trials: of the sweep.
        seconds: that a trial measures.
    """
    definition = results.with_name("sweep.yaml")
    definition.write_text(DEFINITION % ", ".join(map(str, range(1, trials + 1))))
    words = [str(definition), f"results_dir={results}", "device=cpu", "ui=plain"]
    own = {
        "FAKE_WORKER": f"last:{seconds}",
        "XLA_SWEEPS_LEASES": str(results.with_name("leases")),
        "HOME": str(results.parent),
    }
    return [sys.executable, SWEEP, "sweep", *words], {**os.environ, **own}


def race(folder: Path, *, drivers: int, words: tuple[str, ...] = ()) -> None:
    """Start the drivers with further words; all are done once three trials are measured, once each.

    Raises AssertionError where a driver is not, or where a record is not of a trial that is ok.
    """
    results, trials = folder / "results", 3
    command, environ = driver_of(results, trials=trials, seconds=2.0)
    running = [
        subprocess.Popen(
            [*command, *words],
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(drivers)
    ]
    try:
        outputs = [driver.communicate(timeout=WITHIN_S)[0] for driver in running]
    finally:
        for driver in running:
            driver.kill()
    assert [driver.returncode for driver in running] == [0] * drivers, outputs
    assert not any("Traceback" in output for output in outputs), outputs
    records = Store(results).load().records.values()
    statuses = [[str(record.status) for record in group] for group in records]
    assert statuses == [["ok"]] * trials, (statuses, outputs)
