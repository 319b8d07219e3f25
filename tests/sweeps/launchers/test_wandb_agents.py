"""Sweeps with the real `wandb` commands: two agents, stop, preempt, resume, offline."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import own_model
from ended import processes, wait_until
from paths import ROOT, SUPPORT
from programs import run_program
from slurm_cluster import cluster, needs_slurm  # noqa: F401
from spans import measured, overlaps, ran
from wandb_graphql import StoredSweep
from wandb_server import WandbServer, log_in, wandb_server

from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.launchers.wandb_agents import KILL_GRACE_S, PATH_PATTERN, SHIM, _shim
from xla_sweeps.sweeps.launchers.wandb_agents import create as launch

pytestmark = pytest.mark.slow

FAKE = str(SUPPORT / "fake_trial.py")

AGENTS = ["${env}", "${interpreter}", FAKE, "${args_json}"]

TWO = "cpu:0,cpu:1"

QUICK_AGENT = f"""
import os
import sys

if "xla_sweeps" in sys.orig_argv and "WANDB_SWEEP_ID" in os.environ:
    sys.path.append({str(SUPPORT)!r})
    import fake_trial

    fake_trial.use_script()
if "agent" in sys.orig_argv:
    from wandb.wandb_agent import Agent

    Agent.POLL_INTERVAL = 0.5
"""
"""Has `wandb agent` look for orders and for ended runs twice a second, not every 5 s.

