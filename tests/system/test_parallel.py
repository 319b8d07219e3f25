"""Parts of much work in several processes: the same results, whatever becomes of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import parts
import pytest
from parts import ASKER, Done
from paths import SUPPORT

from xla_sweeps.system import parallel
from xla_sweeps.system.parallel import PART, PARTS_OF_PROCESS, in_parts
from xla_sweeps.system.process import children

ITEMS = list(map(str, range(2 * PART * PARTS_OF_PROCESS + 1)))

SCRIPT = """
import parts
from xla_sweeps.system import parallel
parallel.usable_cores = lambda: 2
print("began")
items = list(map(str, range({count})))
for done, result in parallel.in_parts(parts.{function}, {folder!r}, items, parts.Done):
    print("part")
"""


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setenv(ASKER, str(os.getpid()))


def processes_of(
    function: Callable[[str, Sequence[str]], Done], items: Sequence[str] = ITEMS
) -> set[int]:
    """The processes that did all items, in their order."""
    results = list(in_parts(function, "", items, Done))
    ends = range(PART, len(items) + PART, PART)
    assert [count for count, _ in results] == [min(end, len(items)) for end in ends]
    assert [item for _, one in results for item in one.items] == items
    return {one.process for _, one in results}


def test_parts_come_in_order_from_several_processes_which_then_end() -> None:
    processes = processes_of(parts.done)
    assert len(processes) == 2
    assert not {os.getpid(), *children(os.getpid())} & processes


def test_little_work_stays_in_this_process() -> None:
    assert processes_of(parts.done, ITEMS[: len(ITEMS) // 2]) == {os.getpid()}


@pytest.mark.parametrize("function", [parts.dies, parts.dies_within_an_answer])
def test_a_process_that_dies_costs_time_only(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, usual = list[Any](), subprocess.Popen

    def start(*command: Any, **how: Any) -> Any:
        started.append(usual(*command, **how))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    assert processes_of(function) == {os.getpid()}
    assert [process.returncode for process in started] == [1, 1]


def test_a_process_that_cannot_be_started_costs_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "python_command", lambda *_: ("/nowhere/python",))
    assert processes_of(parts.done) == {os.getpid()}


def test_a_process_of_another_installation_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_PACKAGE", "/another/xla_sweeps")
    assert processes_of(parts.done) == {os.getpid()}


def test_names_that_are_no_text_are_read_in_this_process() -> None:
    strange = os.fsdecode(b"\xff.txt")
    processes = processes_of(parts.done, [strange, *ITEMS])
    assert len(processes) == 2
    assert os.getpid() in processes


def test_an_error_of_the_function_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="at the second part"):
        list(in_parts(parts.fails, "", ITEMS, Done))
    assert not capfd.readouterr().err


def test_who_needs_no_more_parts_waits_for_none() -> None:
    before = {*children(os.getpid())}
    results = in_parts(parts.notes, "", ITEMS, Done)
    next(results)
    assert len({*children(os.getpid())} - before) == 2
    results.close()
    assert {*children(os.getpid())} <= before
    assert not parts.HERE, "what is left is not done here"


def run_script(tmp_path: Path, function: str) -> subprocess.Popen[str]:
    script = tmp_path / "unguarded.py"
    text = SCRIPT.format(function=function, count=len(ITEMS), folder=str(tmp_path))
    script.write_text(text)
    pipe, line = subprocess.PIPE, [sys.executable, str(script)]
    return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    output, errors = run_script(tmp_path, "done").communicate(timeout=60)
    assert not errors
    assert output.split() == ["began", *["part"] * (len(ITEMS) // PART + 1)]


def test_an_interrupt_ends_the_processes_at_once_without_a_word_from_them(tmp_path: Path) -> None:
    script = run_script(tmp_path, "naps")
    deadline = time.monotonic() + 60
    while len(napping := list(tmp_path.glob("[0-9]*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {int(path.name) for path in napping} == {*children(script.pid)}
    os.killpg(script.pid, signal.SIGINT)
    _, errors = script.communicate(timeout=20)
    assert errors.count("KeyboardInterrupt") == 1
    assert "parts.py" not in errors
    assert not any(Path("/proc", path.name).exists() for path in napping)
