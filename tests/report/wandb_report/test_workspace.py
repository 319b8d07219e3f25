"""The view of a W&B project, saved by the real client: made once, found again, refused."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from wandb_reports import measure, only
from wandb_server import log_in, wandb_server

from xla_sweeps.cli.dashboard import workspace_command
from xla_sweeps.cli.main import run
from xla_sweeps.cli.results import push_command


def test_the_view_of_a_project_is_made_once_and_updated_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with wandb_server() as server:
        log_in(server, tmp_path / "home", monkeypatch)
        measure(tmp_path / "r", "a", project="vision")
        assert run(["workspace", str(tmp_path / "r")]) == 1
        assert "the project's view could not be saved" in capsys.readouterr().err
        assert push_command([str(tmp_path / "r")]) == 0
        capsys.readouterr()
        assert workspace_command([str(tmp_path / "r")]) == 0
        made = only(server.pages.of_type("project-view"))
        said = f"workspace  {server.url}/tester/vision?nw=xlasweeps"
        assert capsys.readouterr().out == f"{said} (new)\n"
        first = copy.deepcopy(made.spec)
        made.spec["section"]["runSets"][0]["grouping"] = []  # changed by hand
        assert workspace_command(["--entity=tester", "--project=vision"]) == 0
        assert only(server.pages.of_type("project-view")) is made
        assert capsys.readouterr().out == f"{said} (updated)\n"
        assert made.saved == 2
        assert made.spec["section"]["runSets"] == first["section"]["runSets"]
        (runs,) = first["section"]["runSets"]
        assert [key["name"] for key in runs["grouping"]] == ["accelerator.value"]
        (order,) = runs["sort"]["keys"]
        assert (order["key"]["name"], order["ascending"]) == ("speedup_log2", False)
        assert {"config:batch_size.value", "summary:speedup"} <= runs["runFeed"][
            "columnPinned"
        ].keys()
        sections = first["section"]["panelBankConfig"]["sections"]
        assert [len(section["panels"]) for section in sections] == [2, 2, 1]
        assert not server.unknown
