"""Several drivers on one sweep in one folder at once: they race, or are killed in a chaos.

With the real command line: real Hydra, W&B's helper and the end of a trial; only the measuring
process is scripted. In a chaos that is not `real`, trials are no-ops (`quick_trial.py`). The same
seed makes the same wishes, not the same timing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from ended import wait_until, working_in
from paths import SUPPORT

from xla_sweeps.analysis.noise import is_anchor
from xla_sweeps.cli.check import examine
from xla_sweeps.schema.comparisons import is_aa_pair
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.store import Store

SWEEP, QUICK_SWEEP = (str(SUPPORT / name) for name in ("fake_sweep.py", "quick_sweep.py"))

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


def start(
    results: Path, trials: int, ack: Path, *, real: bool, ahead: int
) -> subprocess.Popen[bytes]:
    command: list[str] = [sys.executable, QUICK_SWEEP, str(results), "2"]
    environ: Mapping[str, str] = os.environ
    if real:
        command, environ = driver_of(results, trials=trials, seconds=0.5)
        command.append(f"--ahead={ahead}")
    return subprocess.Popen(
        command,
        env={**environ, "IDS": str(trials), "ACK": str(ack), "BOARD": "quiet"},
        cwd=results.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def ours(results: Path) -> list[int]:
    """Every process that works for this folder: all inherit the drivers' working directory."""
    return working_in(results.parent)


def disturb(source: random.Random, results: Path, done: Counter[str]) -> None:
    """One disturbance."""
    pids = ours(results)
    what = source.choice(["kill", "kill", "freeze", "term", "int", "temporary", "damage-cache"])
    done[what] += 1
    with contextlib.suppress(OSError):
        if what in ("kill", "term", "int") and pids:
            number = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}[what]
            os.kill(source.choice(pids), number)
        elif what == "freeze" and pids:
            pid = source.choice(pids)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(source.uniform(0.1, 1.0))
            os.kill(pid, signal.SIGCONT)
        elif what == "temporary":
            for path in (results / "records").glob("*/.*.tmp"):
                path.write_bytes(path.read_bytes()[:10])
                break
        elif what == "damage-cache":
            (results / "cache" / "rows.parquet").write_bytes(b"{")


def disturb_drivers(seconds: float, seed: int, *, trials: int, real: bool, ahead: int) -> None:
    """Chaos by two drivers for so long, then resume until done.

    Twice a second something is killed or damaged; of `real` trials also measuring processes and
    helpers. Then every trial is final, everything acknowledged present, nothing twice, and no
    process left. Raises AssertionError where one of these is not so.
    """
    source, done = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        results, ack = Path(folder) / "results", Path(folder) / "ack"
        begin = functools.partial(start, results, trials, ack, real=real, ahead=ahead)
        running = [begin(), begin()]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(source.uniform(0.05, 0.5))
            disturb(source, results, done)
            for index, process in enumerate(running):
                if process.poll() is not None:
                    running[index] = begin()
                    done["restarted driver"] += 1
        for process in running:
            process.kill()
            process.wait()
        assert wait_until(lambda: not ours(results), 60), "processes were left"
        for _ in range(20):
            if begin().wait() == 0:
                break
        loaded = Store(results).load().records.values()
        acknowledged = {*ack.read_text().splitlines()} if ack.exists() else set()
        print({"seed": seed, "acknowledged": len(acknowledged), **done}, flush=True)
        assert acknowledged, "no record was acknowledged: nothing could have been lost"
        every = [record for group in loaded for record in group]
        stored = {f"{record.trial_id} {record.replicate}" for record in every}
        if real:  # which may measure the same replicate of a trial again
            stored = {f"{one.trial_id} {one.replicate} {one.started_at}" for one in every}
        assert acknowledged <= stored, "something acknowledged is lost"
        final = Counter(
            [record.status for record in group].count(Status.OK)
            for group in loaded
            if not is_anchor(group[0]) and not is_aa_pair(*group[0].trial.modes)
        )
        assert final == {1: trials}, f"trials by number of ok records: {dict(final)}"
        problems = examine(results).problems
        assert not problems, problems[:5]
