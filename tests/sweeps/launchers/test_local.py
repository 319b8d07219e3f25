"""Jobs of one device prepare beside each other, and each measures alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from driving import Notes, drive
from paths import SUPPORT
from quick_sweep import CPU, quick_launch
from slurm_cluster import cluster, needs_slurm  # noqa: F401
from spans import measured, overlaps, ran

from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.record import Record, wall_s
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.launchers import slots as slots_module
from xla_sweeps.sweeps.launchers.local import LocalLauncher
from xla_sweeps.sweeps.launchers.slots import Slot, ahead_on, places
from xla_sweeps.system.devices import Device
from xla_sweeps.system.leases import LEASES, Leases, lease_names, whole_replicate
from xla_sweeps.system.process import children

DEFINITION = """
method: grid
parameters:
  model: {value: mobilenet_v2}
  modes: {value: [graph, xla]}
  effort.duplicates: {value: 0}
  batch_size: {values: SIZES}
"""


SLURM = ("--slurm", "mem=8200", "--slurm", "cpus-per-task=2", "--slurm", "gres=none")


def swept(
    folder: Path,
    *words: str,
    count: int = 2,
    seconds: int = 1,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[Record]:
    """The records of some trials by the real command line, each measured so long and more.

    The words are the launcher and its options, by default those of this machine.
    """
    sizes = str([*range(1, count + 1)])
    (folder / "s.yaml").write_text(DEFINITION.replace("SIZES", sizes))
    given = ["s.yaml", "results_dir=results", "tracker=none", "ui=plain", *words]
    given += [] if "--launcher" in words else ["device=cpu"]
    scripted = {"FAKE_WORKER": f"last:{seconds}", LEASES: str(folder / "leases")}
    with subprocess.Popen(
        [sys.executable, str(SUPPORT / "fake_sweep.py"), "sweep", *given],
        cwd=folder,
        env={**os.environ, **scripted},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as sweep:
        try:
            meanwhile()
            output, _ = sweep.communicate(timeout=300)
        finally:
            sweep.kill()
    assert sweep.returncode == 0, output
    return [one for group in Store(folder / "results").load().records.values() for one in group]


@pytest.mark.parametrize(
    "words",
    [
        ("--ahead", "3"),
        pytest.param(
            (*("--launcher", "slurm", "--ahead", "1", "--chunk", "2"), *SLURM), marks=needs_slurm
        ),
    ],
)
def test_trials_prepare_beside_each_other_and_each_measures_alone(
    words: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "slurm" in words:
        request.getfixturevalue("cluster")
    records = swept(tmp_path, *words)
    assert len(records) == 2
    assert overlaps(map(ran, records))
    assert not overlaps(map(measured, records))
    waited = [record.seconds["turns"] for record in records]
    assert max(waited) > 1, "for the one that measured"
    spans = [ended - begun for begun, ended in map(ran, records)]
    for record, span_s, turns_s in zip(records, spans, waited, strict=True):
        assert wall_s(record) == pytest.approx(span_s - turns_s), "as alone: forecasts count it"
    marked = [flag.flag for record in records for flag in record.flags]
    assert marked.count(Flag.COMPILED_AHEAD) == 2


def test_a_trial_of_several_replicates_shares_a_node_of_ray_between_them(tmp_path: Path) -> None:
    """A node knows of no other records, so that one process measures all replicates there."""
    words = ("--launcher", "ray", "--ahead", "1", "effort.replicates=2")
    records = swept(tmp_path, *words)
    assert Counter(record.replicate for record in records) == {0: 2, 1: 2}
    assert overlaps(map(ran, records))
    assert not overlaps(map(measured, records))


@pytest.mark.exhaustive  # daily: a worker of two in one trial is killed
def test_a_worker_that_dies_while_it_waits_for_its_turn_costs_its_own_trial_alone(
    tmp_path: Path,
) -> None:
    def kill_one_that_waits() -> None:
        """Kill it while the other one is measured: they change places within seconds."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            time.sleep(0.05)
            logs = [log.read_text() for log in tmp_path.glob("results/logs/sweeps/*/*.log")]
            stages = {log: log.splitlines()[-1].split()[1] for log in logs if log.strip()}
            waiting = [log for log in stages if stages[log] == "wait"]
            started = re.findall(r" start .*-(\d+)\.log", "".join(waiting))
            if started and "measure" in stages.values():
                (worker,) = children(int(started[0]))
                os.kill(worker, signal.SIGKILL)
                return

    records = swept(tmp_path, "--ahead", "1", count=4, seconds=4, meanwhile=kill_one_that_waits)
    assert Counter(record.status for record in records) == {Status.OK: 4, Status.KILLED: 1}
    (killed,) = (record for record in records if record.status is Status.KILLED)
    assert not killed.rounds
    statuses = {outcome.status for outcome in killed.modes.values()}
    assert statuses == {Status.SKIPPED}, "none of them was its cause"


