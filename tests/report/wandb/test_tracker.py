"""W&B with the real client: offline files read back, and a server that works, refuses, hangs and dies."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import CONFIG, TRIAL_ID, failed_outcome, make_outcome, make_record
from wandb_server import API_KEY, WandbServer, wait_until, wandb_server

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.errors import ConfigError
from xla_sweeps.measure.tracking import (
    NoTracker,
    RunHeader,
    TrackerReport,
    run_header,
    tracker_named,
)
from xla_sweeps.report.wandb.client import MARK, Helper
from xla_sweeps.report.wandb.credentials import api_key, require_api_key
from xla_sweeps.report.wandb.payload import history_rows, run_summary
from xla_sweeps.report.wandb.push import push
from xla_sweeps.report.wandb.tracker import (
    WandbTracker,
    offline_tracker,
    online_tracker,
    published_replicates,
)
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

RECORD = make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01)

SUMMARY = summarize([RECORD])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    with wandb_server() as running:
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            monkeypatch.delenv(name)
        for name, value in running.environment(HOME=str(tmp_path)).items():
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
    tracker: WandbTracker, head: RunHeader, record: Record = RECORD, *, exit_code: int = 0
) -> TrackerReport:
    tracker.open(head)
    tracker.log_rounds(0, record.rounds[:6], batch_size=4)
    tracker.log_rounds(0, record.rounds[6:], batch_size=4)
    return tracker.finish([record], summarize([record]), exit_code=exit_code)


def expected_rows() -> list[dict[str, Any]]:
    return history_rows(0, RECORD.rounds, batch_size=4)


def offline_records(results_dir: Path) -> list[dict[str, Any]]:
    """What `wandb leet inspect --json` reads from the one offline run."""
    (path,) = results_dir.glob("wandb/offline-run-*/*.wandb")
    wandb = shutil.which(
        "wandb", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    assert wandb is not None
    command = [wandb, "leet", "inspect", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=results_dir)
    return [json.loads(line) for line in done.stdout.splitlines()]


def descendants() -> set[str]:
    """Processes that belong to W&B helpers of this test process, W&B's own service included."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={os.getpid()}-".encode() in path.read_bytes():
                found.add(f"{path.parent.name} {path.with_name('cmdline').read_text()}")
        except OSError:
            continue
    return found


def test_an_offline_run_contains_config_history_and_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", API_KEY)
    report = tracked(offline_tracker(), header(tmp_path, group="my-sweep"))
    assert report.complete
    assert report.warnings == ()
    assert Path(report.place).name.startswith("offline-run-")
    read = offline_records(tmp_path)
    run = next(item["run"] for item in read if item["type"] == "run")
    assert (run["run_id"], run["job_type"], run["run_group"]) == (TRIAL_ID, "trial", "my-sweep")
    assert run["tags"] == ["ResNetV1", "applications", "cpu"]
    config: dict[str, Any] = {}
    for item in read:
        if item["type"] == "config":
            config.update(item["config"]["update"])
    assert config["cfg"] == dict(CONFIG)
    scalars = {
        "family": "ResNetV1",
        "variant": "ResNet50",
        "source_name": "applications",
        "resolution": 224,
        "xla": True,
        "accelerator": "Some CPU",
        "batch": 4,
        "precision_name": "float32",
        "effort_name": "quick",
    }
    assert {key: config[key] for key in scalars} == scalars
    rows = [item["history"]["item"] for item in read if item["type"] == "history"]
    assert [
        {key: value for key, value in row.items() if key[0] != "_"} for row in rows
    ] == expected_rows()
    summary: dict[str, Any] = {}
    for item in read:
        if item["type"] == "summary":
            summary.update(item["summary"]["update"])
    wanted = run_summary([RECORD], SUMMARY)
    assert {key: summary[key] for key in wanted} == pytest.approx(wanted)
    assert summary["speedup"] == pytest.approx(2.0, rel=0.02)
    assert summary["latency_histogram/xla"]["_type"] == "histogram"
    assert next(item["exit"] for item in read if item["type"] == "exit").get("exit_code", 0) == 0


