"""Real Ray: a cluster of nodes on this machine with accelerator types of their own.

One is killed in the middle.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import driving
import pytest
from driving import Notes, counted
from ended import wait_for
from programs import run_program
from quick_sweep import QUICK, quick_launch, task

from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.sweeps.compose import Task
from xla_sweeps.sweeps.launchers.job import End, Job
from xla_sweeps.sweeps.launchers.ray import RayLauncher, keep_log
from xla_sweeps.sweeps.outcomes import Outcome

kinds = ("pytest.PytestUnraisableExceptionWarning", "ResourceWarning", "FutureWarning")

pytestmark = pytest.mark.filterwarnings(
    *(f"ignore::{kind}" for kind in (*kinds, "DeprecationWarning"))
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with a T4 and a node with an A100, all ended afterwards."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        head, node = (
            {"num_cpus": 2, "num_gpus": 1, "resources": {f"accelerator_type:{kind}": 1}}
            for kind in ("T4", "A100")
        )
        made = Cluster(initialize_head=True, head_node_args={**head, "include_dashboard": False})
        try:
            made.add_node(**node)
            yield made
        finally:
            made.shutdown()


def ray_task(name: str, how: str, results: Path, accelerator: str | None = None) -> Task:
    made = task(name, how, results)
    made.trial_ids, made.accelerator = (), accelerator
    return made


class Waiting(Notes):
    """Notes where trials run that wait, and not those that die by themselves."""

    def running(self, slot: str, what: str, log: Path) -> None:
        if what.startswith("id=u"):
            super().running(slot, what, log)


def drive(
    address: str, results: Path, tasks: list[Task], notes: Notes | None = None
) -> tuple[Outcome, Notes]:
    launcher = RayLauncher(quick_launch(address=address, warn=pytest.fail))
    return driving.drive(results, launcher=launcher, notes=notes, tasks=tasks)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_stop_ends_the_running_trials_and_leaves_no_process(cluster: Any, tmp_path: Path) -> None:
    warnings: list[str] = []
    begun = tmp_path / "begun"
    begun.touch()
    command = ["env", f"XLA_SWEEPS_FP_LOG={begun}", *QUICK]
    launch = quick_launch(address=cluster.address, warn=warnings.append, command=command, ahead=1)
    launcher = RayLauncher(launch)
    assert (launcher.free("A100"), launcher.free("H100"), launcher.free("H100")) == (1000,) * 3
    assert warnings == [
        "--ahead=1 is 0 here: waiting trials keep GPU memory",
        "no node of the cluster has an H100 yet; its trials wait",
    ]
    words = [ray_task(f"t{number}", "sleep", tmp_path).words for number in range(5)]
    jobs = [Job(arguments=each, log=tmp_path / f"{place}.log") for place, each in enumerate(words)]
    futures = [launcher.submit(job) for job in jobs]
    wait_for(lambda: sum(bool(launcher.slot_of(future)) for future in futures) == 2)
    wait_for(lambda: begun.read_text().split().count("claim.after") == 2)
    launcher.stop(now=False)
    ended = [future.result(300) for future in futures]
    assert {result.how for result in ended} == {End.STOPPED}
    assert sum(bool(result.records) for result in ended) == 2, "what ran was saved"
    launcher.close()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_no_trial_prepares_ahead_where_nodes_differ(cluster: Any) -> None:
    warnings: list[str] = []
    node = cluster.add_node(num_cpus=3)
    try:
        launcher = RayLauncher(quick_launch(address=cluster.address, warn=warnings.append, ahead=1))
        launcher.close()
    finally:
        cluster.remove_node(node)
    assert warnings == ["--ahead=1 is 0 here: nodes differ in their number of cores"]


PRINT_THREADS = """
import os
{made}
from xla_sweeps.sweeps.launchers.ray import given_variables
print(given_variables().get("OMP_NUM_THREADS"))
"""


@pytest.mark.slow
def test_a_task_gets_no_number_of_threads_and_no_current_folder_from_ray(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("xla_sweeps", "msgspec", "yaml"):  # which the worker has not imported yet
        (tmp_path / f"{name}.py").write_text("raise ImportError('planted')")
    script = "import os, sys; sys.exit(os.environ.get('OMP_NUM_THREADS', 'none given'))"
    command = [sys.executable, "-c", script]
    launch = quick_launch(address=cluster.address, warn=pytest.fail, command=command)
    launcher = RayLauncher(launch)
    log = tmp_path / "job.log"
    launcher.submit(Job(arguments=(), log=log)).result(300)
    launcher.close()
    assert log.read_text() == "none given\n"


@pytest.mark.slow
def test_trials_run_on_their_nodes_are_copied_back_and_survive_a_node(
    cluster: Any, tmp_path: Path
) -> None:  # the last: it takes a node away
    """A node dies while its trial runs; so does a trial; the rest goes on, each trial once."""
    notes, gate = Waiting(), tmp_path / "gate"

    def kill_a_node() -> None:
        (victim,) = cluster.worker_nodes
        wait_for(
            lambda: any(victim.node_id.startswith(one.rpartition(":")[2]) for one in notes.where)
        )
        cluster.remove_node(victim, allow_graceful=False)
        gate.touch()  # only now do the other trials end

    killer = threading.Thread(target=kill_a_node)
    killer.start()
    tasks = [
        ray_task(f"t{number}", "ok", tmp_path, kind) for number, kind in enumerate(("T4", "A100"))
    ]
    waiting = [ray_task(f"u{number}", "gate", tmp_path) for number in range(2)]
    for one in waiting:
        one.words += (f"until={gate}",)
    tasks += [*waiting, ray_task("dead", "die", tmp_path)]
    outcome, _ = drive(cluster.address, tmp_path, tasks, notes)
    killer.join()
    assert outcome.counts == {"ok": 4, "died": 1}
    assert counted(tmp_path) == {f"{name}{number}": {"ok": 1} for name in "tu" for number in (0, 1)}
    assert "lost" in {end for _, end in notes.ends}
    assert Counter(notes.ends)["dead", "died"] == 2
    assert "died 2 times" in outcome.gave_up["dead"]
    assert (tmp_path / "logs").is_dir(), "what the trials printed came home"


@pytest.mark.parametrize("given", ["3", None])
def test_a_nodes_own_number_of_threads_is_kept(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    made = ""
    if given:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    else:
        made = "os.environ['OMP_NUM_THREADS'] = '1'"
    done = run_program(sys.executable, "-c", PRINT_THREADS.format(made=made))
    assert done.stdout.strip() == str(given)


def test_the_output_of_a_node_is_kept_where_that_is_possible(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    keep_log("one\nthe last\n\n", tmp_path / "file" / "job.log")
    keep_log("one\nthe last\n\n", tmp_path / "made" / "job.log")
    assert (tmp_path / "made" / "job.log").read_text() == "one\nthe last\n\n"


@pytest.mark.parametrize("given", ["--address", "RAY_ADDRESS"])
def test_an_absent_cluster_is_reported_in_one_line(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1" if given == "RAY_ADDRESS" else "127.0.0.1:2")
    options: dict[str, Any] = {"address": "127.0.0.1:1"} if given == "--address" else {}
    with pytest.raises(XlaSweepsError, match=f"{given}=127.0.0.1:1: no Ray cluster answers"):
        RayLauncher(quick_launch(**options))
