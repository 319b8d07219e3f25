"""The command `dashboard`: it writes the page, and says what is wrong in one line."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import fresh_command
from dashboard_data import measured, unpacked
from factories import failed_outcome, make_outcome, make_record
from in_process import command

from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.store import Store


@pytest.mark.parametrize("exit_code", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_open_shows_the_page_in_the_browser_or_says_that_there_is_none(
    tmp_path: Path, exit_code: int
) -> None:
    measured(tmp_path / "results")
    browser, shown = tmp_path / "browser", tmp_path / "shown"
    browser.write_text(f'#!/bin/sh\necho "$1" > {shown}\nexit {exit_code}\n')
    browser.chmod(0o755)
    alone = {"BROWSER": str(browser), "PATH": str(tmp_path), "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    done = fresh_command("dashboard", "--open", cwd=tmp_path, **alone, code=0)
    assert "opens offline" in done.stdout
    assert shown.read_text().strip() == (tmp_path / "results" / "dashboard.html").as_uri()
    assert ("open the file yourself" in done.stderr) == bool(exit_code)


def test_a_filter_keeps_the_rows_that_match(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    command("dashboard", "--where", "family=ResNetV1 and baseline=graph", cwd=tmp_path, code=0)
    columns, _ = unpacked(tmp_path / "results" / "dashboard.html")
    assert (columns["family"], columns["baseline"]) == (["ResNetV1"], ["graph"])
    nothing = command("dashboard", "--where", "family=Nobody", cwd=tmp_path, code=2)
    assert "rows match --where 'family=Nobody'" in nothing.stderr
    wrong = command("dashboard", "--where", "famly=x", cwd=tmp_path)
    assert (wrong.returncode, "family" in wrong.stderr) == (2, True)


def test_two_folders_can_be_compared_on_the_page(tmp_path: Path) -> None:
    for name, seconds in (("before", 0.1), ("after", 0.05)):
        Store(tmp_path / name).save(
            make_record({"graph": 0.2, "xla": seconds}, noise=0.001, request_id="1" * 16)
        )
    words = ("before", "after", "--compare", "-o", "page.html")
    assert command("dashboard", *words, cwd=tmp_path).returncode == 0
    section = unpacked(tmp_path / "page.html")[1]["comparison"]
    assert (section["title_a"], section["title_b"]) == ("before", "after")
    changed = {row["quantity"]: row for row in section["rows"]}
    assert changed["xla throughput"]["verdict"] == "faster"
    assert changed["xla throughput"]["ratio"] == pytest.approx(2.0, rel=1e-2)


def test_an_interrupted_mode_is_not_counted_as_a_failure(tmp_path: Path) -> None:
    measured(tmp_path / "results")
    stopped = {"graph": make_outcome(0.2), "xla": failed_outcome(Status.INTERRUPTED)}
    Store(tmp_path / "results").save(make_record({"graph": 0.2}, trial_id="e" * 16, modes=stopped))
    done = command("dashboard", cwd=tmp_path)
    assert "failed in 1" in done.stdout
    rows = unpacked(tmp_path / "results" / "dashboard.html")[0]
    assert rows["verdict"][rows["status"].index("interrupted")] == "not_measured"


def test_watch_writes_the_page_again_when_there_is_a_new_record(tmp_path: Path) -> None:
    store = Store(measured(tmp_path / "results"))
    words = [sys.executable, "-m", "xla_sweeps", "dashboard", "--watch"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout
        lines = (line for line in watching.stdout if "opens offline" in line)
        assert "of 2 trials" in next(lines)
        store.save(make_record({"graph": 0.2, "xla": 0.1}, trial_id="e" * 16))
        assert "of 3 trials" in next(lines)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0


def test_watch_compares_again_when_there_is_a_new_record(tmp_path: Path) -> None:
    def save(folder: str, name: str) -> None:
        record = make_record({"graph": 0.2, "xla": 0.1}, trial_id=name * 16, request_id=name * 16)
        Store(tmp_path / folder).save(record)

    def compared() -> int:
        rows = unpacked(tmp_path / "page.html")[1]["comparison"]["rows"]
        return sum(row["quantity"] == "xla throughput" for row in rows)

    save("before", "1")
    save("before", "2")
    words = ["dashboard", "before", "after", "--compare", "-o", "page.html", "--watch"]
    both: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [sys.executable, "-m", "xla_sweeps", *words]
    with subprocess.Popen(command, cwd=tmp_path, **both) as watching:
        assert watching.stdout
        assert any("after holds no records" in line for line in watching.stdout), "it waits"
        for count, name in enumerate("12", 1):
            save("after", name)
            assert any("opens offline" in line for line in watching.stdout)
            assert compared() == count
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0
