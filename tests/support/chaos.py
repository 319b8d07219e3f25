"""Chaos: drivers of one sweep in one folder, and twice a second something is killed or damaged.

The trials are no-ops (`quick_trial.py`), or (`real`) the real command line with W&B's helper and a
scripted measuring process: then measuring processes and helpers are killed too. At the end the
sweep is resumed until done; then every trial must be final, everything acknowledged present,
nothing twice, and no process left. The same seed makes the same wishes, not the same timing.
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
from pathlib import Path

from drivers import DEFINITION
from ended import wait_until, working_in
from oracle import contradictions

from xla_sweeps.analysis.noise import is_anchor
from xla_sweeps.cli.check import examine
from xla_sweeps.schema.comparisons import is_aa_pair
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.outcomes import MAX_DEATHS

QUICK_SWEEP = str(Path(__file__).with_name("quick_sweep.py"))

REAL_SWEEP = str(Path(__file__).with_name("fake_sweep.py"))


def start(
    results: Path, trials: int, ack: Path, *, real: bool, ahead: int = 0
) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "IDS": str(trials), "ACK": str(ack), "BOARD": "quiet"}
    arguments = [QUICK_SWEEP, str(results), "2"]
    if real:
        definition = results.parent / "chaos.yaml"
        definition.write_text(DEFINITION % ", ".join(str(1 + number) for number in range(trials)))
        arguments = [REAL_SWEEP, "sweep", str(definition), f"results_dir={results}", "device=cpu"]
        arguments += [f"--ahead={ahead}"]
        leases = str(results.parent / "leases")
        environ |= {"FAKE_WORKER": "last:0.5", "XLA_SWEEPS_LEASES": leases}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environ,
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


def run(
    seconds: float,
    seed: int,
    *,
    trials: int,
    drivers: int = 2,
    real: bool = False,
    ahead: int = 0,
) -> dict[str, object]:
    """Chaos for so long, then resume and judge.

    Raises AssertionError where something does not hold.
    """
    source, done = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        results, ack = Path(folder) / "results", Path(folder) / "ack"
        begin = functools.partial(start, results, trials, ack, real=real, ahead=ahead)
        running = [begin() for _ in range(drivers)]
        restarts = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(source.uniform(0.05, 0.5))
            disturb(source, results, done)
            for index, process in enumerate(running):
                if process.poll() is not None:
                    running[index] = begin()
                    restarts += 1
        for process in running:
            process.kill()
            process.wait()
        wait_until(lambda: not ours(results), 60)
        left_alive = ours(results)
        for _ in range(20):
            resumed = begin()
            if resumed.wait() == 0:
                break
        loaded = Store(results).load().records
        records = {
            name: group
            for name, group in loaded.items()
            if not is_anchor(group[0]) and not is_aa_pair(*group[0].trial.modes)
        }
        acknowledged = Counter(ack.read_text().split("\n")) if ack.exists() else Counter[str]()
        acknowledged.pop("", None)
        stored = {
            f"{record.trial_id} {record.replicate}" for group in loaded.values() for record in group
        }
        final = [
            [str(record.status) for record in group].count("ok")
            # two real deaths are final as well, where they are recorded
            or int(sum(record.status == "crashed" for record in group) >= MAX_DEATHS)
            for group in records.values()
        ]
        ok = Counter(final)
        problems = [*examine(results).problems, *([] if real else contradictions(results))]
        report = {
            "seed": seed,
            "disturbances": dict(done),
            "driver restarts": restarts,
            "trials": len(records),
            "acknowledged": len(acknowledged),
            "lost": len(set(acknowledged) - stored),
            "measured twice": ok[2] + ok[3],
            "unfinished": trials - ok[1] - ok[2] - ok[3],
            "alive after 60 s": len(left_alive),
            "problems": len(problems),
        }
        print(report, flush=True)
        assert acknowledged, "no record was acknowledged: nothing could have been lost"
        assert not (set(acknowledged) - stored), "something acknowledged is lost"
        assert ok == {1: trials}, f"trials by number of ok records: {dict(ok)}"
        assert not left_alive, "processes were left"
        assert not problems, problems[:5]
        return report
