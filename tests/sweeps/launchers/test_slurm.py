"""Real Slurm from the distribution's packages: two nodes with null devices for GPUs."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections import Counter
from concurrent.futures import Future
from pathlib import Path

import driving
import pytest
from commands import forked
from driving import Notes, counted, wait_for_claims
from ended import wait_for
from programs import run_program
from quick_sweep import quick_launch, task
from slurm_cluster import CLUSTER, cluster, needs_slurm  # noqa: F401

from xla_sweeps.cli.main import run
from xla_sweeps.errors import ConfigError
from xla_sweeps.sweeps.launchers import slurm
from xla_sweeps.sweeps.launchers.job import End, Ended, Job
from xla_sweeps.sweeps.launchers.slurm import SlurmLauncher, script_of
from xla_sweeps.sweeps.launchers.slurm_task import write_end
from xla_sweeps.sweeps.outcomes import Outcome


@pytest.fixture(autouse=True)
def polled_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll Slurm's queue five times a second."""
    monkeypatch.setattr(slurm, "POLL_S", 0.2)


def launcher(
    results: Path, *, chunk: int = 1, ahead: int = 0, cores: int = 1, **options: str
) -> SlurmLauncher:
    asked = {"mem": "10", "cpus-per-task": str(cores), **options}.items()
    launch = quick_launch(results=results, chunk=chunk, ahead=ahead, slurm=list(asked))
    return SlurmLauncher(launch)


def drive(
    results: Path, *arguments: str, chunk: int = 1, notes: Notes | None = None, **options: str
) -> tuple[Outcome, Notes]:
    engine = launcher(results, chunk=chunk, ahead=0, cores=1, **options)
    return driving.drive(results, *arguments, launcher=engine, notes=notes)


def job(results: Path, trial_id: str, how: str, accelerator: str | None = None) -> Job:
    words = task(trial_id, how, results).words
    return Job(arguments=words, log=results / f"{trial_id}.log", accelerator=accelerator)


@needs_slurm
@pytest.mark.usefixtures("cluster")
def test_an_array_runs_each_trial_once_several_in_a_task_and_one_that_dies_twice(
    tmp_path: Path,
) -> None:
    outcome, notes = drive(tmp_path, "dead=die", *(f"t{n}=ok" for n in range(7)), chunk=2)
    assert outcome.counts == {"ok": 7, "died": 1}
    assert counted(tmp_path) == {f"t{number}": {"ok": 1} for number in range(7)}
    first, again = sorted((tmp_path / "slurm").glob("*/*.sh"))
    assert "#SBATCH --array=0-3\n" in first.read_text(), "one array for all of them"
    assert "#SBATCH --array=0-0\n" in again.read_text()
    assert Counter(notes.ends)["dead", "died"] == 2
    assert "died 2 times" in outcome.gave_up["dead"]


@needs_slurm
@pytest.mark.usefixtures("cluster")
@pytest.mark.exhaustive  # daily: the script that asks for a kind
def test_trials_go_to_the_kind_of_gpu_that_they_ask_for(tmp_path: Path) -> None:
    engine = launcher(tmp_path)
    kinds = {"a": "A100", "b": "V100", "c": "A100", "d": "V100"}
    try:
        ended = [engine.submit(job(tmp_path, name, "ok", kind)) for name, kind in kinds.items()]
        assert [future.result(300).slot for future in ended] == ["n0", "n1"] * 2
    finally:
        engine.close()


@needs_slurm
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("names", ["a", "ab"])
def test_preempted_trials_are_saved_requeued_and_finished(names: str, tmp_path: Path) -> None:
    """One in a task, or two of which one prepares ahead."""
    several = len(names)
    memory = str(4100 * several)
    engine = launcher(tmp_path, chunk=several, ahead=several - 1, cores=several, mem=memory)
    try:
        futures = [engine.submit(job(tmp_path, name, "sleep+ok")) for name in names]
        wait_for_claims(tmp_path, *names)
        urgent = ["--partition=vip", "--nodes=2", "--gres=gpu:2", "--exclusive"]
        run_program("sbatch", *urgent, "--output=/dev/null", "--wrap", "sleep 1")
        for future in futures:
            assert future.result(300).how is End.FINISHED
            assert [Path(path).name for path in future.result().paths] == ["0.json", "1.json"]
    finally:
        engine.close()
    assert counted(tmp_path) == {name: {"interrupted": 1, "ok": 1} for name in names}


@needs_slurm
@pytest.mark.usefixtures("cluster")
@pytest.mark.exhaustive  # daily: a preempted task is saved and requeued in the same way
def test_near_its_time_limit_a_task_saves_and_requeues_itself(tmp_path: Path) -> None:
    outcome, _ = drive(tmp_path, "a=sleep+ok", time="1", signal="B:USR1@57")
    assert outcome.counts == {"ok": 1}
    assert counted(tmp_path) == {"a": {"interrupted": 1, "ok": 1}}


