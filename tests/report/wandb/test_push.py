"""`push` sends what the server lacks, once, after any failure before it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ended import wait_until
from factories import TRIAL_ID, make_outcome
from programs import run_program
from wandb_runs import FIRST, PATIENT, SECOND, SUMMARY, WANDB, header, rounds_of, rows_of, tracked
from wandb_server import API_KEY, WandbServer

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.run_content import logs_of
from xla_sweeps.report.wandb.push import push
from xla_sweeps.report.wandb.tracker import note_run, offline_tracker, online_tracker, own_run_id
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.store.claim import lock_file


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["replicate"], row["round"]))


def with_log(record: Record, results_dir: Path, text: str) -> Record:
    """The record, whose log is in the results folder."""
    log = results_dir / "logs" / TRIAL_ID / f"{record.replicate}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    return replace(record, log=str(log.relative_to(results_dir)))


def told(server: WandbServer) -> list[str]:
    """The lines of the run's log on the server, without the time in front of each."""
    return [line.rstrip("\n").partition(" ")[2] for line in server.run.output]


def test_push_adds_the_rounds_and_the_log_that_the_server_lacks_and_each_once(
    server: WandbServer, tmp_path: Path
) -> None:
    """The second replicate reached the server, the first one did not."""
    head = header(tmp_path)
    first = with_log(FIRST, tmp_path, "one\n\x1b[31mtwo\x1b[0m https://me:secret@e.x\n")
    second = with_log(SECOND, tmp_path, "one\n")
    assert tracked(offline_tracker(), head, first).complete
    assert tracked(online_tracker(), head, second, first).complete
    assert rounds_of(server.run) == rows_of(SECOND)
    lines = [f"--- {second.log}", "one"]
    assert told(server) == lines
    both = summarize([first, second])
    trials = [(head, [first, second], both)]
    assert push(trials, log=tmp_path / "log").sent == 1
    lines += [f"--- {first.log}", "one", "[31mtwo[0m https://***@e.x"]
    run = server.run
    assert sorted_rows(rounds_of(run)) == rows_of(FIRST, SECOND)
    assert [row["_step"] for row in run.history] == list(range(len(run.history)))
    assert run.summary["speedup"] == both.comparisons[0].speedup.value
    assert told(server) == lines
    assert push(trials, log=tmp_path / "log").already == 1
    wrong = replace(second, modes={**SECOND.modes, "xla": make_outcome(status=Status.WRONG_RESULT)})
    no_longer = summarize([first, wrong])
    assert push([(head, [first, wrong], no_longer)], log=tmp_path / "log", force=True).failed == ()
    summary = server.run.summary
    assert "speedup" not in summary
    assert (summary["verdict"], summary["status"]) == ("failed", "wrong_result")
    assert server.run.exit_code == 1
    assert told(server) == lines
    assert sorted_rows(rounds_of(server.run)) == rows_of(FIRST, SECOND)


@pytest.mark.exhaustive
def test_push_after_wandb_sync_duplicates_neither_rounds_nor_logs(
    server: WandbServer, tmp_path: Path
) -> None:
    head, record = header(tmp_path), with_log(FIRST, tmp_path, "one\n")
    tracked(offline_tracker(), head, record)
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    run_program(WANDB, "sync", folder, cwd=tmp_path)
    for sent in (0, 1):
        if sent:
            assert push([(head, [record], SUMMARY)], log=tmp_path / "log").sent == 1
        assert rounds_of(server.run) == rows_of(FIRST)
        assert told(server) == [f"--- {record.log}", "one"]


@pytest.mark.parametrize("name", ["", "{}", "../secret", "logs/{}", "logs/{}/link", "logs/{}/\0"])
def test_a_record_names_no_other_file_than_its_log(tmp_path: Path, name: str) -> None:
    own = with_log(FIRST, tmp_path / "r", "one\n")
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (tmp_path / "r" / own.log).with_name("link").symlink_to(secret)
    assert logs_of(tmp_path / "r", [own]) == [f"--- {own.log}\none"]
    assert logs_of(tmp_path / "r", [replace(own, log=name.format(TRIAL_ID))]) == []
    (tmp_path / "r" / "logs" / TRIAL_ID).rename(tmp_path / "moved")
    (tmp_path / "r" / "logs" / TRIAL_ID).symlink_to(tmp_path / "moved")
    assert logs_of(tmp_path / "r", [own]) == []


