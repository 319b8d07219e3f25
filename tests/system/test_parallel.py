"""Parts of much work in several processes: the same results, whatever becomes of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import parts
import pytest
from parts import ASKER, Sum
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
for done, result in parallel.in_parts(parts.{function}, "", items, parts.Sum):
    print("part")
"""


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setenv(ASKER, str(os.getpid()))


def test_parts_come_in_order_from_several_processes_which_then_end() -> None:
    results = list(in_parts(parts.sum_of, "", ITEMS, Sum))
    assert [done for done, _ in results] == [*range(PART, len(ITEMS), PART), len(ITEMS)]
    firsts = [sum(map(int, ITEMS[first : first + PART])) for first in range(0, len(ITEMS), PART)]
    assert [one.total for _, one in results] == firsts
    processes = {one.process for _, one in results}
    assert len(processes) == 2
    assert not {os.getpid(), *children(os.getpid())} & processes


def test_little_work_stays_in_this_process() -> None:
    results = list(in_parts(parts.sum_of, "", ITEMS[: len(ITEMS) // 2], Sum))
    assert {one.process for _, one in results} == {os.getpid()}


def test_a_process_that_dies_costs_time_only() -> None:
    results = list(in_parts(parts.dies, "", ITEMS, Sum))
    assert sum(one.total for _, one in results) == sum(map(int, ITEMS))


def test_a_process_that_cannot_be_started_costs_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "python_command", lambda *_: ("/nowhere/python",))
    results = list(in_parts(parts.sum_of, "", ITEMS, Sum))
    assert {one.process for _, one in results} == {os.getpid()}


def test_an_error_of_the_function_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="at 100"):
        list(in_parts(parts.fails, "", ITEMS, Sum))
    assert not capfd.readouterr().err


def run_script(tmp_path: Path, function: str) -> subprocess.Popen[str]:
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT.format(function=function, count=len(ITEMS)))
    pipe, line = subprocess.PIPE, [sys.executable, str(script)]
    return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    output, errors = run_script(tmp_path, "sum_of").communicate(timeout=60)
    assert not errors
    assert output.split() == ["began", *["part"] * (len(ITEMS) // PART + 1)]


def test_an_interrupt_ends_the_processes_at_once_without_a_word_from_them(tmp_path: Path) -> None:
    script = run_script(tmp_path, "naps")
    deadline = time.monotonic() + 30
    while len(workers := children(script.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(script.pid, signal.SIGINT)
    _, errors = script.communicate(timeout=10)
    assert errors.count("KeyboardInterrupt") == 1
    assert "parts.py" not in errors
    assert len(workers) == 2
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