@needs_slurm
@pytest.mark.usefixtures("cluster")
def test_a_stop_saves_the_running_trials_and_cancels_the_waiting_ones(tmp_path: Path) -> None:
    engine = launcher(tmp_path)
    running = [engine.submit(job(tmp_path, name, "sleep", "A100")) for name in ("a", "b")]
    waiting = engine.submit(job(tmp_path, "c", "ok", "A100"))
    wait_for_claims(tmp_path, "a", "b")
    engine.stop(now=False)
    assert {future.result(300).how for future in (*running, waiting)} == {End.STOPPED}
    engine.close()
    assert counted(tmp_path) == {"a": {"interrupted": 1}, "b": {"interrupted": 1}}
    assert run_program("squeue", "-h").stdout.strip() == ""


@needs_slurm
@pytest.mark.usefixtures("cluster")
@pytest.mark.exhaustive  # daily: a node of Ray is lost; an error of Slurm's commands loses a job
def test_a_task_that_vanishes_from_the_queue_is_lost_and_submitted_again(tmp_path: Path) -> None:
    notes = Notes()

    def vanish() -> None:
        wait_for_claims(tmp_path, "a")
        jobs = run_program("squeue", "-h", "-o", "%A", code=None).stdout.split()
        run_program("scancel", "--full", "--signal=KILL", *jobs, code=None)
        wait_for(lambda: bool(notes.ends))
        (tmp_path / "now_ok").touch()

    threading.Thread(target=vanish, daemon=True).start()
    # The first attempt sleeps until it is killed, without a record; so does its second, until it is
    # told otherwise.
    outcome, _ = drive(tmp_path, "a=gate", notes=notes)
    assert ("a", "lost") in notes.ends
    assert outcome.counts == {"ok": 1}


@needs_slurm
@pytest.mark.usefixtures("cluster")
def test_a_refusal_of_sbatch_is_reported_and_ends_the_sweep(tmp_path: Path) -> None:
    outcome, _ = drive(tmp_path, "a=ok", partition="nowhere")
    assert "invalid partition" in outcome.gave_up["a"].lower()


@needs_slurm
@pytest.mark.usefixtures("cluster")
def test_the_command_line_measures_on_the_cluster_and_a_rerun_measures_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.yaml").write_text(
        "method: grid\nparameters:\n  model: {value: mobilenet_v3_small}\n"
        "  resolution: {value: 64}\n  batch_size: {value: 1}\n"
        "  modes: {value: [graph, xla]}\n  effort.duplicates: {value: 0}\n"
    )
    options = ["tracker=none", "effort.rounds_max=10", "--launcher=slurm", "--slurm", "mem=900"]
    options += ["--slurm", "cpus-per-task=2"]
    words = ("sweep", "sweep", "s.yaml", *options)
    first = forked(*words, cwd=tmp_path, environment=os.environ)
    assert first.returncode == 0, first.stderr
    assert "1 trial: 1 " in first.stdout
    assert list((tmp_path / "results" / "records").glob("*/*.json"))
    again = forked(*words, "--dry-run", cwd=tmp_path, environment=os.environ)
    assert "1 done, 0 to measure" in again.stderr


