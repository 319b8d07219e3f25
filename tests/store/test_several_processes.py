"""Many trials are read by several processes: the same rows and problems as by one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from factories import make_record

from xla_sweeps.cli.check import examine
from xla_sweeps.store import rows
from xla_sweeps.store.store import Store
from xla_sweeps.system import parallel

COUNT = 5


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the processes answered, one trial a part."""
    given: list[object] = []
    usual = parallel._answer

    def answer(process: Any, result_type: Any) -> object:
        given.append(usual(process, result_type))
        return given[-1]

    monkeypatch.setattr(parallel, "PART", 1)
    monkeypatch.setattr(parallel, "PARTS_OF_PROCESS", 1)
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    monkeypatch.setattr(parallel, "_answer", answer)
    return given


def save_trials(folder: Path) -> None:
    for number in range(COUNT):
        record = make_record(trial_id=f"{number:016x}", noise=0.02, seed=number % 4)
        Store(folder).save(record)
    (folder / "records" / f"{3:016x}" / "1.json").write_text("damaged")


def test_several_processes_read_what_one_does(tmp_path: Path, answers: list[object]) -> None:
    save_trials(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    with pytest.MonkeyPatch.context() as alone:
        alone.setattr(parallel, "usable_cores", lambda: 1)
        wanted = rows.load(tmp_path / "there")
    assert answers == [None] * COUNT
    answers.clear()
    read = rows.load(tmp_path / "here")
    assert len(answers) == COUNT
    assert all(answers), "each part was read by a process"
    assert read.table.equals(wanted.table)
    assert [read.facts, read.records] == [wanted.facts, COUNT]
    (problem,) = read.problems
    assert f"{3:016x}/1.json: " in problem


def test_several_processes_find_what_one_does(tmp_path: Path, answers: list[object]) -> None:
    save_trials(tmp_path)
    with pytest.MonkeyPatch.context() as alone:
        alone.setattr(parallel, "usable_cores", lambda: 1)
        wanted = examine(tmp_path)
    assert answers == [None] * COUNT
    answers.clear()
    found = examine(tmp_path)
    assert len(answers) == COUNT
    assert all(answers)
    assert [found.counts, found.problems, found.notes] == [
        *(wanted.counts, wanted.problems, wanted.notes),
    ]
    damaged, copied = found.problems
    assert f"{3:016x}/1.json: cannot be read: " in damaged
    assert f"{4:016x}/0.json: the same measurement as " in copied
