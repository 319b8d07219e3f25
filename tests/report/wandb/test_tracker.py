"""A trial as a W&B run, with the real client and a server that works, refuses, hangs and dies."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ended import wait_until
from factories import CONFIG, TRIAL_ID, full
from wandb_runs import (
    FIRST,
    SUMMARY,
    assert_repaired,
    header,
    inspected,
    marked,
    rounds_of,
    rows_of,
    tracked,
)
from wandb_server import API_KEY, WandbServer, log_in, wandb_server

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report import run_content
from xla_sweeps.report.run_content import TELEMETRY, result_point, run_summary
from xla_sweeps.report.wandb.tracker import (
    WandbTracker,
    offline_tracker,
    online_tracker,
    own_run_id,
    published_replicates,
    run_urls,
)
from xla_sweeps.trial.tracking import RunHeader, TrackerReport


def updates(read: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """All updates of one kind, merged."""
    merged: dict[str, Any] = {}
    for entry in read:
        if entry["type"] == kind:
            merged.update(entry[kind]["update"])
    return merged


def test_an_offline_run_contains_config_history_and_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", API_KEY)
    own = {"run_name": "mine", "notes": "a new driver", "job_type": "nightly", "tags": ["night"]}
    report = tracked(offline_tracker(), header(tmp_path, tracker={**own, "group": "my-sweep"}))
    assert report.complete
    assert report.warnings == ()
    assert Path(report.place).name.startswith("offline-run-")
    assert run_urls(tmp_path) == {}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(API_KEY.encode() in path.read_bytes() for path in files)
    read = inspected(tmp_path)
    runs = [entry["run"] for entry in read if entry["type"] == "run"]
    assert {run.get("notes", "a new driver") for run in runs} == {"a new driver"}
    run = runs[0]
    assert run["run_id"] == own_run_id(header(tmp_path))
    assert (run["job_type"], run["run_group"]) == ("nightly", "my-sweep")
    assert (run["display_name"], run["notes"]) == ("mine", "a new driver")
    assert run["tags"] == ["ResNetV1", "applications", "cpu", "night"]
    assert updates(read, "config") == {
        "model": "resnet50",
        "variant": "ResNet50",
        "family": "ResNetV1",
        "task": "classification",
        "source": "applications",
        "resolution": 224,
        "batch_size": 4,
        "batches": 1,
        "keras": None,
        "precision": "float32",
        "tf32": False,
        "weights": "random",
        "scenario": "call",
        "effort": "quick",
        "execution_modes": ["eager", "graph", "xla"],
        "pretrained": False,
        "xla": True,
        "accelerator": "Some CPU",
        "device_kind": "cpu",
        "tensorflow": "2.21.0",
        "keras_version": "3.15.1",
        "driver": "550.54",
        "cuda": "12.4",
        "host": "5bce98f7",
        "python": "3.11.7",
        "xla_sweeps": "0.1.0",
        "git": "0123456789ab",
        "flags": "TF_XLA_FLAGS=--a",
        "runtime": "",
        "_wandb.pinned_keys": ["model", "resolution", "batch_size", "accelerator"],
    }
    rows = [entry["history"]["item"] for entry in read if entry["type"] == "history"]
    shown = [{key: value for key, value in row.items() if key[0] != "_"} for row in rows]
    assert shown[:-1] == rows_of(FIRST)
    assert shown[-1] == result_point(run_summary([FIRST], SUMMARY))
    summary = updates(read, "summary")
    wanted = run_summary([FIRST], SUMMARY)
    assert {key: summary[key] for key in wanted} == pytest.approx(wanted)
    assert summary["speedup"] == pytest.approx(2.0, rel=0.02)
    assert summary["latency_histogram/xla"]["_type"] == "histogram"
    assert next(entry["exit"] for entry in read if entry["type"] == "exit").get("exit_code", 0) == 0


@dataclass(frozen=True)
class Tracked:
    """A run that was logged online, with telemetry."""

    server: WandbServer
    results_dir: Path
    report: TrackerReport


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracked]:
    """One run, to be read."""
    folder = tmp_path_factory.mktemp("online")
    with wandb_server() as server, pytest.MonkeyPatch.context() as patch:
        log_in(server, folder / "home", patch)
        head = header(folder / "r", tracker={"telemetry": True})
        yield Tracked(server, folder / "r", tracked(online_tracker(), head, full(FIRST)))


def test_an_online_run_is_uploaded_whole(online: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    server, run = online.server, online.server.run
    address = f"{server.url}/tester/xla-sweeps/runs/{run.name}"
    assert online.report == TrackerReport(place=address, complete=True)
    assert run_urls(online.results_dir) == {TRIAL_ID: address}
    rounds = rounds_of(run)
    plain = [{key: row[key] for key in row if key not in TELEMETRY} for row in rounds]
    assert plain == rows_of(FIRST)
    assert {"round", "replicate", "contaminated", "speedup_round"} <= plain[0].keys()
    assert run.summary["speedup"] == SUMMARY.comparisons[0].speedup.value
    assert not plain[0].keys() & set(run.summary), "the last round is no result"
    assert (run.exit_code, run.job_type, run.project) == (0, "trial", "xla-sweeps")
    assert run.config["model"] == "resnet50"
    (point,) = [row for row in run.rows if "round" not in row]
    logged = point["result/speedup_log2"]
    assert logged == run.summary["result/speedup_log2"] == run.summary["speedup_log2"]
    assert set(point) == {"result/speedup_log2", "result/compile_s"} | {
        f"result/throughput_{mode}" for mode in CONFIG["modes"]
    }
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    assert published_replicates(header(online.results_dir)) == 1
    assert run.raw_config["_wandb"]["value"]["pinned_keys"] == [
        *("model", "resolution", "batch_size", "accelerator")
    ]
    assert server.unknown == []
    assert server.keys == {API_KEY}
    kept = [path for path in online.results_dir.rglob("*") if path.is_file()]
    assert not any(API_KEY.encode() in path.read_bytes() for path in kept)


def test_the_notes_of_a_run_are_its_answer_and_command(online: Tracked) -> None:
    told, command = online.server.run.notes.split("\n\nMeasured by:\n\n    ")
    assert told.startswith("XLA is 2.")
    assert " faster than graph (clear: " in told
    (row, *_) = summarize([full(FIRST)]).comparisons
    assert command == row.provenance.command


def test_power_clock_and_foreign_cores_of_each_round_are_shown_on_request(online: Tracked) -> None:
    run = online.server.run
    charted = [{key: row.get(key) for key in TELEMETRY} for row in rounds_of(run)]
    figures = {"foreign_cores": 0.01, "gpu_watts": None, "gpu_mhz": 1400.0}
    assert charted == [figures] * len(FIRST.rounds)
    assert not {*TELEMETRY} & set(run.summary)
    assert [run.summary[f"gpu_mhz_{end}"] for end in ("min", "max")] == [1400.0] * 2


def test_names_are_shown_as_they_are_in_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_content, "answer", lambda row: "![x](http://e.x/y) <b>a_b</b>")
    told = run_content.run_notes(SUMMARY)
    assert told.startswith("\\!\\[x\\](http:\u2060//e.x/y) &lt;b&gt;a_b&lt;/b&gt;")


def begun(server: WandbServer, head: RunHeader, rounds: int) -> WandbTracker:
    """A run that has so many of its rounds, once the server knows it."""
    tracker = online_tracker()
    tracker.open(head)
    tracker.begin()
    tracker.log_rounds(0, FIRST.rounds[:rounds], batch_size=4)
    assert wait_until(lambda: bool(server.runs))
    return tracker


def test_a_stopped_run_is_marked_as_preempting_and_push_adds_what_is_missing(
    server: WandbServer, tmp_path: Path
) -> None:
    head = header(tmp_path)
    tracker = begun(server, head, 6)  # what follows a signal has little time
    tracker.preempt()
    tracker.finish([FIRST], None, exit_code=143)
    run = server.run
    assert run.preempting
    assert run.exit_code == 143
    assert len(rounds_of(run)) == 6
    assert_repaired(server, head, tmp_path / "push.log")


FAULTS = ("fail", "hang", "die")


def cause(server: WandbServer, fault: str) -> None:
    {"fail": lambda: server.fail_with(500), "hang": server.hang, "die": server.die}[fault]()


@pytest.mark.parametrize(
    "fault", ["die", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in FAULTS[:2])]
)
def test_a_server_that_is_down_from_the_start_leaves_an_offline_run_and_push_repairs_it(
    server: WandbServer, tmp_path: Path, fault: str
) -> None:
    cause(server, fault)
    head = header(tmp_path, connect_timeout_s=3.0)
    report = tracked(online_tracker(), head)
    assert not report.complete
    assert len(report.warnings) == 1
    assert "xla-sweeps push" in report.warnings[0]
    assert run_urls(tmp_path) == {}
    rows = [entry for entry in inspected(tmp_path) if entry["type"] == "history"]
    assert len(rows) == len(FIRST.rounds) + 1
    assert published_replicates(head) is None
    assert_repaired(server, head, tmp_path / "push.log")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.exhaustive  # daily: an agent's run in test_push.py, whose server dies
def test_a_server_that_fails_during_a_run_delays_nothing_and_push_repairs_the_run(
    server: WandbServer, tmp_path: Path, fault: str
) -> None:
    head = header(tmp_path, finish_timeout_s=3.0)
    tracker = begun(server, head, 6)
    cause(server, fault)
    tracker.log_rounds(0, FIRST.rounds[6:], batch_size=4)
    report = tracker.finish([FIRST], SUMMARY, exit_code=0)
    assert not report.complete
    assert "xla-sweeps push" in report.warnings[0]
    assert wait_until(lambda: not marked(f"-{os.getpid()}-")), marked(f"-{os.getpid()}-")
    assert_repaired(server, head, tmp_path / "push.log")


@pytest.mark.exhaustive
def test_a_server_that_hangs_after_the_upload_leaves_a_run_with_an_address(
    server: WandbServer, tmp_path: Path
) -> None:
    answered = threading.Event()
    server.fail_with(500, when=lambda path, body: "query Run(" in body and answered.wait())
    tracker = begun(server, header(tmp_path, finish_timeout_s=8.0), len(FIRST.rounds))
    report = tracker.finish([FIRST], SUMMARY, exit_code=0)
    answered.set()
    assert report.place == f"{server.url}/tester/xla-sweeps/runs/{server.run.name}"
    assert report.warnings == (
        "W&B: the server did not confirm the run; `xla-sweeps push` uploads what is missing",
    )


@pytest.mark.exhaustive
def test_a_run_is_uploaded_completely_although_every_fifth_request_is_refused(
    server: WandbServer, tmp_path: Path
) -> None:
    count = iter(range(10**6))
    server.fail_with(429, when=lambda path, body: next(count) % 5 == 0)
    assert tracked(online_tracker(), header(tmp_path), FIRST) == TrackerReport(
        place=f"{server.url}/tester/xla-sweeps/runs/{server.run.name}", complete=True
    )
    assert rounds_of(server.run) == rows_of(FIRST)


def test_under_an_agent_its_run_is_used_and_a_swept_key_keeps_the_sweeps_value(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text("variant:\n  value: swept\nmodel:\n  value: resnet50\n")
    agent = {"SWEEP_ID": "s1", "RUN_ID": "agentrun", "SWEEP_PARAM_PATH": str(parameters)}
    for name, value in {**agent, "PROJECT": "swept-project", "ENTITY": "team"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    assert tracked(online_tracker(), header(tmp_path), FIRST, exit_code=1).complete
    assert set(server.runs) == {"agentrun"}
    run = server.runs["agentrun"]
    assert rounds_of(run) == rows_of(FIRST)
    assert run.exit_code == 1
    assert (run.project, run.entity, run.job_type) == ("swept-project", "team", "trial")
    told = {"variant": "swept", "model": "resnet50", "family": "ResNetV1", "batch_size": 4}
    assert {key: run.config[key] for key in told} == told


def test_neither_key_nor_password_is_in_a_report(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    monkeypatch.setenv("WANDB_BASE_URL", server.url.replace("//", "//user:aV3ryS3cretWord@"))
    report = tracked(online_tracker(), header(results), FIRST)
    assert report.complete
    assert "aV3ryS3cretWord" not in report.place
    assert run_urls(results) == {TRIAL_ID: report.place}
    server.fail_with(403)
    report = tracked(online_tracker(), header(results, connect_timeout_s=2.0), FIRST)
    assert server.keys == {API_KEY}
    assert not any(API_KEY in line or "aV3ryS3cretWord" in line for line in report.warnings)
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in kept)
    for path in kept:
        assert API_KEY.encode() not in path.read_bytes(), path
