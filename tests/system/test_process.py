"""A launcher's orders to its trial, requests by signals, and trees of processes."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time

import psutil
import pytest
from ended import alive, wait_until
from programs import run_program

from xla_sweeps.system import process
from xla_sweeps.system.process import (
    JOB_VARIABLE,
    Assignment,
    StopSignals,
    descendants,
    kill_tree,
)


def test_an_assignment_travels_in_one_variable_of_the_environment() -> None:
    given = Assignment(
        parent=7, known_records=0, recorded="/r/1.records", together=("gpu-0", "gpu-1")
    )
    assert list(given.environment()) == [JOB_VARIABLE]
    assert Assignment.of(given.environment()) == given


def test_an_assignment_is_taken_by_one_process_only() -> None:
    environ = Assignment(parent=7).environment()
    assert Assignment.take(environ).parent == 7
    assert environ == {}
    assert Assignment.take(environ) == Assignment(), "as for a person"
    assert Assignment().known_records is None


def test_a_second_sigterm_changes_nothing_and_a_second_interrupt_kills() -> None:
    calls: list[str] = []
    with StopSignals(on_kill=lambda: calls.append("kill")) as stop:
        assert not stop.requested
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert process.becomes_readable(stop, 0)
        assert (stop.number, stop.kill) == (signal.SIGTERM, False)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.kill
    assert stop.number == signal.SIGTERM
    assert calls == ["kill"]


def test_handlers_of_before_are_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals(numbers=(signal.SIGTERM, signal.SIGUSR1)):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_tree_ends_with_the_members_that_left_the_group() -> None:
    child = (
        "import subprocess, sys, time; "
        "subprocess.Popen(['sleep', '60'], start_new_session=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", child])
    assert wait_until(lambda: descendants(process.pid))
    members = descendants(process.pid)
    kill_tree(process.pid)
    process.wait(120)
    assert len(members) == 1
    assert wait_until(lambda: not any(map(alive, members)))
    assert descendants(process.pid) == []


@pytest.mark.parametrize("first", [False, True])
def test_what_was_left_behind_is_killed_but_not_what_others_left_in_a_container(
    first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "inherits_all", lambda: first)
    leave = ["sh", "-c", "setsid sleep 60 > /dev/null & echo $!"]
    with process.adopting_orphans() as mark:
        own, foreign = (
            int(subprocess.run(leave, env=env, stdout=subprocess.PIPE, check=True).stdout)
            for env in ({**os.environ, **mark}, dict(os.environ))
        )
        assert {own, foreign} <= set(process.children(os.getpid()))
        while {psutil.Process(pid).name() for pid in (own, foreign)} != {"sleep"}:
            time.sleep(0.01)  # a process that is becoming another program has no variables
    assert not psutil.pid_exists(own)
    assert psutil.pid_exists(foreign) == first
    if first:
        os.kill(foreign, signal.SIGKILL)
        os.waitpid(foreign, 0)


def test_a_command_heeds_the_signals_that_its_caller_ignores_or_blocks() -> None:
    program = (
        "import signal, sys\nfrom xla_sweeps.__main__ import main\nfrom signal import *\n"
        "for number in (SIGCHLD, SIGTERM, SIGINT, SIGHUP): signal(number, SIG_IGN)\n"
        "pthread_sigmask(SIG_BLOCK, valid_signals())\nsys.argv[1:] = ['--version']\n"
        "try:\n    main()\nexcept SystemExit:\n"
        "    print(*(getsignal(one).__name__ if one is SIGINT else getsignal(one).name\n"
        "        for one in (SIGCHLD, SIGTERM, SIGINT, SIGHUP)), pthread_sigmask(SIG_BLOCK, ()))"
    )
    done = run_program(sys.executable, "-c", program)
    restored = "SIG_DFL SIG_DFL default_int_handler SIG_IGN set()"  # SIGHUP: of nohup
    assert done.stdout.splitlines()[1:] == [restored], done.stderr


def test_a_wait_takes_more_open_files_than_select_does() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, most[1]), most[1]))
    ends = os.pipe()
    high = fcntl.fcntl(ends[0], fcntl.F_DUPFD, 1500)
    try:
        assert not process.becomes_readable(high, 0)
        os.close(ends[1])
        assert process.becomes_readable(high, None)
    finally:
        os.close(high)
        os.close(ends[0])
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
