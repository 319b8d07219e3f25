"""Part of a sweep's time that `--ahead` leaves where stages take as long as on an H100.

    python -m benchmarks.long_stages [--trials 12] [--ahead 5] [--scale 1.0]

The scripted worker of the tests sleeps as long as a quick trial of two modes took there: 6.5 s to
import, 7 s to build, 15 s to trace and compile each mode, 5 s of blocks. Sleeping needs no
processor, so that N trials prepare ahead as on a machine with cores for them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

STAGES = {"load": 6.5, "set_up": 7.0, "prepare": 15.0}
"""Seconds of the worker's methods, before what they do."""

MEASURE_S = 5.0

SCALE = "LONG_STAGES_SCALE"


def command(*role: str) -> tuple[str, ...]:
    """This file in one of its roles."""
    return (sys.executable, str(Path(__file__).resolve()), *role)


def worker() -> tuple[str, ...]:
    """The worker, whose environment is not the trial's."""
    return command("worker", os.environ[SCALE])


def work() -> None:
    """Be the worker."""
    import fake_worker

    scale = float(sys.argv[2])
    del sys.argv[1:3]
    for name, seconds in STAGES.items():
        _delay(fake_worker.Scripted, name, seconds * scale)
    fake_worker.main()


def _delay(kind: Any, name: str, seconds: float) -> None:
    usual = getattr(kind, name)

    def slow(*given: Any) -> Any:
        time.sleep(seconds)
        return usual(*given)

    setattr(kind, name, slow)


def measure_trial() -> None:
    """Be the command of a trial."""
    import fake_trial
    import scripted

    from xla_sweeps.__main__ import main as run

    del sys.argv[1]
    vars(scripted)["FAKE_WORKER"] = worker()
    fake_trial.use_script()
    run()


def sweep() -> None:
    """Be the command of the sweep, which takes any number of trials ahead."""
    import fake_sweep
    import scripted

    from xla_sweeps.__main__ import main as run
    from xla_sweeps.cli import sweep as cli

    del sys.argv[1]
    vars(cli)["ahead_on"] = lambda slots, asked: (asked, "")
    vars(scripted)["FAKE_WORKER"] = worker()
    fake_sweep.use_scripts(*command("trial"))
    run()


def main() -> None:
    """Measure the sweep in turn, and with trials ahead."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--ahead", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of all stages")
    options = parser.parse_args()
    parameters = {
        "model": {"value": "mobilenet_v2"},
        "modes": {"value": ["graph", "xla"]},
        "effort.duplicates": {"value": 0},
        "batch_size": {"values": list(range(1, options.trials + 1))},
    }
    ahead = f"--ahead={options.ahead}"
    in_turn_s = 0.0
    ways: list[list[str]] = [[], [ahead]]
    for words in ways:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "stages.yaml")
            path.write_text(json.dumps({"method": "grid", "parameters": parameters}))
            own = {
                "FAKE_WORKER": f"last:{MEASURE_S * options.scale}",
                "XLA_SWEEPS_LEASES": f"{folder}/leases",
                SCALE: str(options.scale),
            }
            line = [*command("sweep"), "sweep", str(path), f"results_dir={folder}", "tracker=none"]
            began = time.monotonic()
            subprocess.run(
                [*line, "ui=quiet", *words],
                env={**os.environ, **own},
                stdout=subprocess.DEVNULL,
                check=True,
            )
            seconds = time.monotonic() - began
        in_turn_s = in_turn_s or seconds
        print(f"{' '.join(words) or 'in turn'}: {seconds:.0f} s, {seconds / in_turn_s:.2f}")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]
    roles = {"worker": work, "trial": measure_trial, "sweep": sweep}
    roles.get(sys.argv[1] if len(sys.argv) > 1 else "", main)()