def test_a_device_that_fails_gets_no_more_jobs_in_any_of_its_places(tmp_path: Path) -> None:
    launcher = LocalLauncher(quick_launch(2, ahead=1))
    assert launcher.slots() == ["cpu:0", "cpu:1", "cpu:0+1", "cpu:1+1"]
    assert launcher.free(None) == 4
    assert launcher.drain("cpu:1+1")
    assert launcher.slots() == ["cpu:0", "cpu:0+1"]
    assert not launcher.drain("cpu:0")
    notes = Notes()
    jobs = [f"t{number}=die" for number in range(20)]
    outcome, _ = drive(tmp_path, *jobs, launcher=launcher, notes=notes)
    assert outcome.broken.startswith("cpu:0 failed 3 times in a row")
    assert len(notes.ends) <= 4


def test_another_command_gets_its_turn_between_the_trials_of_a_sweep(tmp_path: Path) -> None:
    """New trials wait until it has had the device, however many there are."""
    ended: list[int] = []

    class Watching(Notes):
        def show_end(self, *given: str) -> None:
            super().show_end(*given)
            if not whole.take() and not turn.take():
                ended.append(len(self.ends))
                whole.close()
                turn.close()

    asked = (whole_replicate(CPU), lease_names(CPU))  # in a trial's order
    whole, turn = (Leases(names, holder="another command") for names in asked)
    with whole, turn:
        jobs = [f"t{number}=slow" for number in range(6)]
        drive(tmp_path, *jobs, launcher=LocalLauncher(quick_launch(1, ahead=1)), notes=Watching())
    assert ended
    assert ended[0] <= 3


@pytest.mark.parametrize(
    ("slots", "asked", "expected", "reason"),
    [
        ([Slot(name="cpu", device=CPU, cores=(0, 1))], 1, 1, ""),
        ([Slot(name="cpu", device=CPU, cores=(0, 1))], 5, 1, "2 cores"),
        ([Slot(name="cpu", device=CPU, cores=(0,))], 1, 0, "1 core"),
        ([Slot(name="cpu", device=CPU, cores=tuple(range(64)))], 9, 4, "20 GiB of free memory"),
        (
            [Slot(name="gpu:0", device=Device(kind="gpu", index=0, name="d"))],
            1,
            0,
            "waiting trials keep GPU memory",
        ),
    ],
)
def test_cores_and_memory_limit_how_many_prepare_ahead(
    slots: list[Slot], asked: int, expected: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots_module, "free_memory_bytes", lambda: 20 * 2**30)
    line = f"--ahead={asked} is {expected} here: {reason}" if reason else ""
    assert ahead_on(slots, asked) == (expected, line)
    assert len(places(slots, expected)) == len(slots) * (1 + expected)


def test_none_prepares_ahead_where_there_are_no_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEASES, "/proc/nowhere")
    ahead, reason = ahead_on([Slot(name="cpu", device=CPU, cores=(0, 1))], 1)
    assert ahead == 0
    assert "is 0 here: the leases of devices are off" in reason