def stubs(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Put commands on the PATH in place of Slurm's, with the answers of a failing cluster."""
    folder.mkdir()
    for name in ("sbatch", "squeue", "scancel"):
        (folder / name).write_text(f"#!/bin/sh\ncd {folder}\n{scripts.get(name, 'true')}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("said", "how"),
    [
        ("Unable to contact slurm controller (connect failure)", End.LOST),
        ("Socket timed out on send/recv operation", End.LOST),
        ("Invalid partition name specified", End.FAILED),
    ],
)
def test_a_temporary_error_of_slurm_is_retried_and_a_refusal_is_not(
    said: str, how: End, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"sbatch: error: Batch job submission failed: {said}"
    stubs(tmp_path / "bin", monkeypatch, sbatch=f"echo '{said}' >&2; exit 1")
    engine = launcher(tmp_path)
    ended = engine.submit(job(tmp_path, "a", "ok")).result(300)
    engine.close()
    assert (ended.how, ended.detail) == (how, said)


LIMITED = """
tasks=$(sed -n 's/^#SBATCH --array=0-//p' "$2" | tr -d "'")
echo $((tasks + 1)) >> asked
if [ $((tasks + $(ls queue | wc -l))) -ge 5 ]; then echo "sbatch: error: {why}" >&2; exit 1; fi
number=$(wc -l < asked)
for task in $(seq 0 $tasks); do touch "queue/${{number}}_$task"; done
echo $number
"""
"""An sbatch of a site that takes five tasks of a user at once."""


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize(
    "why",
    [
        "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "Batch job submission failed: Invalid job array specification",
    ],
)
def test_a_site_that_takes_few_tasks_at_once_gets_no_more_and_the_rest_waits(
    chunk: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "POLL_S", 0.02)
    place = tmp_path / "bin"
    stubs(place, monkeypatch, sbatch=LIMITED.format(why=why), squeue="ls queue | sed 's/$/ n0/'")
    (place / "queue").mkdir()
    engine = launcher(tmp_path, chunk=chunk)
    futures = [engine.submit(job(tmp_path, f"t{number}", "ok")) for number in range(24)]
    most = 0

    def end_a_task() -> bool:
        nonlocal most
        queued = sorted(path.name for path in (place / "queue").iterdir())
        most = max(most, len(queued))
        ending = [one for one in engine._items() if one.task in queued[:1]]
        if ending and len(queued) == min(5, -(-len(engine._items()) // chunk)):
            (place / "queue" / queued[0]).unlink()
            for listed in ending:
                write_end(listed.end, Ended(how=End.FINISHED))
        return all(future.done() for future in futures)

    wait_for(end_a_task)
    engine.close()
    assert [future.result(0).how for future in futures] == [End.FINISHED] * 24
    assert most == 5
    calls = len((place / "asked").read_text().split())
    assert calls < 3 * 24, "a full queue is not asked again and again"


def test_a_full_queue_gets_whole_chunks_and_the_last_jobs_are_not_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "POLL_S", 0.02)
    monkeypatch.setattr(slurm, "QUIET_POLLS", 50)
    monkeypatch.setattr(slurm, "PATIENCE_POLLS", 10**6)
    monkeypatch.setattr(slurm, "QUEUE_LIMIT", 9)
    queued = "for array in $(seq 31); do seq -f ${array}_%g' n0' 0 9; done"
    stubs(tmp_path / "bin", monkeypatch, sbatch="echo >> arrays; wc -l < arrays", squeue=queued)
    engine = launcher(tmp_path, chunk=3)
    names = [f"t{number}" for number in range(31)]
    futures: list[Future[Ended]] = []

    def fill(*ended: object) -> None:
        while names and engine.free(None):
            futures.append(engine.submit(job(tmp_path, names.pop(), "ok")))
            futures[-1].add_done_callback(fill)

    def end_a_job() -> bool:
        if first := next((one for one in engine._items() if one.task), None):
            write_end(first.end, Ended(how=End.FINISHED))
            wait_for(first.future.done)
        return not names and all(future.done() for future in futures)

    fill()
    wait_for(end_a_job)
    engine.close()
    chunks = [
        len(jobs)
        for path in sorted((tmp_path / "slurm").glob("*/*.jobs.json"))
        for jobs in json.loads(path.read_text())
    ]
    assert sorted(chunks) == [1, *[3] * 10]


def test_a_job_alone_of_its_kind_waits_no_longer_than_a_while_in_a_full_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An anchor names no accelerator."""
    monkeypatch.setattr(slurm, "POLL_S", 0.02)
    monkeypatch.setattr(slurm, "PATIENCE_POLLS", 10)
    monkeypatch.setattr(slurm, "QUEUE_LIMIT", 4)
    queued = "for array in 1 2; do seq -f ${array}_%g' n0' 0 9; done"
    stubs(tmp_path / "bin", monkeypatch, sbatch="echo >> arrays; wc -l < arrays", squeue=queued)
    engine = launcher(tmp_path, chunk=3)
    for name in "abc":
        engine.submit(job(tmp_path, name, "ok", "A100"))
    anchor = engine.submit(job(tmp_path, "anchor", "ok"))
    assert not engine.free(None)
    wait_for(lambda: bool(engine._jobs[anchor].task))
    engine.close()


def test_an_unreachable_folder_loses_the_job_and_does_not_end_the_polling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbled = "test -e garbled || printf '\\377\\n'; touch garbled"
    stubs(tmp_path / "bin", monkeypatch, sbatch="echo 7", squeue=f"{garbled}; echo 7_0 n0")
    engine = launcher(tmp_path)
    (folder,) = (tmp_path / "slurm").iterdir()
    folder.rename(tmp_path / "away")
    assert engine.submit(job(tmp_path, "a", "ok")).result(300).how is End.LOST
    (tmp_path / "away").rename(folder)
    future = engine.submit(job(tmp_path, "b", "ok"))
    wait_for((tmp_path / "bin" / "garbled").exists)
    write_end(folder / "000002.end.json", Ended(how=End.FINISHED))
    assert future.result(300).how is End.FINISHED
    engine.close()


def test_an_array_submitted_while_the_sweep_stops_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = {"sbatch": "touch asked; sleep 0.3; echo 7", "scancel": 'echo "$@" >> cancelled'}
    stubs(tmp_path / "bin", monkeypatch, **scripts)
    engine = launcher(tmp_path)
    future = engine.submit(job(tmp_path, "a", "ok"))
    wait_for((tmp_path / "bin" / "asked").exists)
    engine.stop(now=False)
    assert future.result(300).how is End.STOPPED
    assert (tmp_path / "bin" / "cancelled").read_text().split() == ["7"]
    engine.close()


def script(options: dict[str, str], accelerator: str | None, tasks: int) -> str:
    listed, output = Path("/x y/j.json"), Path("/x y")
    return script_of(options, accelerator=accelerator, tasks=tasks, jobs=listed, output=output)


def test_the_script_quotes_hostile_values_and_contains_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "canary")
    text = script({"partition": "a b; rm -rf /", "gres": "none"}, None, 3)
    assert "#SBATCH --partition='a b; rm -rf /'\n" in text
    assert "--gres" not in text
    assert "#SBATCH --array=0-2\n" in text
    assert "'/x y/j.json'" in text
    assert "canary" not in text


def test_the_accelerator_is_inserted_into_the_options_that_name_it() -> None:
    options = {"constraint": "{accelerator}", "gres": "gpu:1", "array": "%4"}
    text = script(options, "A100", 9)
    assert "#SBATCH --constraint=a100\n" in text
    assert "#SBATCH --array=0-8%4\n" in text


def test_options_that_name_the_accelerator_are_left_out_for_jobs_without_one() -> None:
    """Such as an anchor's."""
    options = {"constraint": "{accelerator}&new", "gres": "gpu:{accelerator}:2"}
    assert "#SBATCH --gres=gpu:a100:2\n" in script(options, "A100", 1)
    text = script(options, None, 1)
    assert "constraint" not in text
    assert "#SBATCH --gres=gpu:1\n" in text, "the default, as it needs a GPU too"


def test_a_dry_run_shows_the_batch_script_with_cores_memory_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")  # without Slurm
    Path("s.yaml").write_text(
        "method: grid\nparameters: {model: {value: mnist_mlp}, seed: {values: [1, 2, 3, 4]}}\n"
    )
    words = ["sweep", "s.yaml", "effort.duplicates=0", "--launcher", "slurm", "--dry-run"]
    assert run([*words, "--chunk", "2", "--slurm", "time=01:00:00", "--slurm", "mem=none"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 4
    script = shown.err[shown.err.index("#!/bin/bash") :]
    assert "#SBATCH --cpus-per-task=8\n" in script
    assert "#SBATCH --time=01:00:00\n" in script
    assert "#SBATCH --array=0-1\n" in script
    assert "--mem=" not in script
    assert not Path("results").exists()
    assert run([*words, "--slurm", "n=1; rm"]) == 0
    assert run([*words, "--slurm", "-n=1"]) == 2
    capsys.readouterr()
    assert run([*words, "--ahead", "2", "--chunk", "3"]) == 0
    assert re.search(r"\.jobs\.json --ahead=2$", capsys.readouterr().err, re.M)
    assert run([*words, "--ahead", "2", "--chunk", "2"]) == 2
    assert "--ahead=2 needs --chunk 3 or more" in capsys.readouterr().err


def test_without_slurm_the_error_says_where_to_run_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="sbatch not found; run this on a login node"):
        SlurmLauncher(quick_launch(results=tmp_path))


def test_a_task_heeds_the_signals_of_slurm_whatever_its_daemon_ignores_or_blocks(
    tmp_path: Path,
) -> None:
    program = (
        "import sys\nfrom signal import *\nfrom xla_sweeps.sweeps.launchers import slurm_task\n"
        "for number in (SIGCHLD, SIGTERM, SIGUSR1): signal(number, SIG_IGN)\n"
        "pthread_sigmask(SIG_BLOCK, valid_signals())\nslurm_task.main()\n"
        "print(*(getsignal(one).name for one in (SIGCHLD, SIGTERM, SIGUSR1)))\n"
        "print(pthread_sigmask(SIG_BLOCK, ()))"
    )
    jobs = tmp_path / "jobs.json"
    jobs.write_text("[[]]")
    done = run_program(sys.executable, "-c", program, jobs, more={"SLURM_ARRAY_TASK_ID": "0"})
    assert done.stdout.splitlines() == ["SIG_DFL SIG_DFL SIG_DFL", "set()"]
