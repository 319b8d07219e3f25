"""The cost of a sweep for each trial: driver, launcher and store, with trials that do nothing.

Each figure is the time of many no-op trials through the driver, minus that of as many processes one
after the other in a bare loop, in the same run and in turn. A no-op trial
(`tests/support/quick_trial.py`) claims itself and saves one record, but measures nothing; the
loop's processes import the same modules and do nothing. So scheduling, supervision, claim and
record are counted, the start of an interpreter is not.

    python benchmarks/overhead.py local [--trials 200]
    python benchmarks/overhead.py ray
    python benchmarks/overhead.py slurm      # in the environment of tests/support/slurm_cluster.sh
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from driving import Notes
from quick_sweep import QUICK, quick_launch, task

from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.driver import Driver
from xla_sweeps.sweeps.launchers import Launcher
from xla_sweeps.sweeps.launchers.local import LocalLauncher

REPETITIONS = 3


def launcher_of(name: str, results: Path) -> Launcher:
    """The launcher, for one trial at a time if it has such an option."""
    if name == "local":
        return LocalLauncher(quick_launch(1))
    if name == "ray":
        from xla_sweeps.sweeps.launchers.ray import RayLauncher

        return RayLauncher(quick_launch())
    from xla_sweeps.sweeps.launchers.slurm import SlurmLauncher

    asked = [("mem", "10"), ("gres", "none"), ("array", "%1")]
    return SlurmLauncher(quick_launch(results=results, slurm=asked))


def through_driver(name: str, results: Path, trials: int) -> float:
    """Seconds of trials through the driver, without the start of the launcher."""
    tasks = [task(f"t{number:06d}", "ok", results) for number in range(trials)]
    for one in tasks:
        one.wanted = 1
        if name != "local":
            one.trial_ids = ()
    launcher = launcher_of(name, results)
    started = time.monotonic()
    outcome = Driver(launcher, Store(results), Notes(), extra=(), logs=results / "logs").run(tasks)
    seconds = time.monotonic() - started
    assert outcome.counts == {"ok": trials}, outcome.counts
    return seconds


def bare(trials: int) -> float:
    """Seconds of as many processes that do nothing, one after the other."""
    code = f"import sys; sys.path.insert(0, {str(Path(QUICK[-1]).parent)!r}); import quick_trial"
    started = time.monotonic()
    for _ in range(trials):
        subprocess.run([sys.executable, "-c", code], check=True)
    return time.monotonic() - started


def main() -> None:
    """Measure both in turn, and print the row of the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("launcher", choices=("local", "ray", "slurm"))
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    extra = []
    for repetition in range(REPETITIONS):
        with tempfile.TemporaryDirectory() as folder:
            ours = through_driver(options.launcher, Path(folder), options.trials)
        loop = bare(options.trials)
        extra.append(1e3 * (ours - loop) / options.trials)
        print(
            f"{repetition}: driver {ours:.2f} s, bare loop {loop:.2f} s, "
            f"{extra[-1]:.1f} ms more a trial",
            flush=True,
        )
    print(
        f"{options.launcher}: {statistics.median(extra):.1f} ms more a trial "
        f"(median of {REPETITIONS})"
    )


if __name__ == "__main__":
    main()