def test_push_gives_up_on_a_server_that_refuses_the_key_or_does_not_answer(
    server: WandbServer, tmp_path: Path
) -> None:
    heads = [
        header(tmp_path, trial_id=f"{n:016x}", connect_timeout_s=2.0, finish_timeout_s=5.0)
        for n in range(2)
    ]
    trials = [
        (head, [record], summarize([record]))
        for head in heads
        for record in [replace(FIRST, trial_id=head.trial_id)]
    ]
    patient = [(replace(head, **PATIENT), records, summary) for head, records, summary in trials]
    server.fail_with(401)
    (line,) = push(patient, log=tmp_path / "log").failed
    assert "401" in line
    assert API_KEY not in line
    server.heal()
    server.hang()
    report = push(trials, log=tmp_path / "log")
    assert (report.sent, report.already, len(report.failed)) == (0, 0, 1)
    assert report.failed[0].startswith("0000000000000000 (resnet50 224 px b4 xla Some CPU): ")
    assert report.not_tried == 1
    server.heal()
    assert push(patient, log=tmp_path / "log").sent == 2
    assert all(rounds_of(server.runs[own_run_id(head)]) == rows_of(FIRST) for head in heads)


def test_two_pushes_at_once_do_not_race(tmp_path: Path) -> None:
    trials = [(header(tmp_path), [FIRST], SUMMARY)]
    with lock_file(tmp_path / "push.lock"):
        report = push(trials, log=tmp_path / "push.log")
    why = f"another push of {tmp_path} is running; wait for it, then push again"
    assert (report.sent, report.failed) == (0, (why,))


@pytest.mark.parametrize(
    "finish_timeout_s", [pytest.param(4.0, marks=pytest.mark.exhaustive), 0.001]
)
def test_push_repairs_the_agents_run_and_makes_no_other(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finish_timeout_s: float
) -> None:
    head = header(tmp_path, finish_timeout_s=finish_timeout_s)
    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    monkeypatch.setenv("WANDB_RUN_ID", "agentrun")
    tracker = online_tracker()
    tracker.open(head)
    tracker.begin()
    assert wait_until(lambda: "agentrun" in server.runs)
    server.die()
    tracker.log_rounds(0, FIRST.rounds, batch_size=4)
    assert not tracker.finish([FIRST], summarize([FIRST]), exit_code=0).complete
    server.heal()
    monkeypatch.delenv("WANDB_SWEEP_ID")
    monkeypatch.delenv("WANDB_RUN_ID")
    trial = (replace(head, **PATIENT), [FIRST], SUMMARY)
    assert push([trial], log=tmp_path / "log").sent == 1
    assert list(server.runs) == ["agentrun"]
    assert rounds_of(server.runs["agentrun"]) == rows_of(FIRST)


@pytest.mark.exhaustive
def test_two_folders_of_the_same_trial_have_a_run_each(server: WandbServer, tmp_path: Path) -> None:
    heads = [header(tmp_path / name) for name in "ab"]
    for head in heads:
        assert tracked(online_tracker(), head, FIRST).complete
        pushed = push([(head, [FIRST], SUMMARY)], log=head.results_dir / "log", force=True)
        assert (pushed.sent, pushed.failed) == (1, ())
    assert list(server.runs) == [own_run_id(head) for head in heads]
    assert all(name.startswith(f"{TRIAL_ID}-") for name in server.runs)
    assert all(rounds_of(run) == rows_of(FIRST) for run in server.runs.values())


def test_an_offline_runs_id_starts_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *_a, **_k: pytest.fail("started"))
    assert own_run_id(header(tmp_path)).startswith(f"{TRIAL_ID}-")


def test_a_folder_keeps_its_runs_where_it_is_moved(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    made = own_run_id(header(tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "b")
    assert own_run_id(header(tmp_path / "b")) == made


@pytest.mark.parametrize("content", [b"", b"../../x", b"\xff" * 8, b"0" * 99])
def test_a_damaged_folder_id_is_not_believed(tmp_path: Path, content: bytes) -> None:
    kept = tmp_path / "published" / "folder"
    kept.parent.mkdir()
    kept.write_bytes(content)
    names = {own_run_id(header(tmp_path)) for _ in range(2)}
    assert len(names) == 1
    assert re.fullmatch(f"{TRIAL_ID}-[0-9a-f]{{8}}", names.pop())


@pytest.mark.parametrize("linked", ["wandb/push.lock", "wandb/push.log", "wandb", "published"])
def test_push_writes_through_no_link_that_the_folder_holds(tmp_path: Path, linked: str) -> None:
    outside = tmp_path / "outside"
    place = tmp_path / "r" / linked
    place.parent.mkdir(parents=True)
    if "." in linked:
        outside.write_text("precious")
    else:
        outside.mkdir()
    place.symlink_to(outside)
    head = header(tmp_path / "r")
    if linked == "published":
        note_run(head, "run", [0], confirmed=True)
    else:
        with pytest.raises(OSError, match=r"link|not a regular|symbolic"):
            push([(head, [FIRST], summarize([FIRST]))], log=tmp_path / "r" / "wandb" / "push.log")
    if outside.is_dir():
        assert not list(outside.iterdir())
    else:
        assert outside.read_text() == "precious"