Trials have the scripted worker.
"""


@pytest.fixture
def server() -> Iterator[WandbServer]:
    with wandb_server() as running:
        yield running


def environment(server: WandbServer, folder: Path, worker: str = "") -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    (folder / "quick").mkdir(exist_ok=True)
    (folder / "quick" / "sitecustomize.py").write_text(QUICK_AGENT)
    return {
        **kept,
        "PYTHONPATH": f"{folder / 'quick'}{os.pathsep}{SUPPORT}",  # not a script's folder
        **server.environment(HOME=str(folder / "home")),
        "FAKE_WORKER": worker,
        "WANDB_AGENT_REPORT_INTERVAL": "1",
    }


def definition(
    folder: Path, words: Sequence[str] | None = None, *, ours: bool = False, **parameters: object
) -> Path:
    """A definition whose trials have `words`, by default the folder `results`."""
    words = [f"results_dir={folder / 'results'}"] if words is None else words
    chosen = {
        "model": {"values": ["mobilenet_v2", "resnet50"]},
        "batch_size": {"values": [1, 2]},
        "modes": {"value": ["graph", "xla"]},
        **parameters,
    }
    document: dict[str, Any] = {"name": "mine", "method": "grid", "parameters": chosen}
    document["metric"] = {"name": "speedup", "goal": "maximize"}
    document |= {} if ours else {"command": [*AGENTS, *words]}
    path = folder / "s.yaml"
    path.write_text(json.dumps(document))
    return path


def run(
    server: WandbServer, folder: Path, *command: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    environ = environment(server, folder) | environ
    return run_program(*command, cwd=folder, env=environ)


def create(
    server: WandbServer, folder: Path, words: Sequence[str] | None = None, **parameters: object
) -> StoredSweep:
    """A sweep as `wandb sweep` makes it."""
    path = definition(folder, words, ours=False, **parameters)
    run(server, folder, sys.executable, "-m", "wandb", "sweep", "--project", "p", str(path))
    (sweep,) = server.backend.sweeps.values()
    return sweep


def agents(
    server: WandbServer, folder: Path, sweep: StoredSweep, *options: str, worker: str = ""
) -> subprocess.Popen[str]:
    words = [f"tester/p/{sweep.name}", "--results-dir", str(folder / "results"), *options]
    command = [sys.executable, "-m", "xla_sweeps", "agents", *words]
    both: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment(server, folder, worker), **both)


ONE: dict[str, Any] = {"model": {"value": "resnet50"}, "batch_size": {"value": 1}}


def handed_out(sweep: StoredSweep) -> list[dict[str, Any]]:
    return list(sweep.handed_out.values())


def test_two_agents_share_a_grid_that_our_command_created(
    server: WandbServer, tmp_path: Path
) -> None:
    for name in ("glob", "random", "tempfile", "yaml", "click"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('planted')")
    path = definition(tmp_path, ours=True, model={"value": "mobilenet_v2"})
    words = [str(path), "seed=3", "tracker.project=p"]
    words += ["effort.duplicates=0"]
    words += ["--launcher", "wandb", "--devices", TWO]
    done = run(server, tmp_path, sys.executable, "-m", "xla_sweeps", "sweep", *words)
    assert "to join from another machine: xla-sweeps agents tester/p/" in done.stderr
    trials = [("mobilenet_v2", batch) for batch in (1, 2)]
    shown = re.findall(r"(?m)^ *(mobilenet_v2) .*?\b8 +(\d) ", done.stdout)
    assert sorted(shown) == [(model, str(batch)) for model, batch in trials], done.stdout
    (sweep,) = server.backend.sweeps.values()
    assert len(sweep.agents) == 2
    given = [tuple(map(each.get, ("model", "batch_size", "seed"))) for each in handed_out(sweep)]
    assert sorted(given, key=str) == [(*trial, 3) for trial in trials]
    for name, values in sweep.handed_out.items():
        mirrored = server.runs[name]
        assert mirrored.config["batch_size"] == values["batch_size"]
        assert (mirrored.summary["status"], mirrored.exit_code) == ("ok", 0)
    records = Store(tmp_path / "results").load().records
    assert [len(group) for group in records.values()] == [1, 1]
    assert {group[0].environment["cpu"]["cores"] for group in records.values()} == {1}, (
        "each agent had its own core"
    )


@pytest.mark.parametrize(
    ("effort", "twins"),
    [("quick", False), pytest.param("standard", True, marks=pytest.mark.exhaustive)],
)
def test_agents_of_one_device_prepare_beside_each_other_and_each_measures_alone(
    server: WandbServer, tmp_path: Path, effort: str, twins: bool
) -> None:
    """Two replicates of a trial too, in one process, and an A/A twin, which shares nothing."""
    path = definition(tmp_path, ours=True, model={"value": "mobilenet_v2"})
    words = [str(path), f"effort={effort}", "effort.replicates=2", "effort.duplicates=0"]
    words += ["--launcher=wandb", "--devices=cpu", "--ahead=1", "tracker=none"]
    program = [sys.executable, "-m", "xla_sweeps", "sweep", *words]
    done = run(server, tmp_path, *program, FAKE_WORKER="last:3")
    groups = Store(tmp_path / "results").load().records.values()
    records = [record for group in groups for record in group]
    ahead = [record for record in records if "turns" in record.seconds]
    assert len(ahead) == 4, done.stdout
    assert (len(records) > 4) == twins
    assert overlaps(map(ran, records))
    assert not overlaps(map(measured, records))


def starting(kind: str, folder: Path) -> list[str]:
    """A way to start agents: our command, or a script, with our interpreter as the checkout's."""
    if kind == "command":
        return [sys.executable, "-m", "xla_sweeps", "agents"]
    checkout = folder / "checkout"
    python = checkout / ".venv" / "bin" / "python"
    for place, lines in {
        python: f'exec {sys.executable} "$@"',
        checkout / "scripts" / "setup": "",
        **{
            checkout / "scripts" / name: (ROOT / "scripts" / name).read_text()
            for name in ("run", kind)
        },
    }.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(lines if lines.startswith("#!") else f"#!/bin/sh\n{lines}\n")
        place.chmod(0o755)
    return [str(checkout / "scripts" / kind)]


def joined(kind: str, server: WandbServer, folder: Path, *words: str) -> str:
    """Output of agents that joined a sweep from this folder."""
    python = folder / "checkout" / ".venv" / "bin" / "python"
    return run(server, folder, *starting(kind, folder), *words, PYTHON=str(python)).stdout


AGENTS_KINDS = ("command", "agents", "slurm_agents.sbatch")

LAUNCHERS = (*("wandb", "local", "ray"), pytest.param("slurm", marks=needs_slurm))


