"""Parts of much work in several processes: the same results, whatever becomes of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from xla_sweeps.system import parallel
from xla_sweeps.system.parallel import PART, PARTS_OF_PROCESS, in_parts
from xla_sweeps.system.process import children

ITEMS = range(2 * PART * PARTS_OF_PROCESS + 1)

SCRIPT = """
import naps
from xla_sweeps.system import parallel
parallel.usable_cores = lambda: 2
print("began")
for done, result in parallel.in_parts({function}, range({count})):
    print(done, flush=True)
"""


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)


def where(numbers: Sequence[int]) -> tuple[int, int]:
    return sum(numbers), os.getpid()


def dies(asker: int, numbers: Sequence[int]) -> int:
    if os.getpid() != asker:
        os._exit(1)
    return sum(numbers)


def fails(numbers: Sequence[int]) -> int:
    print("in a process, to the answer's descriptor", flush=True)
    if numbers[0] == PART:
        raise ValueError(f"at {numbers[0]}")
    return sum(numbers)


def test_parts_come_in_order_from_several_processes_which_then_end() -> None:
    results = list(in_parts(where, ITEMS))
    assert [done for done, _ in results] == [*range(PART, len(ITEMS), PART), len(ITEMS)]
    assert sum(total for _, (total, _) in results) == sum(ITEMS)
    processes = {process for _, (_, process) in results}
    assert len(processes) == 2
    assert not {os.getpid(), *children(os.getpid())} & processes


def test_little_work_stays_in_this_process() -> None:
    results = list(in_parts(where, ITEMS[: len(ITEMS) // 2]))
    assert {process for _, (_, process) in results} == {os.getpid()}


def test_a_process_that_dies_costs_time_only() -> None:
    results = list(in_parts(partial(dies, os.getpid()), ITEMS))
    assert sum(total for _, total in results) == sum(ITEMS)


def test_a_process_that_cannot_be_started_costs_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "python_command", lambda *_: ("/nowhere/python",))
    assert {process for _, (_, process) in in_parts(where, ITEMS)} == {os.getpid()}


def test_an_error_of_the_function_is_raised() -> None:
    with pytest.raises(ValueError, match=f"at {PART}"):
        list(in_parts(fails, ITEMS))


def run_script(tmp_path: Path, function: str) -> subprocess.Popen[str]:
    (tmp_path / "naps.py").write_text("import time\ndef nap(part): time.sleep(60)\n")
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT.format(function=function, count=len(ITEMS)))
    return subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        start_new_session=True,
    )


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    output, errors = run_script(tmp_path, "len").communicate(timeout=60)
    assert not errors
    first, *rest = output.split()
    assert (first, len(rest)) == ("began", len(ITEMS) // PART + 1)


def test_an_interrupt_ends_the_processes_at_once_without_a_word_from_them(tmp_path: Path) -> None:
    script = run_script(tmp_path, "naps.nap")
    deadline = time.monotonic() + 30
    while len(workers := children(script.pid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(script.pid, signal.SIGINT)
    _, errors = script.communicate(timeout=10)
    assert errors.count("KeyboardInterrupt") == 1
    assert "naps.py" not in errors
    assert len(workers) == 2
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
