"""Launchers are found by name; one of another package is its module and an entry point."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import pytest
from paths import ROOT

from xla_sweeps.cli.sweep_options import options_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.sweeps.launchers import Launcher, LauncherRequest, Options, launchers
from xla_sweeps.sweeps.launchers.job import Ended, Job


class InTurnLauncher(Launcher):
    """The recipe's example: one command after the other."""

    name = "in_turn"
    options: ClassVar[Options] = {"pause": {"type": float, "help": "seconds between two trials"}}

    def __init__(self, request: LauncherRequest) -> None:
        self.pause_s: Any = request.options.get("pause", 0.0)

    def slots(self) -> list[str]:
        return ["here"]

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        return 1

    def submit(self, job: Job) -> Future[Ended]:
        return Future()

    def slot_of(self, future: Future[Ended]) -> str:
        return "here"

    def stop(self, *, now: bool) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package whose metadata names a launcher."""
    metadata = tmp_path / "cluster_of_mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: cluster-of-mine\n")
    place = f"in_turn = {__name__}:InTurnLauncher\n"
    (metadata / "entry_points.txt").write_text(f"[xla_sweeps.launchers]\n{place}")
    monkeypatch.syspath_prepend(tmp_path)
    launchers.cache_clear()
    yield metadata
    launchers.cache_clear()


def test_a_package_adds_a_launcher_and_its_options_by_an_entry_point(another_package: Path) -> None:
    options = options_of(["smoke", "--launcher", "in_turn", "--pause", "0.5"])
    request = LauncherRequest(options=options.launching, results_dir=Path(), slots=(), warn=print)
    made = options.kind(request)
    assert isinstance(made, InTurnLauncher)
    assert made.pause_s == 0.5
    with pytest.raises(ConfigError, match="--pause is for --launcher in_turn, not for local"):
        options_of(["smoke", "--pause", "1"])


def test_a_launcher_that_cannot_be_loaded_is_named(another_package: Path) -> None:
    entry = another_package / "entry_points.txt"
    entry.write_text("[xla_sweeps.launchers]\nbroken = nowhere_at_all:Launcher\n")
    with pytest.raises(ConfigError, match=r"launcher broken \(nowhere_at_all:Launcher\) cannot be"):
        launchers()


def test_a_launcher_costs_two_files() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    recipe = guide.partition("## Add a launcher: two files")[2].partition("\n## ")[0]
    files = re.findall(r"(?m)^\| `([\w/.]+\.py)`", recipe)
    assert len(files) == 2
    assert (ROOT / "xla_sweeps" / files[1]).is_file()
