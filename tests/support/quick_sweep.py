"""A sweep of quick trials with the real driver and launcher, in a process that tests can kill.

Started as `python quick_sweep.py RESULTS LANES ID=HOW[*REPLICATES] ...`; the exit code is that of
`xla-sweeps sweep`. With $IDS=N there are N more trials, t000000 and on, that are all `ok`, and
$AHEAD of each slot prepare ahead. Prints `counts {...}` at the end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faults  # noqa: F401  (which it may be made to have)

from xla_sweeps.report.terminal.progress import SweepProgress
from xla_sweeps.store.rows import load_runs
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.compose import Task
from xla_sweeps.sweeps.driver import Driver
from xla_sweeps.sweeps.launchers import LauncherRequest
from xla_sweeps.sweeps.launchers.local import LocalLauncher
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.sweeps.plan import assign_records
from xla_sweeps.system.devices import Device

QUICK = (sys.executable, str(Path(__file__).with_name("quick_trial.py")))
CPU = Device(kind="cpu", index=0, name="d")


def task(trial_id: str, how: str, results: Path, replicates: int = 1) -> Task:
    return Task(
        words=(f"id={trial_id}", f"do={how}", f"results_dir={results}"),
        key=trial_id,
        model="m",
        effort="quick",
        replicates=replicates,
        request_id=trial_id,
        trial_ids=(trial_id,),
    )


def tasks_of(results: Path, arguments: list[str]) -> list[Task]:
    tasks = []
    for argument in arguments:
        trial_id, _, how = argument.partition("=")
        how, _, replicates = how.partition("*")
        tasks.append(task(trial_id, how, results, int(replicates or 1)))
    return tasks + [
        task(f"t{number:06d}", "ok", results) for number in range(int(os.environ.get("IDS", "0")))
    ]


def slots_of(count: int) -> list[Slot]:
    return [Slot(name=f"cpu:{number}", device=CPU) for number in range(count)]


def quick_launch(
    slots: int = 0,
    *,
    results: Path = Path(),
    warn: Callable[[str], object] = print,
    command: Sequence[str] = QUICK,
    **options: Any,
) -> LauncherRequest:
    return LauncherRequest(
        options=options, results_dir=results, slots=slots_of(slots), warn=warn, command=command
    )


def main() -> int:
    results, slots, *arguments = sys.argv[1:]
    store = Store(Path(results))
    store.check_writable()
    tasks = tasks_of(Path(results), arguments)
    assign_records(tasks, load_runs(store), software={}, retry=())
    with SweepProgress("quick", [], ui=os.environ.get("BOARD", "plain")) as board:
        ahead = int(os.environ.get("AHEAD", "0"))
        launcher = LocalLauncher(quick_launch(int(slots), ahead=ahead))
        outcome = Driver(
            launcher, store, board, extra=(), logs=Path(results) / "logs" / "sweeps"
        ).run(tasks)
    print("counts", json.dumps(outcome.counts), flush=True)
    if outcome.signal_number:
        return 128 + outcome.signal_number
    return 3 if outcome.left or outcome.gave_up or outcome.broken else 0


def run() -> None:
    """Run it, and end the process."""
    sys.exit(main())


if __name__ == "__main__":
    run()