def test_the_api_key_reaches_no_file(server: WandbServer, tmp_path: Path) -> None:
    tracked(online_tracker(), header(tmp_path))
    assert server.keys == {API_KEY}
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert API_KEY.encode() not in path.read_bytes(), path


def test_the_summary_has_the_published_studys_keys_too() -> None:
    keys = run_summary([RECORD], SUMMARY)
    assert keys["Throughput (samples/sec)"] == keys["throughput"] == keys["throughput_xla"]
    assert keys["Num parameters (million)"] == keys["params_million"] == pytest.approx(25.636712)
    assert keys["FLOPs (giga)"] == keys["gmacs"] == pytest.approx(3.858)
    assert keys["speedup_percent"] == pytest.approx(100 * (keys["speedup"] - 1))
    assert keys["speedup_vs_eager"] == pytest.approx(4.0, rel=0.02)
    assert keys["verdict"] == "faster"
    numbers = (
        "speedup_low",
        "speedup_high",
        "absolute_speedup",
        "compile_s",
        "throughput_eager",
        "throughput_graph",
    )
    for name in numbers:
        assert isinstance(keys[name], float), name


def test_a_run_without_a_speedup_still_has_its_status_and_verdict() -> None:
    record = make_record(
        {"graph": 0.2},
        modes={"graph": make_record().modes["graph"], "xla": failed_outcome(Status.UNSUPPORTED_OP)},
    )
    keys = run_summary([record], summarize([record]))
    assert keys["verdict"] == "failed"
    assert "speedup" not in keys
    assert run_summary([], None)["status"] == "interrupted"


def test_an_online_run_is_uploaded_completely(server: WandbServer, tmp_path: Path) -> None:
    report = tracked(online_tracker(), header(tmp_path))
    assert report == TrackerReport(
        place=f"{server.url}/tester/xla-sweeps/runs/{TRIAL_ID}", complete=True
    )
    run = server.runs[TRIAL_ID]
    assert run.rows == expected_rows()
    assert run.summary["speedup"] == SUMMARY.comparisons[0].speedup
    assert (run.exit_code, run.job_type, run.project) == (0, "trial", "xla-sweeps")
    assert run.config["cfg"] == dict(CONFIG)
    assert published_replicates(header(tmp_path)) == 1
    assert server.unknown == []


def test_a_failed_trial_is_a_run_with_its_exit_code(server: WandbServer, tmp_path: Path) -> None:
    tracked(online_tracker(), header(tmp_path), exit_code=1)
    assert server.runs[TRIAL_ID].exit_code == 1


def test_a_stopped_run_is_marked_as_preempting(server: WandbServer, tmp_path: Path) -> None:
    tracker = online_tracker()
    tracker.open(header(tmp_path))
    tracker.log_rounds(0, RECORD.rounds[:6], batch_size=4)
    tracker.preempt()
    tracker.finish([RECORD], SUMMARY, exit_code=143)
    run = server.runs[TRIAL_ID]
    assert run.preempting
    assert run.exit_code == 143
    assert len(run.rows) == 6


