"""A job: how its end is told from its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from xla_sweeps.sweeps.launchers.job import (
    End,
    Ended,
    Job,
    end_of,
    ended_with,
    one_replicate,
    start,
    wait,
)
from xla_sweeps.system.process import Stop


@pytest.mark.parametrize(
    ("exit_code", "said", "how", "detail"),
    [
        (0, "bye", End.FINISHED, ""),
        (1, "bye", End.FINISHED, "exit code 1: bye"),
        (2, "unknown model", End.FAILED, "unknown model"),
        (3, "left", End.DIED, "exit code 3: left"),
        (70, "a bug", End.BROKEN, "exit code 70: a bug"),
        (75, "locked", End.LOCKED, "exit code 75: locked"),
        (-9, "", End.DIED, "SIGKILL"),
        (137, "oops", End.DIED, "SIGKILL: oops"),
        (139, "oops", End.DIED, "SIGSEGV: oops"),
        (143, "", End.STOPPED, "SIGTERM"),
    ],
)
def test_how_a_job_ended_is_told_from_its_exit_code_and_last_line(
    exit_code: int, said: str, how: End, detail: str, tmp_path: Path
) -> None:
    job = Job(arguments=(), log=tmp_path / "job.log")
    job.log.write_text(f"first\n{said}\n\n" if said else "")
    ended = ended_with(exit_code, job, slot="n0")
    assert ended == Ended(how=how, slot="n0", detail=detail)


def started(job: Job, *command: str) -> subprocess.Popen[bytes]:
    mine = one_replicate(job)
    with Stop() as never:
        process = start(job, command, environment=os.environ, assignment=mine, stop=never)
    assert process is not None
    return process


def test_a_job_that_was_preempted_counts_its_own_records_and_names_them(tmp_path: Path) -> None:
    code = "from xla_sweeps.system.process import Assignment; import os; "
    code += "mine = Assignment.of(os.environ); open(mine.recorded, 'a').write('r\\n'); "
    code += "print(mine.known_records)"
    folder = tmp_path / "logs" / "sweeps" / "s"
    job = Job(arguments=(), log=folder / "job.log", known_records=3)
    for _ in range(2):
        process = started(job, sys.executable, "-c", code)
        assert wait(process, job) == 0
    assert job.log.read_text().split() == ["3", "4"]
    ended = ended_with(0, job, slot="n0")
    assert ended.paths == ("r", "r")
    assert msgspec.json.decode(msgspec.json.encode(ended), type=Ended) == ended


def test_a_job_that_writes_nothing_is_killed_and_its_log_says_so(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "sweeps" / "s" / "job.log"
    job = Job(arguments=("60",), log=log, silent_s=0.2)
    process = started(job, "sleep")
    assert end_of(wait(process, job)) is End.BROKEN
    assert log.read_text() == "\nhung: not a line for 0 s; killed\n"
