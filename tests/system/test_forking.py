"""Processes forked from a parent: nothing that dies or hangs takes anything else with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from ended import freeze, join
from paths import SUPPORT

from xla_sweeps.system import forking
from xla_sweeps.system.forking import Forked, NotForked, Order, Parent, fork

PARENT = (sys.executable, str(SUPPORT / "forking_parent.py"))

PATIENCE_S = 120.0


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    made = Parent((*PARENT, ""), environment=os.environ, cores=(), log=tmp_path / "parent.log")
    yield made
    made.close()
    assert "Traceback" not in (tmp_path / "parent.log").read_text()


def forked(parent: Parent, log: Path, *arguments: str, event: int | None = None) -> Forked:
    connection = parent.connection()
    assert connection is not None
    with connection, log.open("ab") as output:
        return fork(
            connection,
            Order(environment={}, cores=(), arguments=arguments),
            output=output.fileno(),
            descriptors=[] if event is None else [event],
            patience_s=PATIENCE_S,
        )


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not holds():
        time.sleep(0.02)
    return holds()


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def pid_of(parent: Parent) -> int:
    process = parent._process
    assert process is not None
    return process.pid


def test_a_forked_process_has_its_own_session_and_the_descriptors_that_it_was_given(
    parent: Parent, tmp_path: Path
) -> None:
    read_end, write_end = os.pipe()
    process = forked(parent, tmp_path / "log", "say", "words", event=write_end)
    os.close(write_end)
    with process, os.fdopen(read_end, "rb") as events:
        process.stdin.write(b"said\n")
        assert process.wait(PATIENCE_S) == 0
        assert events.read() == b"event"
    assert (tmp_path / "log").read_text() == "said words True\n"


@pytest.mark.parametrize(
    ("arguments", "code"), [(("exit", "7"), 7), (("die",), -signal.SIGSEGV), (("raise",), 1)]
)
def test_an_exit_code_is_told_and_the_parent_forks_the_next(
    parent: Parent, tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    with forked(parent, tmp_path / "log", *arguments) as process:
        assert process.wait(PATIENCE_S) == code
        assert process.poll() == code
    first = pid_of(parent)
    with forked(parent, tmp_path / "log", "exit", "0") as process:
        assert process.wait(PATIENCE_S) == 0
    assert pid_of(parent) == first


def test_who_lets_go_ends_the_process_and_all_that_it_started(
    parent: Parent, tmp_path: Path
) -> None:
    process = forked(parent, tmp_path / "log", "hang")
    assert eventually(lambda: "hangs" in (tmp_path / "log").read_text())
    left = [process.pid, *(child.pid for child in psutil.Process(process.pid).children())]
    assert len(left) == 2
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    process.close()
    assert not any(map(alive, left))
    with forked(parent, tmp_path / "log", "exit", "3") as following:
        assert following.wait(PATIENCE_S) == 3


def test_a_parent_that_is_killed_takes_its_process_with_it_and_is_started_again(
    parent: Parent, tmp_path: Path
) -> None:
    with forked(parent, tmp_path / "log", "hang") as process:
        os.kill(pid_of(parent), signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        assert eventually(lambda: not alive(process.pid))
    with forked(parent, tmp_path / "log", "exit", "3") as process:
        assert process.wait(PATIENCE_S) == 3


def test_a_refusal_is_no_process_and_an_unfit_parent_ends(parent: Parent, tmp_path: Path) -> None:
    with pytest.raises(NotForked, match="as the test asked for"):
        forked(parent, tmp_path / "log", "refuse")
    first = pid_of(parent)
    with pytest.raises(NotForked, match="as the test asked for"):
        forked(parent, tmp_path / "log", "unfit")
    assert "as the test asked for" in (tmp_path / "parent.log").read_text()
    assert eventually(lambda: not alive(first))


def test_a_parent_that_always_fails_is_not_started_for_ever(tmp_path: Path) -> None:
    broken = Parent(
        (*PARENT, "broken"), environment=os.environ, cores=(), log=tmp_path / "parent.log"
    )
    for _ in range(forking.MAX_STARTS):
        with pytest.raises(NotForked, match="the parent ended"):
            forked(broken, tmp_path / "log", "exit", "0")
        assert eventually(lambda: not alive(pid_of(broken)))
    assert broken.connection() is None
    broken.close()


def test_a_frozen_parent_is_not_waited_for_and_forks_nothing_once_it_thaws(
    parent: Parent, tmp_path: Path
) -> None:
    with forked(parent, tmp_path / "log", "exit", "0") as process:
        process.wait(PATIENCE_S)
    freeze(pid_of(parent))
    connection = parent.connection()
    assert connection is not None
    with connection, (tmp_path / "log").open("ab") as output:
        order = Order(environment={}, cores=(), arguments=("hang",))
        with pytest.raises(NotForked, match="does not answer"):
            fork(connection, order, output=output.fileno(), patience_s=0.1)
    os.kill(pid_of(parent), signal.SIGCONT)
    with forked(parent, tmp_path / "log", "exit", "3") as process:
        assert process.wait(PATIENCE_S) == 3
        assert psutil.Process(pid_of(parent)).children() in ([], [psutil.Process(process.pid)])


def test_a_parent_and_its_process_end_with_a_user_that_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    code = f"""
import os, sys, time
sys.path[:0] = {[str(SUPPORT.parent / "system"), str(SUPPORT)]!r}
from pathlib import Path
import test_forking as here
parent = here.Parent((*here.PARENT, ""), environment=os.environ, cores=(), log=Path({str(log)!r}))
process = here.forked(parent, Path({str(log)!r}), "hang")
print(here.pid_of(parent), process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        left = [int(word) for word in user.stdout.readline().split()]
        assert len(left) == 2
        user.kill()
    assert eventually(lambda: not any(map(alive, left)))


def test_many_forks_leave_nothing_in_the_parent(parent: Parent, tmp_path: Path) -> None:
    def held() -> tuple[int, int, int]:
        process = psutil.Process(pid_of(parent))
        return process.num_fds(), process.num_threads(), len(process.children())

    counts = set()
    for _ in range(30):
        with forked(parent, tmp_path / "log", "exit", "0") as process:
            process.wait(PATIENCE_S)
        counts.add(held())
    assert len(counts) == 1, counts


def test_a_wait_for_a_parent_ends_with_what_stops_it(tmp_path: Path) -> None:
    ours, nobody = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stop, stopped = socket.socketpair()
    stopped.close()
    with ours, nobody, stop, (tmp_path / "log").open("wb") as output:
        for variables in ({"A": "\udcff"}, {}):
            order = Order(environment=variables, cores=())
            with pytest.raises(NotForked):
                fork(ours, order, output=output.fileno(), patience_s=600, stops=[stop])


def test_a_parent_that_has_forked_may_be_started_again_for_ever(
    parent: Parent, tmp_path: Path
) -> None:
    for _ in range(forking.MAX_STARTS + 1):
        with forked(parent, tmp_path / "log", "exit", "3") as process:
            assert process.wait(PATIENCE_S) == 3
        os.kill(pid_of(parent), signal.SIGKILL)
        assert eventually(lambda: not alive(pid_of(parent)))


def test_a_parent_with_older_software_ends_and_a_new_one_forks(
    parent: Parent, tmp_path: Path
) -> None:
    forked(parent, tmp_path / "log", "exit", "0").close()
    first = pid_of(parent)
    connection = parent.connection()
    assert connection is not None
    with connection, (tmp_path / "log").open("ab") as output:
        newer = Order(environment={}, cores=(), arguments=("exit", "0"), software="newer")
        with pytest.raises(NotForked, match="the parent has loaded older software"):
            fork(connection, newer, output=output.fileno(), patience_s=PATIENCE_S)
    assert eventually(lambda: not alive(first))
    forked(parent, tmp_path / "log", "exit", "0").close()
    assert pid_of(parent) != first


def test_a_parent_that_has_a_thread_forks_nothing() -> None:
    threads_before, ended = forking.threads(), threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        with pytest.raises(SystemExit, match="the parent has 1 thread besides BLAS's"):
            forking.check_threads(threads_before)
    finally:
        ended.set()
        join(thread)
    forking.check_threads(forking.threads())


def test_a_sigterm_before_a_process_begins_ends_it_alone(tmp_path: Path) -> None:
    parent = Parent((*PARENT, "early"), environment=os.environ, cores=(), log=tmp_path / "parent")
    with pytest.raises(NotForked):
        forked(parent, tmp_path / "log", "exit", "0")
    with forked(parent, tmp_path / "log", "exit", "3") as process:
        assert process.wait(PATIENCE_S) == 3
    assert parent._starts == 0, "it is the first parent still"
    parent.close()


def test_a_process_that_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    parent = Parent((*PARENT, "asks"), environment=os.environ, cores=(), log=tmp_path / "parent")
    process = forked(parent, tmp_path / "log", "hang")
    assert eventually(lambda: "hangs" in (tmp_path / "log").read_text())
    process.close()
    assert not alive(process.pid)
    parent.close()
