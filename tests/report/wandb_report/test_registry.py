"""`report --registry`: the artifact of all rows is linked to a W&B registry, once."""

from __future__ import annotations

from pathlib import Path

import pytest
from wandb_reports import measure, only, report
from wandb_server import WandbServer

from xla_sweeps.cli import main


def linked(server: WandbServer) -> list[tuple[str, ...]]:
    """The links, with the type of the artifact in place of its id."""
    types = {artifact.id: artifact.type for artifact in server.pages.artifacts.values()}
    return [(*place, types[artifact]) for *place, artifact in server.pages.links]


def test_the_rows_are_linked_once_and_again_when_they_change(
    server: WandbServer, tmp_path: Path
) -> None:
    measure(tmp_path / "r", "a", "b")
    assert report(tmp_path / "r") == 0
    assert linked(server) == []
    for _ in range(2):
        assert report(tmp_path / "r", registry="benchmarks") == 0
        (run,) = server.runs
        link = ("acme-org", "wandb-registry-benchmarks", f"results-{run}", "dataset")
        assert linked(server) == [link]
    measure(tmp_path / "r", "c", day=2)
    assert report(tmp_path / "r", registry="benchmarks") == 0
    assert linked(server) == [link, link]
    assert len({artifact for *_, artifact in server.pages.links}) == 2
    assert server.unknown == []


@pytest.mark.parametrize("organizations", [[], ["acme", "other"]])
def test_an_account_without_one_organization_gets_the_report_and_one_clear_line(
    server: WandbServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    organizations: list[str],
) -> None:
    measure(tmp_path / "r", "a")
    server.pages.organizations = organizations
    assert report(tmp_path / "r", registry="benchmarks") == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "registry" in line]
    assert line == (
        "warning: not linked to the registry benchmarks: it belongs to an organization, and tester "
        "is of none or of several; choose a team with --entity"
    )
    assert linked(server) == []
    only(server.pages.of_type("runs"))


def test_a_refused_link_is_reported_and_repaired_by_the_same_command(
    server: WandbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "r", "a")
    server.fail_with(403, when=lambda path, body: "linkArtifact" in body)
    assert report(tmp_path / "r", registry="benchmarks") == 1
    assert capsys.readouterr().err.count("not linked to the registry benchmarks: ") == 1
    server.heal()
    assert report(tmp_path / "r", registry="benchmarks") == 0
    assert len(linked(server)) == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--registry", "a/b"], "report: --registry=a/b: expected the name of a W&B registry, at"),
        (
            ["--registry", ""],
            "report: --registry=: expected the name of a W&B registry, at most 113",
        ),
        (["--registry", "a", "--dry-run"], "report: --registry links what is sent to W&B; --dry-"),
    ],
)
def test_a_wrong_registry_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    measure(tmp_path / "r", "a")
    assert main.run(["report", str(tmp_path / "r"), *words]) == 2
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1
