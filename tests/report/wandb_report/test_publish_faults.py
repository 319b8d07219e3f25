"""Publishing a report to a server that refuses, hangs, loses or changes what it gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wandb_reports import measure, report
from wandb_server import API_KEY, WandbServer

from xla_sweeps.errors import ConfigError
from xla_sweeps.report.wandb_report import publish
from xla_sweeps.store.claim import lock_file

NOTHING = "neither the summary run nor the report was written"


def refusal(results_dir: Path) -> str:
    with pytest.raises(publish.ReportError) as caught:
        report(results_dir)
    assert caught.value.exit_code == 1
    text = str(caught.value)
    assert "\n" not in text
    assert API_KEY not in text
    return text


@pytest.mark.parametrize("fault", ["dead", "refused", "hanging"])
@pytest.mark.exhaustive  # daily: the same of `push`
def test_a_server_that_does_not_answer_is_reported_in_one_line(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    measure(tmp_path / "r", "a")
    if fault == "dead":
        server.die()
    elif fault == "refused":
        server.fail_with(401)
    else:
        monkeypatch.setattr(publish, "STEP_S", 3.0)
        server.hang()
    text = refusal(tmp_path / "r")
    assert text.startswith(f"{NOTHING}: W&B at 127.0.0.1")
    assert ("no answer within" in text) == (fault == "hanging")


@pytest.mark.exhaustive
def test_lost_uploads_are_reported_and_repaired_by_the_same_command(
    server: WandbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server loses the files first, then the link and the report; neither shows the key."""
    measure(tmp_path / "r", "a")
    server.fail_with(500, when=lambda path, body: path.startswith("/artifact"))
    assert refusal(tmp_path / "r").startswith(f"{NOTHING}: ")
    (run,) = server.runs.values()
    assert run.exit_code == 1
    server.fail_with(500, when=lambda path, body: "upsertView" in body)
    assert refusal(tmp_path / "r").startswith("the report could not be written: ")
    server.heal()
    server.pages.organizations = []
    assert report(tmp_path / "r", registry="benchmarks") == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "registry" in line]
    assert line == (
        "warning: not linked to the registry benchmarks: it belongs to an organization, and tester "
        "is of none or of several; choose a team with --entity"
    )
    server.pages.organizations = ["acme"]
    server.fail_with(403, when=lambda path, body: "linkArtifact" in body)
    assert report(tmp_path / "r", registry="benchmarks") == 1
    assert capsys.readouterr().err.count("not linked to the registry benchmarks: ") == 1
    server.heal()
    assert report(tmp_path / "r", registry="benchmarks") == 0
    assert len(server.pages.links) == 1
    assert len(server.pages.views) == 1
    assert {artifact.state for artifact in server.pages.artifacts.values()} == {"COMMITTED"}
    assert [run.exit_code for run in server.runs.values()] == [0]
    assert server.keys == {API_KEY}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "report.log" for path in files)
    assert not [path for path in files if API_KEY.encode() in path.read_bytes()]
    stored = [server.pages.views, server.pages.artifacts]
    assert API_KEY not in repr([*stored, [run.describe() for run in server.runs.values()]])


@pytest.mark.exhaustive
def test_figures_that_the_server_does_not_show_are_a_warning(
    server: WandbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "r", "a")
    server.fail_with(500, when=lambda path, body: "file_stream" in path)
    assert report(tmp_path / "r") == 1
    assert "does not show the summary run's figures; " in capsys.readouterr().err
    server.heal()
    assert report(tmp_path / "r") == 0


def test_two_reports_at_once_do_not_race(server: WandbServer, tmp_path: Path) -> None:
    measure(tmp_path / "r", "a")
    folder = tmp_path / "r" / "wandb"
    folder.mkdir(exist_ok=True)
    with lock_file(folder / "report.lock"):
        assert refusal(tmp_path / "r").startswith(f"another report of {folder} is running")
    assert server.backend.operations == []


@pytest.mark.exhaustive
def test_a_server_that_stores_something_else_is_told(server: WandbServer, tmp_path: Path) -> None:
    measure(tmp_path / "r", "a")
    upsert = server.pages.operations["upsertView"]

    def halve(variables: Any) -> dict[str, Any]:
        spec = json.loads(variables["spec"])
        return upsert({**variables, "spec": json.dumps({**spec, "blocks": spec["blocks"][:5]})})

    server.backend._operations["upsertView"] = halve
    assert "the server returned a different report" in refusal(tmp_path / "r")


def test_a_password_in_the_servers_address_is_refused_and_not_shown(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", server.url.replace("//", "//user:aV3ryS3cretWord@"))
    measure(tmp_path / "r", "a")
    with pytest.raises(ConfigError) as caught:
        report(tmp_path / "r")
    assert "aV3ryS3cretWord" not in str(caught.value)
