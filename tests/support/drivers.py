"""Several drivers on one sweep at once, with the real command line.

Real Hydra, W&B's helper and the end of a trial; only the measuring process is scripted. In the end
every trial must be measured once, no death recorded, and every driver done (exit code 0).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from xla_sweeps.store.store import Store

SWEEP = Path(__file__).with_name("fake_sweep.py")

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


def race(
    folder: Path, *, drivers: int, trials: int, seconds: float, words: tuple[str, ...] = ()
) -> dict[str, object]:
    """One round: start the drivers, wait for them, and count what must not be.

    Args:
        folder: for the definition and the results.
        drivers: how many there are.
        trials: of the sweep.
        seconds: that a trial measures.
        words: further arguments of each driver.
    """
    definition, results = folder / "race.yaml", folder / "results"
    definition.write_text(DEFINITION % ", ".join(str(1 + number) for number in range(trials)))
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WANDB_")},
        "FAKE_WORKER": f"last:{seconds}",
        "XLA_SWEEPS_LEASES": str(folder / "leases"),
        "HOME": str(folder),
    }
    given = [str(definition), f"results_dir={results}", "device=cpu", "ui=plain", *words]
    running = [
        subprocess.Popen(
            [sys.executable, str(SWEEP), "sweep", *given],
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
    records = Store(results).load().records
    statuses = [[str(record.status) for record in group] for group in records.values()]
    wanted = Counter({"ok": 1})
    return {
        "codes": sorted(driver.returncode for driver in running),
        "deaths": sum(group.count("crashed") for group in statuses),
        "doubled": sum(group.count("ok") > 1 for group in statuses),
        "lost": trials - sum("ok" in group for group in statuses),
        "other records": sum((sum((Counter(g) - wanted).values()) for g in statuses), 0),
        "tracebacks": sum("Traceback" in output for output in outputs),
        "output": outputs,
    }


def is_clean(result: dict[str, object]) -> bool:
    """True if no trial of a round died, was lost or was measured twice."""
    counts = ("deaths", "doubled", "lost", "other records", "tracebacks")
    codes = result["codes"]
    return not any(result[name] for name in counts) and isinstance(codes, list) and not any(codes)
