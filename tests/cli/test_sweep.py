"""The command `sweep` as a person uses it: plan, run, resume, retry, search, stop.

The measuring process is scripted.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from commands import command, forked, in_terminal, own_model
from in_process import command as in_process
from paths import ROOT, SUPPORT
from programs import with_code

from xla_sweeps.cli import sweep as sweep_module
from xla_sweeps.errors import LEFT_CODE, USAGE_CODE
from xla_sweeps.schema.record import Record
from xla_sweeps.store import planned, rows
from xla_sweeps.store.store import Store
from xla_sweeps.store.table import headlines
from xla_sweeps.sweeps.launchers.job import End, Ended, Job
from xla_sweeps.sweeps.launchers.local import LocalLauncher
from xla_sweeps.system import devices
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.system.leases import LEASES

SWEEP = str(SUPPORT / "fake_sweep.py")


SPEEDUP = {"method": "bayes", "metric": {"name": "speedup", "goal": "maximize"}}
"""A search for the largest speedup."""


def definition(folder: Path, **parameters: Any) -> Path:
    """A sweep of two models, each measured once."""
    chosen = {
        "model": {"values": ["mobilenet_v2", "resnet50"]},
        "modes": {"value": ["graph", "xla"]},
        "effort.duplicates": {"value": 0},
        **parameters,
    }
    top = chosen.pop("top", {})
    path = folder / "mine.yaml"
    path.write_text(json.dumps({"name": "mine", "method": "grid", "parameters": chosen, **top}))
    return path


def sweep(
    folder: Path, *arguments: str, worker: str = "", code: int | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == LEASES or not name.startswith(("WANDB", "XLA_SWEEPS", "TF_XLA_FLAGS"))
    }
    words = ("sweep", "mine.yaml", "tracker=none", *arguments)
    environment = {**kept, "FAKE_WORKER": worker, **environ}
    return with_code(forked("sweep", *words, cwd=folder, environment=environment), code)


def records(folder: Path) -> list[Record]:
    return [
        record for group in Store(folder / "results").load().records.values() for record in group
    ]


def tags(folder: Path) -> Counter[str]:
    return Counter(" ".join(record.tracker.tags) or "trial" for record in records(folder))


def test_a_dry_run_prints_the_commands_a_person_would_type(tmp_path: Path) -> None:
    path = str(ROOT / "sweeps" / "smoke.yaml")
    words = ("batch_size=1", "--dry-run", "resolution=64")
    done = command("sweep", path, *words, cwd=tmp_path, code=0)
    first, *others = done.stdout.splitlines()
    assert first == "python -m xla_sweeps model=mobilenet_v2 jit=true batch_size=1 resolution=64"
    assert len(others) == 2
    assert done.stderr == (
        "smoke: 3 trials; 0 done, 3 to measure (3 replicates)\n"
        "timing takes at most 4 min 36 s in all, by the limits of the effort; building and "
        "compiling come on top (no records of these models yet)\n"
        "contaminated and open trials first wait for a quiet machine, at most 30 s\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_how_many_trials_prepare_ahead_at_most(tmp_path: Path) -> None:
    definition(tmp_path)
    plan = sweep(tmp_path, "--dry-run", "--ahead", "999", "device=cpu", code=0)
    assert re.match(r"warning: --ahead=999 is \d+ here: \d+ (core|GiB)", plan.stderr)


def test_a_sweep_shows_its_results_and_the_same_command_again_measures_nothing(
    tmp_path: Path,
) -> None:
    definition(tmp_path)
    first = sweep(tmp_path, code=0)
    assert "start    cpu  model=mobilenet_v2" in first.stderr
    assert re.search(r"sweep    2/2 trials  2 ok\n", first.stderr)
    lines = first.stdout.splitlines()
    assert lines[0] == "mine: 2 trials: 2 ok"
    unclear = "xla over graph: not known yet, none of 2 trials is clear: more replicates"
    assert any(line.startswith(unclear) for line in lines)
    assert lines[-1] == "results xla-sweeps results results"
    assert {record.tracker.group for record in records(tmp_path)} == {"mine"}
    assert all("turns" not in record.seconds for record in records(tmp_path)), "none prepares ahead"
    again = sweep(tmp_path, code=0)
    assert "start " not in again.stderr
    assert len(records(tmp_path)) == 2
    plan = sweep(tmp_path, "--dry-run")
    assert plan.stdout == ""
    assert "2 trials; 2 done, 0 to measure" in plan.stderr
    definition(tmp_path, batch_size={"values": [4, 8]})
    plan = sweep(tmp_path, "--dry-run")
    sizes = [line.split("batch_size=")[1].split()[0] for line in plan.stdout.splitlines()]
    assert sizes == ["8", "8"]
    assert "4 trials; 2 done, 2 to measure (2 replicates)\nabout " in plan.stderr
    assert planned.count_unmeasured(tmp_path / "results") == 0
    shutil.rmtree(next((tmp_path / "results" / "records").iterdir()))
    assert planned.count_unmeasured(tmp_path / "results") == 1


def test_a_trial_whose_process_is_killed_twice_is_left_and_measured_by_the_next_run(
    tmp_path: Path,
) -> None:
    definition(tmp_path, model={"value": "resnet50"})
    done = sweep(tmp_path, XLA_SWEEPS_FP="claim.after:kill:1", code=3)
    assert done.stdout.startswith("mine: 1 trial: 1 killed\n")
    deaths = records(tmp_path)
    assert [str(record.status) for record in deaths] == ["killed", "killed"]
    for record in deaths:
        assert record.failure
        assert "own process died: SIGKILL" in record.failure.message
    assert "0 done, 1 to measure" in sweep(tmp_path, "--dry-run").stderr
    assert sweep(tmp_path).returncode == 0
    assert Counter(str(record.status) for record in records(tmp_path)) == {"killed": 2, "ok": 1}


def test_a_quick_sweep_plans_an_aa_pair_and_every_fourth_trial_twice(tmp_path: Path) -> None:
    definition(tmp_path, batch_size={"values": [1, 2, 3, 4]}, **{"effort.duplicates": {"value": 4}})
    none = sweep(tmp_path, "--dry-run", "effort.duplicates=0")
    assert "9 trials; 0 done, 9 to measure (9 replicates)" in none.stderr
    assert "twice" not in none.stderr
    plan = sweep(tmp_path, "--dry-run")
    assert "A/A trials among them, which test the verdicts: 1\n" in plan.stderr
    assert len(plan.stdout.splitlines()) == len(none.stdout.splitlines()) == 9
    (twice,) = map(int, re.findall(r"measured twice, .*: (\d+) trials? \(", plan.stderr))
    assert 1 <= twice <= 4
    assert f"9 trials; 0 done, 9 to measure ({9 + twice} replicates)" in plan.stderr


@pytest.mark.exhaustive
def test_what_is_measured_twice_is_measured_by_processes_of_their_own(tmp_path: Path) -> None:
    definition(tmp_path, model={"value": "resnet50"}, **{"effort.duplicates": {"value": 1}})
    sweep(tmp_path, code=0)
    measured = Counter(record.trial_id for record in records(tmp_path))
    assert list(measured.values()) == [2]
    table = rows.load(tmp_path / "results").table
    shown = {row.trial.trial_id: row.speedup.replicates for row in headlines(table, measured)}
    assert shown == measured
    for words in ((), ("effort.duplicates=0",)):
        plan = sweep(tmp_path, "--dry-run", *words)
        assert "1 trial; 1 done, 0 to measure" in plan.stderr, "the same trial"
    next((tmp_path / "results" / "records").glob("*/1.json")).unlink()
    assert sweep(tmp_path).stderr.count("start ") == 1
    assert Counter(record.trial_id for record in records(tmp_path)) == measured


@pytest.mark.exhaustive  # daily: the policy in test_outcomes.py
def test_contaminated_trials_are_measured_twice_unless_they_are_accepted(tmp_path: Path) -> None:
    definition(tmp_path, model={"value": "resnet50"})
    sweep(tmp_path, worker="contaminated", code=3)
    assert len(records(tmp_path)) == 2
    assert "1 trial; 0 done, 1 to measure" in sweep(tmp_path, "--dry-run").stderr
    kept = sweep(tmp_path, "--accept-contaminated", worker="contaminated", code=0)
    assert "start " not in kept.stderr
    usual = tmp_path / "results" / "hydra"
    before = sorted(usual.rglob("*"))
    folder = ("hydra.run.dir=elsewhere", "--accept-contaminated", "--retry", "contaminated")
    assert sweep(tmp_path, *folder).returncode == 0
    assert [str(record.status) for record in records(tmp_path)] == ["contaminated"] * 2 + ["ok"]
    assert "resnet50" in (tmp_path / "elsewhere" / ".hydra" / "config.yaml").read_text()
    assert sorted(usual.rglob("*")) == before


@pytest.mark.exhaustive
def test_rerun_adds_a_replicate_where_results_say_so(tmp_path: Path) -> None:
    definition(tmp_path, model={"value": "resnet50"})
    sweep(tmp_path)
    none = sweep(tmp_path, "--rerun", "model=vgg16", "--dry-run")
    assert none.stdout == "", "no row of that model"
    assert sweep(tmp_path, "--rerun", "candidate=xla").returncode == 0
    assert len(records(tmp_path)) == 2
    wrong = sweep(tmp_path, "--rerun", "verdit=x")
    assert "unknown column in --rerun 'verdit'. Did you mean 'verdict'?" in wrong.stderr


@pytest.mark.parametrize("seed", [1, 7])
def test_a_dry_run_shows_a_search_whose_first_combination_is_refused(
    seed: int, tmp_path: Path
) -> None:
    """An epoch of 2 batches has no 4 steps in an execution."""
    values = {"steps_per_execution": {"values": [1, 4]}, "batches": {"values": [2, 8]}}
    fit = {"model": {"value": "mnist_mlp"}, "scenario": {"value": "fit"}}
    document = {**SPEEDUP, "run_cap": 4, "parameters": {**fit, **values}}
    (tmp_path / "fit.yaml").write_text(json.dumps(document))
    plan = command("sweep", "fit.yaml", "device=cpu", f"--seed={seed}", "--dry-run", cwd=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert "4 trials, proposed one by one" in plan.stderr


def test_a_dry_run_refuses_a_metric_that_no_trial_has(tmp_path: Path) -> None:
    search = {"method": "bayes", "run_cap": 2, "metric": {"name": "Reward", "goal": "maximize"}}
    definition(tmp_path, batch_size={"min": 1, "max": 64}, top=search)
    plan = sweep(tmp_path, "--dry-run")
    assert plan.returncode == USAGE_CODE
    assert "no trial has the metric 'Reward'; available: " in plan.stderr
    assert " speedup, " in plan.stderr
    top = {**search, "metric": {"name": "throughput_xla", "goal": "maximize"}}
    definition(tmp_path, batch_size={"min": 1, "max": 64}, top=top)
    assert sweep(tmp_path, "--dry-run").returncode == 0


@pytest.mark.exhaustive
def test_a_search_by_results_proposes_and_measures_trials_and_a_rerun_measures_none(
    tmp_path: Path,
) -> None:
    definition(tmp_path, batch_size={"min": 1, "max": 64}, top=SPEEDUP | {"run_cap": 4})
    sweep(tmp_path, code=0)
    first = len(records(tmp_path))
    assert 1 <= first <= 4
    assert len({record.trial.batch_size for record in records(tmp_path)}) > 1
    assert sweep(tmp_path).returncode == 0
    assert len(records(tmp_path)) == first
    plan = sweep(tmp_path, "--dry-run")
    assert "4 trials, proposed one by one from earlier results\n" in plan.stderr
    shutil.rmtree(tmp_path / "results")
    assert "\ntiming takes at most 4 min 06 s in all" in sweep(tmp_path, "--dry-run").stderr
    twice = sweep(tmp_path, "--dry-run", "effort.duplicates=4").stderr
    assert "\ntiming takes at most 5 min 07 s in all" in twice, "one of four"


def test_several_devices_are_tested_for_interference_before_they_are_used(tmp_path: Path) -> None:
    if devices.usable_cores() < 2:
        pytest.skip("one core cannot be split")
    definition(tmp_path)
    sweep(tmp_path, "--devices", "cpu:0,cpu:1", code=0)
    assert tags(tmp_path) == {"anchor": 3, "trial": 2}
    assert {record.environment["cpu"]["cores"] for record in records(tmp_path)} == {
        devices.usable_cores() // 2
    }
    logs = (tmp_path / "results" / "logs" / "sweeps").glob("*/interference-*.log")
    places = sorted(path.stem.removeprefix("interference-") for path in logs)
    assert places == ["alone-cpu0", "together-cpu0", "together-cpu1"]


@pytest.mark.parametrize("search", [{}, SPEEDUP | {"run_cap": 2}], ids=["grid", "bayes"])
@pytest.mark.parametrize("missing", [[], ["tensorflow"]], ids=["", "without TensorFlow"])
def test_devices_take_turns_in_every_sweep_of_which_it_is_not_known_whether_they_interfere(
    search: dict[str, Any], missing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if devices.usable_cores() < 2:
        pytest.skip("one core cannot be split")
    logs, turns = list[str](), list[LocalLauncher]()

    def refuse(launcher: LocalLauncher, job: Job) -> Future[Ended]:
        future: Future[Ended] = Future()
        future.set_result(Ended(how=End.FAILED, slot="cpu:0"))
        logs.append(job.log.name)
        return future

    monkeypatch.setattr(LocalLauncher, "submit", refuse)
    monkeypatch.setattr(LocalLauncher, "take_turns", lambda launcher: turns.append(launcher))
    monkeypatch.setattr(sweep_module, "absent", lambda backend: missing)
    definition(tmp_path, top=search)
    words = ("mine.yaml", "tracker=none", "ui=plain", "--devices", "cpu:0,cpu:1")
    done = in_process("sweep", *words, cwd=tmp_path, code=LEFT_CODE)
    said = f"whether cpu:0, cpu:1 interfere{' without TensorFlow' if missing else ''}; they take t"
    assert said in done.stderr
    assert len(turns) == 1
    assert sum(name.startswith("interference-") for name in logs) == (0 if missing else 3)


def test_an_absent_accelerator_is_refused_and_a_present_one_is_used(tmp_path: Path) -> None:
    definition(tmp_path, accelerator={"value": "H100"})
    done = sweep(tmp_path, code=2)
    assert "mine.yaml:1: accelerator=H100: this machine has " in done.stderr
    word = devices.cpu_name().split()[0]
    definition(tmp_path, model={"value": "resnet50"}, accelerator={"value": word})
    plan = sweep(tmp_path, "--dry-run", code=0)
    assert "1 trial; 0 done, 1 to measure" in plan.stderr


def test_ctrl_c_on_a_terminal_saves_prints_how_to_resume_and_exits_with_130(tmp_path: Path) -> None:
    definition(tmp_path, model={"value": "mobilenet_v2"})
    code, screen = on_terminal(tmp_path, "seed=3", "tracker.group=a b", worker="wait-at:4")
    assert code == 130
    assert re.search(r"cpu\s+mobilenet_v2", screen)
    assert "0/1 trial " in screen
    (resume,) = re.findall(r"resume with: (.*?)\s*$", screen, re.M)
    program, name, *words = shlex.split(resume)
    assert (program, name) == ("xla-sweeps", "sweep")
    assert words == ["mine.yaml", "tracker=none", "seed=3", "tracker.group=a b"]
    assert "Traceback" not in screen
    assert [str(record.status) for record in records(tmp_path)] == ["interrupted"]
    assert sweep(tmp_path, *words[2:]).returncode == 0
    statuses = Counter(str(record.status) for record in records(tmp_path))
    assert statuses == {"interrupted": 1, "ok": 1}
    assert {record.tracker.group for record in records(tmp_path)} == {"a b"}


def on_terminal(folder: Path, *words: str, worker: str) -> tuple[int, str]:
    """The output of a sweep on a pseudo-terminal after Ctrl-C during its first trial."""
    size = {"TERM": "xterm", "COLUMNS": "140", "LINES": "40"}
    environ = {**os.environ, **size, "FAKE_WORKER": worker}
    environ.pop("CI", None)
    command = [sys.executable, SWEEP, "sweep", "mine.yaml", "tracker=none", *words]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(sys.executable, command, environ)
    shown, logs, presses = b"", folder / "results" / "logs", 1
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while chunk := os.read(terminal, 65536):  # drawn every second
            shown += chunk
            if presses and any("waits for ever" in log.read_text() for log in logs.glob("*/*.log")):
                os.write(terminal, b"\x03")
                presses -= 1
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), re.sub(
        r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode("utf-8", "replace")
    )


def test_a_definition_of_the_package_is_run_by_its_name_from_any_folder(tmp_path: Path) -> None:
    listed = command("sweep", "--list", cwd=tmp_path).stdout
    assert re.search(r"(?m)^smoke +3 trials  A few minutes on a laptop's CPU", listed)
    names = [line for line in listed.splitlines() if line[0] != " "]
    assert len(names) == len(list((ROOT / "sweeps").glob("*.yaml")))
    assert max(map(len, listed.splitlines())) <= 120
    assert max(map(len, in_terminal("sweep", "--list", cwd=tmp_path, columns=80))) <= 80
    done = command("sweep", "smoke", "--dry-run", cwd=tmp_path)
    assert done.stdout.count("python -m xla_sweeps") == 3
    (tmp_path / "smoke").mkdir()
    beside = command("sweep", "smoke", "--dry-run", cwd=tmp_path)
    assert beside.returncode == 0, "a folder of that name is no definition"
    (tmp_path / "smoke").rmdir()
    (tmp_path / "smoke").write_text("{}")
    own = command("sweep", "smoke", "--dry-run", cwd=tmp_path)
    assert own.returncode == 2, "a file comes before a name"


@pytest.mark.exhaustive  # daily: an experiment of one's own, below
def test_models_of_ones_own_are_swept_and_resumed(tmp_path: Path) -> None:
    own_model(tmp_path)
    definition(tmp_path, model={"value": "tiny"})
    place = ("--config-dir", "own")
    planned = sweep(tmp_path, *place, "--dry-run")
    assert f"python -m xla_sweeps --config-dir={tmp_path}/own model=tiny" in planned.stdout
    sweep(tmp_path, *place, code=0)
    assert [record.model.variant for record in records(tmp_path) if record.model] == [
        "MobileNetV2 0.35"
    ]
    assert "1 done, 0 to measure" in sweep(tmp_path, *place, "--dry-run").stderr


def test_an_experiment_of_ones_own_says_where_all_trials_of_a_sweep_go(tmp_path: Path) -> None:
    (tmp_path / "own" / "experiment").mkdir(parents=True)
    (tmp_path / "own" / "experiment" / "mine.yaml").write_text(
        "# @package _global_\nresults_dir: mine\nbatch_size: 2\n"
    )
    definition(tmp_path, model={"value": "mobilenet_v2"})
    sweep(tmp_path, "--trust-config", "own", "+experiment=mine", code=0)
    assert not (tmp_path / "results").exists(), "not even an anchor's"
    kept = Store(tmp_path / "mine").load().records.values()
    assert 2 in {record.trial.batch_size for group in kept for record in group}


SEARCH = """
method: bayes
run_cap: 2
metric: {name: speedup, goal: maximize}
parameters:
  model: {values: [tiny_dense, mobilenet_v1]}
"""


@pytest.mark.parametrize(
    ("package", "words", "says"),
    [
        ("optuna", ("s.yaml",), f"method bayes needs Optuna: {how_to_install('bayes')}"),
        ("ray", ("smoke", "--launcher=ray"), f"--launcher ray needs Ray: {how_to_install('ray')}"),
    ],
)
def test_a_dry_run_says_which_package_is_missing(
    package: str,
    words: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "s.yaml").write_text(SEARCH)
    monkeypatch.setitem(sys.modules, package, None)
    done = in_process("sweep", *words, "--dry-run", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"xla-sweeps: {says}")
