"""A results folder in which somebody linked a folder: nothing is written where it leads."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from commands import forked
from driving import Notes
from factories import TRIAL, make_outcome, make_record
from foreign_place import SLURM
from made_files import make_programs

from xla_sweeps.cli import main
from xla_sweeps.errors import StoreError, XlaSweepsError
from xla_sweeps.report.wandb_report import publish
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.store.rows import load
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.launchers import ray, wandb_agents
from xla_sweeps.sweeps.launchers.job import Job, make_log_folder, start
from xla_sweeps.system.process import Assignment, Stop
from xla_sweeps.trial import workers
from xla_sweeps.trial.workers import WorkerCommand

WORDS = ["model=mobilenet_v2", "resolution=32", "modes=[graph,xla]", "device=cpu"]
WORDS += ["tracker=none", "results_dir=results"]

SWEEP = {
    "name": "s",
    "program": "xla_sweeps",
    "method": "grid",
    "parameters": {"seed": {"values": [1, 2]}, "effort.duplicates": {"value": 0}},
}


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that links lead to; it stays as it is."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "outside"
    folder.mkdir()
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(SWEEP))
    return folder


def linked(name: str, outside: Path) -> Path:
    """A results folder with a link of this name; returns the results folder."""
    results = outside.parent / "results"
    link = results / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    return results


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hydra", ["trial", *WORDS, "ui=plain"]),
        ("hydra", ["trial", "-m", *WORDS, "ui=plain", "seed=1,2"]),
        ("logs", ["sweep", "sweep", "s.yaml", *WORDS]),
        ("logs/sweeps", ["sweep", "sweep", "s.yaml", *WORDS]),
        ("slurm", ["sweep", "sweep", "s.yaml", *WORDS[:3], *WORDS[4:]]),
    ],
)
def test_a_command_refuses_a_linked_folder_in_one_line(
    name: str, arguments: list[str], outside: Path
) -> None:
    linked(name, outside)
    tools = make_programs(outside.parent / "bin", "#!/bin/sh\necho refused >&2; exit 1\n", *SLURM)
    program, *words = [*arguments, *(["--launcher", "slurm"] if name == "slurm" else [])]
    own = {"FAKE_WORKER": "", "PATH": f"{tools}:{os.environ['PATH']}"}
    done = forked(program, *words, cwd=outside.parent, more=own)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert f"results/{name}" in done.stderr
    assert "is a link or no folder" in done.stderr
    assert list(outside.iterdir()) == []


def agents(results: Path) -> object:
    return wandb_agents.run("a/b/c", slots=[], results_dir=results, screen=Notes())


def definition(results: Path) -> object:
    return wandb_agents.create(Path("s.yaml"), {}, results)


def log_of_a_job(results: Path) -> None:
    make_log_folder(results / "logs" / "sweeps" / "s-1" / "a.log")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("logs", agents),
        ("logs/agents", agents),
        ("logs/sweeps", definition),
        ("logs/sweeps", log_of_a_job),
        ("logs/sweeps/s-1", log_of_a_job),
    ],
)
def test_what_a_sweep_starts_is_not_written_through_a_link(
    name: str, write: Callable[[Path], object], outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*command: object, **options: object) -> None:
        raise XlaSweepsError("a command was started")

    monkeypatch.setattr(subprocess, "run", refuse)
    results = linked(name, outside)
    with pytest.raises((StoreError, OSError), match="is a link or no folder"):
        write(results)
    assert list(outside.iterdir()) == []


def test_a_log_that_comes_back_from_a_node_goes_through_no_link(outside: Path) -> None:
    results = linked("logs/sweeps", outside)
    ray.keep_log("said\n", results / "logs" / "sweeps" / "s-1" / "a.log")
    assert list(outside.iterdir()) == []


def of_a_job(log: Path) -> object:
    with Stop() as never:
        job = Job(arguments=(), log=log)
        return start(job, ["true"], environment={}, assignment=Assignment(), stop=never)


def of_a_worker(log: Path) -> object:
    command = WorkerCommand(
        backend=default_backend(), environment={}, log=log, labels=(), trial=TRIAL
    )
    with Stop() as never:
        return workers.start(command, mark={}, stop=never, on_event=print)


@pytest.mark.parametrize("begin", [of_a_job, of_a_worker])
def test_nothing_starts_whose_log_is_a_link(begin: Callable[[Path], object], outside: Path) -> None:
    precious = outside / "precious"
    precious.write_text("precious")
    log = outside.parent / "results" / "logs" / "sweeps" / "s-1" / "a.log"
    log.parent.mkdir(parents=True)
    log.symlink_to(precious)
    with pytest.raises((StoreError, OSError), match="symbolic link"):
        begin(log)
    ray.keep_log("said\n", log)
    assert (log.read_text(), precious.read_text()) == ("said\n", "precious")


def test_the_files_of_a_report_replace_links_and_keep_what_these_lead_to(outside: Path) -> None:
    results = outside.parent / "results"
    Store(results).save(make_record(modes={"graph": make_outcome(0.2), "xla": make_outcome(0.1)}))
    precious = outside / "precious"
    precious.write_text("precious")
    folder = results / "wandb"
    folder.mkdir()
    names = ("comparison.parquet", "dashboard.html", "page.key")
    for name in names:
        (folder / name).symlink_to(precious)
    rows = load(results)
    made = publish.attachments(results, rows, folder, warn=print)
    assert precious.read_text() == "precious"
    assert [path.name for path in made] == list(names[:2])
    assert not any((folder / name).is_symlink() for name in names)
    before = made[1].stat().st_mtime_ns
    publish.attachments(results, rows, folder, warn=print)
    assert made[1].stat().st_mtime_ns == before


def test_the_page_is_not_written_through_a_link_that_nobody_named(
    outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = outside.parent / "results"
    Store(results).save(make_record(modes={"graph": make_outcome(0.2), "xla": make_outcome(0.1)}))
    (results / "dashboard.html").symlink_to(outside / "page.html")
    assert main.run(["dashboard", str(results)]) == 2
    assert "dashboard.html is a link: name the file with -o" in capsys.readouterr().err
    assert list(outside.iterdir()) == []
