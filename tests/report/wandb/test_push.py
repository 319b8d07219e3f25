"""W&B at its worst, with the real client: faults, several processes and runs, agents, and what `push` makes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import CONFIG, TRIAL_ID, make_outcome, make_record
from paths import SUPPORT
from wandb_server import API_KEY, WandbServer, wait_until, wandb_server

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.measure.tracking import RunHeader, TrackerReport, run_header
from xla_sweeps.report.wandb.client import MARK
from xla_sweeps.report.wandb.payload import history_rows
from xla_sweeps.report.wandb.push import push
from xla_sweeps.report.wandb.tracker import WandbTracker, offline_tracker, online_tracker
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

FIRST, SECOND = (
    make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01, seed=n, replicate=n)
    for n in (0, 1)
)

WANDB = str(Path(sys.executable).with_name("wandb"))

PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from factories import CONFIG, TRIAL_ID, make_record
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.measure.tracking import run_header, tracker_named
record = make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1})
tracker = tracker_named(sys.argv[2])
device = {"device_kind": "cpu", "device_name": "Some CPU"}
tracker.open(run_header(CONFIG, trial_id=TRIAL_ID, results_dir=Path(sys.argv[3]), **device))
tracker.log_rounds(0, record.rounds, batch_size=4)
if sys.argv[4] == "finish":
    assert tracker.finish([record], summarize([record]), exit_code=0).complete
else:
    time.sleep(600)
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    with wandb_server() as running:
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            monkeypatch.delenv(name)
        for name, value in running.environment(HOME=str(tmp_path / "home")).items():
            monkeypatch.setenv(name, value)
        yield running


def header(results_dir: Path, **changes: Any) -> RunHeader:
    made = run_header(
        CONFIG,
        trial_id=TRIAL_ID,
        device_kind="cpu",
        device_name="Some CPU",
        results_dir=results_dir,
    )
    return replace(made, **{"connect_timeout_s": 10.0, "finish_timeout_s": 30.0, **changes})


def tracked(
    tracker: WandbTracker, head: RunHeader, record: Record, *earlier: Record
) -> TrackerReport:
    """One command that adds a replicate to those that were there before."""
    tracker.open(head)
    tracker.log_rounds(record.replicate, record.rounds, batch_size=4)
    return tracker.finish([record], summarize([*earlier, record]), exit_code=0)


def rows_of(*records: Record) -> list[dict[str, Any]]:
    modes = CONFIG["modes"]
    return [
        row
        for item in records
        for row in history_rows(item.replicate, item.rounds, batch_size=4, modes=modes)
    ]


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["replicate"], row["round"]))


def marked(mark: str) -> set[str]:
    """Command lines of the processes of one helper, W&B's own service among them."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in path.read_bytes().split(b"\0"):
                found.add(path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def processes_of(tracker: WandbTracker) -> Callable[[], set[str]]:
    assert tracker._helper is not None
    mark = tracker._helper._mark
    return lambda: marked(mark)


def test_a_stopped_helper_delays_nothing_and_is_ended(tmp_path: Path) -> None:
    tracker = offline_tracker()
    tracker.open(header(tmp_path, finish_timeout_s=1.0))
    alive = processes_of(tracker)
    assert wait_until(lambda: any("wandb-core" in line for line in alive()))
    assert tracker._helper is not None
    os.kill(tracker._helper._process.pid, signal.SIGSTOP)
    started = time.monotonic()
    for _ in range(40):  # far more than a pipe holds
        tracker.log_rounds(0, FIRST.rounds, batch_size=4)
    report = tracker.finish([FIRST], summarize([FIRST]), exit_code=0)
    assert time.monotonic() - started < 20
    assert not report.complete
    assert report.warnings == (
        "W&B: finishing the run timed out after 1 s; the records are safe, and `xla-sweeps push` uploads what is "
        "missing",
    )
    assert alive() == set()


def test_a_run_leaves_no_process_and_prints_nothing(server: WandbServer, tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", PARENT, str(SUPPORT), "wandb", str(tmp_path / "r"), "finish"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    tracker = online_tracker()
    tracker.open(header(tmp_path / "s"))
    alive = processes_of(tracker)
    assert tracker.finish([], None, exit_code=1).complete
    assert alive() == set()


@pytest.mark.parametrize("name", ["wandb", "wandb_offline"])
def test_when_the_command_is_killed_its_helper_finishes_the_run_and_exits(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arguments = [sys.executable, "-c", PARENT, str(SUPPORT), name, str(tmp_path / "r"), "wait"]
    parent = subprocess.Popen(arguments)
    try:
        helpers = f"client_process {parent.pid} "
        assert wait_until(lambda: bool(list((tmp_path / "r" / "wandb").glob("*run-*/*.wandb"))))
        if name == "wandb":
            assert wait_until(
                lambda: (
                    TRIAL_ID in server.runs and len(server.runs[TRIAL_ID].rows) == len(FIRST.rounds)
                )
            )
    finally:
        parent.kill()
        parent.wait()
    assert wait_until(lambda: not any(helpers in text for text in command_lines()))
    if name == "wandb":
        assert server.runs[TRIAL_ID].exit_code == 137
    else:
        assert len(inspected(tmp_path / "r", "history")) == len(FIRST.rounds)


def command_lines() -> list[str]:
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(path.read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return texts


def inspected(results_dir: Path, kind: str) -> list[dict[str, Any]]:
    """Records of one kind in the one run below a results folder, as `wandb leet inspect` reads them."""
    (path,) = (results_dir / "wandb").glob("*run-*/*.wandb")
    command = [WANDB, "leet", "inspect", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=results_dir)
    return [item for line in done.stdout.splitlines() if (item := json.loads(line))["type"] == kind]


def test_a_replicate_that_reached_the_server_does_not_hide_an_earlier_one_that_did_not(
    server: WandbServer, tmp_path: Path
) -> None:
    head = header(tmp_path)
    assert tracked(offline_tracker(), head, FIRST).complete
    assert tracked(online_tracker(), head, SECOND, FIRST).complete
    assert server.runs[TRIAL_ID].rows == rows_of(SECOND)
    both = summarize([FIRST, SECOND])
    assert push([(head, [FIRST, SECOND], both)], log=tmp_path / "log").sent == 1
    run = server.runs[TRIAL_ID]
    assert sorted_rows(run.rows) == rows_of(FIRST, SECOND)
    assert [row["_step"] for row in run.history] == list(range(len(run.history)))
    assert run.summary["speedup"] == both.comparisons[0].speedup
    assert push([(head, [FIRST, SECOND], both)], log=tmp_path / "log").already == 1


def test_a_second_command_adds_its_rounds_to_the_same_run(
    server: WandbServer, tmp_path: Path
) -> None:
    head = header(tmp_path)
    assert tracked(online_tracker(), head, FIRST).complete
    assert tracked(online_tracker(), head, SECOND, FIRST).complete
    assert list(server.runs) == [TRIAL_ID]
    assert server.runs[TRIAL_ID].rows == rows_of(FIRST, SECOND)
    assert (
        push([(head, [FIRST, SECOND], summarize([FIRST, SECOND]))], log=tmp_path / "log").already
        == 1
    )


def test_push_after_wandb_sync_duplicates_nothing(server: WandbServer, tmp_path: Path) -> None:
    head = header(tmp_path)
    tracked(offline_tracker(), head, FIRST)
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    subprocess.run([WANDB, "sync", folder], check=True, capture_output=True, cwd=tmp_path)
    assert server.runs[TRIAL_ID].rows == rows_of(FIRST)
    assert push([(head, [FIRST], summarize([FIRST]))], log=tmp_path / "log").sent == 1
    assert server.runs[TRIAL_ID].rows == rows_of(FIRST)


def test_push_removes_a_speedup_that_is_no_longer_valid(
    server: WandbServer, tmp_path: Path
) -> None:
    head = header(tmp_path)
    tracked(online_tracker(), head, FIRST)
    assert server.runs[TRIAL_ID].summary["speedup"] > 1
    wrong = replace(SECOND, modes={**SECOND.modes, "xla": make_outcome(status=Status.WRONG_RESULT)})
    push([(head, [FIRST, wrong], summarize([FIRST, wrong]))], log=tmp_path / "log")
    summary = server.runs[TRIAL_ID].summary
    assert "speedup" not in summary
    assert (summary["verdict"], summary["status"]) == ("failed", "wrong_result")
    assert server.runs[TRIAL_ID].exit_code == 1


def test_push_gives_up_on_a_server_that_does_not_answer(
    server: WandbServer, tmp_path: Path
) -> None:
    server.hang()
    heads = [
        header(tmp_path, trial_id=f"{n:016x}", connect_timeout_s=2.0, finish_timeout_s=5.0)
        for n in range(3)
    ]
    trials = [
        (head, [record], summarize([record]))
        for head in heads
        for record in [replace(FIRST, trial_id=head.trial_id)]
    ]
    report = push(trials, log=tmp_path / "log")
    assert (report.sent, report.already, len(report.failed)) == (0, 0, 2)
    assert report.failed[0].startswith("0000000000000000 (resnet50 224 px b4 xla Some CPU): ")
    assert report.failed[1] == "2 more not tried"
    server.heal()
    assert push(trials, log=tmp_path / "log").sent == 3
    assert all(server.runs[head.trial_id].rows == rows_of(FIRST) for head in heads)


def test_push_of_a_refused_key_says_so_without_the_key(server: WandbServer, tmp_path: Path) -> None:
    server.fail_with(401)
    (line,) = push([(header(tmp_path), [FIRST], summarize([FIRST]))], log=tmp_path / "log").failed
    assert "401" in line
    assert API_KEY not in line


def test_two_pushes_at_once_do_not_race(server: WandbServer, tmp_path: Path) -> None:
    trials = [(header(tmp_path), [FIRST], summarize([FIRST]))]
    reports = []
    threads = [
        threading.Thread(target=lambda: reports.append(push(trials, log=tmp_path / "log")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(report.sent for report in reports) == [0, 1]
    assert [line for report in reports for line in report.failed] == [
        f"another push of {tmp_path} is running; wait for it, then push again"
    ]
    assert server.runs[TRIAL_ID].rows == rows_of(FIRST)


def test_a_run_is_uploaded_completely_although_every_fifth_request_is_refused(
    server: WandbServer, tmp_path: Path
) -> None:
    count = iter(range(10**6))
    server.fail_with(429, when=lambda path, body: next(count) % 5 == 0)
    assert tracked(online_tracker(), header(tmp_path), FIRST) == TrackerReport(
        place=f"{server.url}/tester/xla-sweeps/runs/{TRIAL_ID}", complete=True
    )
    assert server.runs[TRIAL_ID].rows == rows_of(FIRST)


def test_a_swept_key_keeps_the_sweeps_value_among_the_other_keys(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("variant:\n  value: swept\nmodel:\n  value: resnet50\n")
    agent = {
        "WANDB_SWEEP_ID": "s1",
        "WANDB_RUN_ID": "agentrun",
        "WANDB_SWEEP_PARAM_PATH": str(parameters),
        "WANDB_PROJECT": "swept-project",
        "WANDB_ENTITY": "team",
    }
    for name, value in agent.items():
        monkeypatch.setenv(name, value)
    assert tracked(online_tracker(), header(tmp_path), FIRST).complete
    run = server.runs["agentrun"]
    assert (run.project, run.entity, run.job_type) == ("swept-project", "team", "trial")
    assert run.config["cfg"] == dict(CONFIG)
    assert {key: run.config[key] for key in ("variant", "model", "family", "batch")} == {
        "variant": "swept",
        "model": "resnet50",
        "family": "ResNetV1",
        "batch": 4,
    }


def test_push_repairs_the_agents_run_and_makes_no_other(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = header(tmp_path, finish_timeout_s=4.0)
    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    monkeypatch.setenv("WANDB_RUN_ID", "agentrun")
    tracker = online_tracker()
    tracker.open(head)
    assert wait_until(lambda: "agentrun" in server.runs)
    server.die()
    tracker.log_rounds(0, FIRST.rounds, batch_size=4)
    assert not tracker.finish([FIRST], summarize([FIRST]), exit_code=0).complete
    server.heal()
    monkeypatch.delenv("WANDB_SWEEP_ID")
    monkeypatch.delenv("WANDB_RUN_ID")
    assert (
        push(
            [(replace(head, finish_timeout_s=30.0), [FIRST], summarize([FIRST]))],
            log=tmp_path / "log",
        ).sent
        == 1
    )
    assert list(server.runs) == ["agentrun"]
    assert server.runs["agentrun"].rows == rows_of(FIRST)


@pytest.mark.slow
def test_a_real_sweep_and_agent_work_with_the_test_server(
    server: WandbServer, tmp_path: Path
) -> None:
    definition = tmp_path / "sweep.yaml"
    definition.write_text(
        "method: grid\nparameters:\n  jit: {values: [true]}\n  model: {value: resnet50}\n"
        f"command: [{sys.executable}, -c, 'import os,sys;print(os.environ[\"WANDB_RUN_ID\"], sys.argv[1])', "
        "'${args_json}']\n"
    )
    done = subprocess.run(
        [WANDB, "sweep", "--project", "p", definition], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (name,) = server.backend.sweeps
    done = subprocess.run(
        [WANDB, "agent", f"tester/p/{name}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    handed_out = server.backend.sweeps[name].handed_out
    assert [values["jit"] for values in handed_out.values()] == [True]
    for run_id, values in handed_out.items():
        assert f"{run_id} {json.dumps(values)}" in done.stdout


def test_the_key_is_written_to_no_file_and_neither_key_nor_password_to_a_report(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    monkeypatch.setenv("WANDB_BASE_URL", server.url.replace("//", "//user:aV3ryS3cretWord@"))
    report = tracked(online_tracker(), header(results), FIRST)
    assert report.complete
    assert "aV3ryS3cretWord" not in report.place
    tracked(offline_tracker(), header(results), FIRST)
    server.fail_with(403)
    report = tracked(online_tracker(), header(results, connect_timeout_s=2.0), FIRST)
    assert server.keys == {API_KEY}
    assert not any(API_KEY in line or "aV3ryS3cretWord" in line for line in report.warnings)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in kept)
    for path in kept:
        assert API_KEY.encode() not in path.read_bytes(), path