@pytest.mark.parametrize("kind", [*AGENTS_KINDS, *LAUNCHERS])
@pytest.mark.exhaustive
def test_every_place_that_a_person_gives_is_the_trials_too(
    server: WandbServer, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "slurm":
        request.getfixturevalue("cluster")
    own, python = own_model(tmp_path), tmp_path / "checkout" / ".venv" / "bin" / "python"
    one: dict[str, Any] = {"model": {"value": "tiny"}, "batch_size": {"value": 1}}
    places = ["--config-dir", own.name, "tracker=wandb_offline"]
    if kind in AGENTS_KINDS:
        sweep = create(server, tmp_path, ["results_dir=their"], **one)
        places += ["--devices", "cpu", "--results-dir", "else where"]
        command = [*starting(kind, tmp_path), f"tester/p/{sweep.name}", *places]
    else:
        path = definition(tmp_path, ours=True, **one)
        program = ["-m", "xla_sweeps"] if kind == "wandb" else [str(SUPPORT / "fake_sweep.py")]
        places += ["--launcher", kind, "results_dir='else where'", "effort.duplicates=0"]
        asked = ("mem=900", "cpus-per-task=1") if kind == "slurm" else ()
        places += [word for option in asked for word in ("--slurm", option)]
        command = [sys.executable, *program, "sweep", str(path), *places]
    out = run(server, tmp_path, *command, PYTHON=str(python), WANDB_DIR="w and b").stdout
    records = [
        one for group in Store(tmp_path / "else where").load().records.values() for one in group
    ]
    (record,) = [record for record in records if "anchor" not in record.tracker.tags]
    assert (record.status, record.trial.model.name) == ("ok", "tiny")
    assert list((tmp_path / "w and b" / "wandb").glob("offline-run-*"))
    assert not list((tmp_path / "else where").glob("wandb/offline-run-*"))
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} <= {
        *("else where", "w and b", "own", "checkout", "home", "quick", "leases")
    }
    assert re.search(r"(?m)^ *tiny ", out), out


@pytest.mark.exhaustive
def test_agents_without_a_folder_use_that_of_the_sweep(server: WandbServer, tmp_path: Path) -> None:
    sweep = create(server, tmp_path, ["results_dir=their"], **ONE)
    joined("slurm_agents.sbatch", server, tmp_path, f"tester/p/{sweep.name}", "--devices=cpu")
    assert len(Store(tmp_path / "their").load().records) == 1