def test_under_an_agent_the_agents_run_id_is_used(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_SWEEP_ID", "sweep1")
    monkeypatch.setenv("WANDB_RUN_ID", "agentrun")
    tracked(online_tracker(), header(tmp_path))
    assert set(server.runs) == {"agentrun"}
    assert server.runs["agentrun"].rows == expected_rows()


def assert_repaired(server: WandbServer, head: RunHeader, log: Path) -> None:
    """`push` makes the server whole, and doing it again changes nothing."""
    server.heal()
    patient = replace(head, connect_timeout_s=20.0, finish_timeout_s=60.0)
    report = push([(patient, [RECORD], SUMMARY)], log=log)
    assert (report.sent, report.failed) == (1, ())
    assert server.runs[TRIAL_ID].rows == expected_rows()
    assert server.runs[TRIAL_ID].summary["speedup"] == SUMMARY.comparisons[0].speedup
    updates = server.runs[TRIAL_ID].updates
    assert push([(patient, [RECORD], SUMMARY)], log=log).already == 1
    assert server.runs[TRIAL_ID].updates == updates


@pytest.mark.parametrize("fault", ["fail", "hang", "die"])
def test_a_server_that_is_down_from_the_start_leaves_an_offline_run_and_push_repairs_it(
    server: WandbServer, tmp_path: Path, fault: str
) -> None:
    {"fail": lambda: server.fail_with(500), "hang": server.hang, "die": server.die}[fault]()
    head = header(tmp_path, connect_timeout_s=3.0)
    report = tracked(online_tracker(), head)
    assert not report.complete
    assert len(report.warnings) == 1
    assert "xla-sweeps push" in report.warnings[0]
    rows = [item for item in offline_records(tmp_path) if item["type"] == "history"]
    assert len(rows) == len(RECORD.rounds)
    assert published_replicates(head) is None
    assert_repaired(server, head, tmp_path / "push.log")


@pytest.mark.parametrize("fault", ["fail", "hang", "die"])
def test_a_server_that_fails_during_a_run_delays_nothing_and_push_repairs_the_run(
    server: WandbServer, tmp_path: Path, fault: str
) -> None:
    head = header(tmp_path, finish_timeout_s=3.0)
    tracker = online_tracker()
    tracker.open(head)
    tracker.log_rounds(0, RECORD.rounds[:6], batch_size=4)
    assert wait_until(lambda: TRIAL_ID in server.runs)
    {"fail": lambda: server.fail_with(500), "hang": server.hang, "die": server.die}[fault]()
    tracker.log_rounds(0, RECORD.rounds[6:], batch_size=4)
    report = tracker.finish([RECORD], SUMMARY, exit_code=0)
    assert not report.complete
    assert "xla-sweeps push" in report.warnings[0]
    assert wait_until(lambda: not descendants()), descendants()
    assert_repaired(server, head, tmp_path / "push.log")


def test_push_does_not_duplicate_rounds_that_were_already_uploaded(
    server: WandbServer, tmp_path: Path
) -> None:
    head = header(tmp_path)
    tracker = online_tracker()
    tracker.open(head)
    tracker.log_rounds(0, RECORD.rounds[:5], batch_size=4)
    tracker.finish([RECORD], None, exit_code=143)
    assert len(server.runs[TRIAL_ID].rows) == 5
    assert_repaired(server, head, tmp_path / "push.log")
    assert push([(head, [RECORD], SUMMARY)], log=tmp_path / "push.log", force=True).sent == 1
    assert server.runs[TRIAL_ID].rows == expected_rows()


def test_push_to_a_refusing_server_says_which_run_failed(
    server: WandbServer, tmp_path: Path
) -> None:
    server.fail_with(500)
    report = push(
        [(header(tmp_path, connect_timeout_s=2.0), [RECORD], SUMMARY)], log=tmp_path / "log"
    )
    assert report.sent == 0
    assert report.failed[0].startswith(f"{TRIAL_ID} (resnet50 224 px b4 xla Some CPU): ")


def test_logging_waits_for_a_hanging_helper_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = offline_tracker()
    monkeypatch.setattr("xla_sweeps.report.wandb.tracker.ACK_S", 0.2)
    tracker._helper = Helper(tmp_path / "log")
    order = tracker._helper.order
    monkeypatch.setattr(tracker._helper, "order", lambda name, **arguments: None)
    started = time.monotonic()
    for _ in range(20):
        tracker.log_rounds(0, RECORD.rounds, batch_size=4)
    assert time.monotonic() - started < 20 * 0.2
    order("finish", summary={}, histograms={}, exit_code=0)
    tracker._helper.end()


def test_online_tracking_without_a_key_is_refused_with_the_ways_to_fix_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        require_api_key({"HOME": str(tmp_path)})
    assert str(caught.value) == (
        "tracker=wandb: W&B needs an API key: run `wandb login` or set WANDB_API_KEY, or use "
        "tracker=wandb_offline"
    )


def test_a_key_in_netrc_counts_for_its_own_server_only(tmp_path: Path) -> None:
    path = tmp_path / ".netrc"
    path.write_text(f"machine api.wandb.ai\n login user\n password {API_KEY}\n")
    path.chmod(0o600)
    assert api_key({"HOME": str(tmp_path)}) == API_KEY
    assert api_key({"HOME": str(tmp_path), "WANDB_BASE_URL": "https://wandb.example.org"}) is None


def test_the_tracker_none_does_nothing(tmp_path: Path) -> None:
    tracker = tracker_named("none")
    assert isinstance(tracker, NoTracker)
    tracker.open(header(tmp_path))
    assert tracker.finish([RECORD], SUMMARY, exit_code=0) == TrackerReport(place="", complete=True)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_tracker_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        tracker_named("wanbd")
    assert (
        str(caught.value)
        == "unknown tracker 'wanbd'. Did you mean 'wandb'? Allowed: none, wandb_offline, wandb."
    )


@pytest.mark.parametrize("key", ["short", "local-" + "x" * 39, "x" * 39 + "!" * 5])
def test_a_malformed_key_is_refused_without_showing_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_api_key({"HOME": str(tmp_path), "WANDB_API_KEY": key})
    assert "is invalid: expected at least 40 letters" in str(caught.value)
    assert key not in str(caught.value)


def test_the_key_of_another_port_of_the_same_host_does_not_count(tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1:8080 login user password {API_KEY}\n")
    environ = {"HOME": str(tmp_path), "NETRC": str(netrc)}
    assert api_key({**environ, "WANDB_BASE_URL": "http://127.0.0.1:8080"}) == API_KEY
    assert api_key({**environ, "WANDB_BASE_URL": "http://127.0.0.1:8081"}) is None


def test_the_server_in_wandbs_settings_file_decides_which_key_is_used(tmp_path: Path) -> None:
    (tmp_path / ".config/wandb").mkdir(parents=True)
    (tmp_path / ".config/wandb/settings").write_text(
        "[default]\nbase_url = https://wandb.example.org\n"
    )
    (tmp_path / ".netrc").write_text(f"machine api.wandb.ai login user password {API_KEY}\n")
    assert api_key({"HOME": str(tmp_path)}) is None
    assert api_key({"HOME": str(tmp_path), "WANDB_BASE_URL": "https://api.wandb.ai"}) == API_KEY


def test_a_round_without_the_candidate_has_no_speedup_of_its_own() -> None:
    record = make_record({"eager": 0.4, "graph": 0.2})
    rows = history_rows(0, record.rounds, batch_size=4, modes=("eager", "graph", "xla"))
    assert all("speedup_round" not in row for row in rows)
    assert rows[0]["graph/latency_ms"] == pytest.approx(200)
    assert rows[0]["eager/throughput"] == pytest.approx(10)


def test_the_status_is_the_headlines_or_that_the_trial_was_stopped() -> None:
    stopped = replace(RECORD, replicate=1, status=Status.INTERRUPTED)
    assert run_summary([RECORD], summarize([RECORD]))["status"] == "ok"
    assert run_summary([RECORD, stopped], summarize([RECORD, stopped]))["status"] == "interrupted"
    wrong = replace(RECORD, modes={**RECORD.modes, "xla": make_outcome(status=Status.WRONG_RESULT)})
    assert run_summary([wrong], summarize([wrong]))["status"] == "wrong_result"


def test_only_finite_numbers_are_logged() -> None:
    summary = summarize([RECORD])
    endless = replace(
        summary,
        comparisons=(replace(summary.comparisons[0], break_even_calls=math.inf, speedup=math.nan),),
    )
    keys = run_summary([RECORD], endless)
    assert "break_even_calls" not in keys
    assert "speedup" not in keys
    assert all(math.isfinite(value) for value in keys.values() if isinstance(value, float))