def test_a_server_gets_a_search_of_its_own_in_place_of_a_scheduler(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(server, tmp_path, monkeypatch)
    path = definition(tmp_path, ours=True)
    custom = {"method": "custom", "scheduler": {"engine": "optuna"}, "run_cap": 2}
    path.write_text(json.dumps(json.loads(path.read_text()) | custom))
    launch(path, {}, tmp_path / "results")
    (sweep,) = server.backend.sweeps.values()
    assert (sweep.config["method"], sweep.config["run_cap"]) == ("bayes", 2)
    assert "scheduler" not in sweep.config, "agents would wait for its process"


def test_a_run_stopped_in_the_page_is_resumed_and_sigterm_saves_it_and_leaves_no_process(
    server: WandbServer, tmp_path: Path
) -> None:
    def statuses() -> list[str]:
        (group,) = Store(tmp_path / "results").load().records.values()
        return [record.status for record in group]

    sweep = create(server, tmp_path, **ONE)
    running = agents(server, tmp_path, sweep, worker="wait-at:4")
    assert wait_until(lambda: any(run.history for run in server.runs.values()))
    (name,) = sweep.handed_out
    sweep.stopping.append(name)
    output, _ = running.communicate(timeout=600)
    assert running.returncode in (0, 1), output
    assert statuses() == ["interrupted"]
    assert server.runs[name].preempting
    assert server.runs[name].exit_code == 143

    # The server hands the run out again, with everything that it ever logged as config.
    sweep.stopping.clear()
    sweep.resumes.append(name)
    sweep.state = "RUNNING"
    logged = len(server.runs[name].history)
    again = agents(server, tmp_path, sweep, worker="wait-at:4")
    assert wait_until(lambda: len(server.runs[name].history) > logged)
    assert set(server.runs) == {name}, "no other run was made"
    begun = time.monotonic()
    again.send_signal(signal.SIGTERM)
    output, _ = again.communicate(timeout=600)
    assert again.returncode == 143, output
    assert time.monotonic() - begun < KILL_GRACE_S
    assert statuses() == ["interrupted", "interrupted"]
    assert processes(str(tmp_path)) == []
    log = next((tmp_path / "results" / "logs" / "agents").glob("*/cpu.log")).parent.parent
    texts = "".join(path.read_text() for path in log.glob("*/cpu.log"))
    assert "ignored" not in texts


@pytest.mark.exhaustive
def test_agents_of_a_command_that_is_killed_stop_and_save_their_trial(
    server: WandbServer, tmp_path: Path
) -> None:
    sweep = create(server, tmp_path, **ONE)
    running = agents(server, tmp_path, sweep, worker="wait-at:4")
    assert wait_until(lambda: any(run.history for run in server.runs.values()))
    running.kill()
    running.communicate()
    assert wait_until(lambda: not processes(str(tmp_path)) + processes(f"tester/p/{sweep.name}"))
    ((record,),) = Store(tmp_path / "results").load().records.values()
    assert record.status == "interrupted"


@pytest.mark.exhaustive
def test_an_agent_that_gives_up_makes_the_command_fail(server: WandbServer, tmp_path: Path) -> None:
    sweep = create(server, tmp_path)
    running = agents(server, tmp_path, sweep, "--max-failed", "2", worker="segv:graph segv:xla")
    output, _ = running.communicate(timeout=600)
    assert running.returncode == 1
    assert "gave up" in output
    assert len(sweep.handed_out) == 2


@pytest.mark.exhaustive
def test_offline_runs_of_ones_own_model_are_synced_later(
    server: WandbServer, tmp_path: Path
) -> None:
    offline = {"tracker": {"value": "wandb_offline"}, "model": {"value": "tiny"}}
    sweep = create(server, tmp_path, **(ONE | offline))
    running = agents(server, tmp_path, sweep, "--config-dir", str(own_model(tmp_path)))
    output, _ = running.communicate(timeout=600)
    assert running.returncode == 0, output
    ((record,),) = Store(tmp_path / "results").load().records.values()
    assert record.trial.model.name == "tiny"
    (name,) = sweep.handed_out
    assert not server.runs[name].history
    (folder,) = (tmp_path / "results" / "wandb").glob("offline-run-*")
    run(server, tmp_path, sys.executable, "-m", "wandb", "sync", str(folder))
    assert wait_until(lambda: len(server.runs[name].history) == len(record.rounds) + 1)
    assert server.runs[name].summary["status"] == "ok"


def test_a_child_that_a_signal_killed_counts_as_a_failure(tmp_path: Path) -> None:
    shim = tmp_path / "python"
    shim.write_text(SHIM.format(python=sys.executable, folder=tmp_path, variables=""))
    shim.chmod(0o755)
    run_program(shim, "-c", "import os; os.kill(os.getpid(), 9)", code=137)
    run_program(shim, "-c", "raise SystemExit(3)", code=3)
    code = "import signal,sys,time\nsignal.signal(15, lambda *_: sys.exit(143))\n"
    code += "print('ready', flush=True)\ntime.sleep(600)"
    waiting = subprocess.Popen([shim, "-c", code], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "ready\n"
    waiting.terminate()
    assert waiting.wait(120) == 143
    waiting.stdout.close()


def test_agents_start_an_interpreter_whose_path_has_a_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "my environment" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    run_program(_shim(tmp_path) / "python", "-c", "raise SystemExit(3)", code=3)


@pytest.mark.parametrize("text", ["abc", "a/b", "a/b/c/d", "/b/c", "a//c"])
def test_a_name_that_is_not_a_sweep_is_refused(text: str) -> None:
    assert not PATH_PATTERN.fullmatch(text)
