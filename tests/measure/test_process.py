"""Supervision of the measuring process, with real processes that die in real ways."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from factories import TRIAL
from paths import SUPPORT

from xla_sweeps.measure import process, protocol
from xla_sweeps.measure.attempt import Attempt
from xla_sweeps.measure.dialogue import LOG_LIMIT_BYTES
from xla_sweeps.schema.measurement import Load, Phase, Round, Status
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.forking import Parent
from xla_sweeps.system.leases import Leases
from xla_sweeps.system.process import children

WORKER = str(SUPPORT / "fake_worker.py")

PARENT = (sys.executable, str(SUPPORT / "fake_parent.py"), "any")


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parent]:
    """Forks measuring processes."""
    log = tmp_path_factory.mktemp("parent") / "log"
    made = Parent(PARENT, environment=os.environ, cores=(), log=log)
    yield made
    made.close()


@pytest.fixture(params=["fresh", "forked"], autouse=True)
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How `attempt` starts measuring processes."""
    forks = request.getfixturevalue("parent") if request.param == "forked" else None
    monkeypatch.setattr(sys.modules[__name__], "START", forks)
    monkeypatch.setattr(process, "TERM_GRACE_S", 0.5)  # some ignore SIGTERM


START: Parent | None = None

STAGE_S, WAIT_S = 2.0, 3.0
"""A deadline that a busy machine keeps, and a longer wait."""


@dataclass
class QuietMachine:
    """A monitor that finds one round contaminated, if told to."""

    gpu = None
    dirty: Mapping[int, str] = field(default_factory=dict)
    disturbances: list[str] = field(default_factory=list)
    pid: int = 0
    exceeded: Callable[[], None] | None = None

    def review(self, rounds: Sequence[Round]) -> Mapping[int, str]:
        return {item.round: self.dirty[item.round] for item in rounds if item.round in self.dirty}

    def loads(self, rounds: Sequence[Round]) -> Mapping[int, Load]:
        return {}

    def disturbance(self) -> str:
        return self.disturbances.pop(0) if self.disturbances else ""

    def summary(self) -> Mapping[str, Any]:
        return {"samples": 3}

    @contextmanager
    def watch(self, pid: int, exceeded: Callable[[], None]) -> Iterator[QuietMachine]:
        self.pid, self.exceeded = pid, exceeded
        yield self


def attempt(
    tmp_path: Path,
    *script: str,
    machine: QuietMachine | None = None,
    on_event: Callable[[protocol.Event], None] = lambda event: None,
    stop: process.Stop | None = None,
    leases: Leases | None = None,
    quiet_s: float = 0.0,
    compile_s: float = 30,
    warmup_s: float = 30,
) -> Attempt:
    limits = replace(TRIAL.timeouts, compile_s=compile_s, warmup_s=warmup_s)
    trial = replace(TRIAL, timeouts=limits)
    machine = machine or QuietMachine()
    own_stop = process.Stop()
    connection = START.connection() if START else None
    try:
        result = process.run_attempt(
            ReplicateJob(trial=trial, replicate=0, modes=("graph", "xla"), order_seed=1),
            environment=os.environ | {"XLA_SWEEPS_FAKE_WORKER": " ".join(script)},
            log=tmp_path / "child.log",
            watch=machine.watch,
            stop=stop or own_stop,
            leases=leases or Leases((), holder="test"),
            on_event=on_event,
            quiet_s=quiet_s,
            command=(sys.executable, WORKER, *script),
            parent=connection,
        )
        if machine.pid:
            assert result.process == ("forked" if START else "fresh")
        return result
    finally:
        own_stop.close()
        if connection:
            connection.close()
        if leases:
            leases.close()
        assert not alive(machine.pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_every_event_of_a_process_is_kept(tmp_path: Path) -> None:
    seen: list[protocol.Event] = []
    result = attempt(tmp_path, on_event=seen.append)
    assert result.finished
    assert result.status is Status.OK
    assert result.failure is None
    assert [item.round for item in result.rounds] == list(range(8))
    assert set(result.modes) == {"graph", "xla"}
    assert result.model is not None
    assert result.model.params == 7
    assert result.environment == {"tensorflow": "fake"}
    assert result.sync == {"works": True}
    assert result.contamination == {"samples": 3}
    assert [type(event).__name__ for event in seen[-3:]] == ["Square", "Square", "Finished"]


def test_output_of_the_libraries_goes_to_the_log_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    attempt(tmp_path)
    assert "output of a library" in (tmp_path / "child.log").read_text()
    assert capfd.readouterr() == ("", "")


def test_the_child_is_told_which_rounds_were_contaminated(tmp_path: Path) -> None:
    seen: list[protocol.Event] = []
    result = attempt(tmp_path, machine=QuietMachine(dirty={5: "steal 30 %"}), on_event=seen.append)
    squares = [event for event in seen if isinstance(event, protocol.Square)]
    assert {
        item.round: item.dirty for square in squares for item in square.rounds if item.dirty
    } == {5: "steal 30 %"}
    assert {item.round: item.dirty for item in result.rounds if item.dirty} == {5: "steal 30 %"}
    assert "review {5: 'steal 30 %'}" in (tmp_path / "child.log").read_text()


def test_an_exception_in_one_mode_leaves_the_others(tmp_path: Path) -> None:
    result = attempt(tmp_path, "raise:xla")
    assert result.finished
    assert result.modes["xla"].status is Status.COMPILE_ERROR
    assert result.modes["graph"].status is Status.OK
    assert not result.dead_mode


@pytest.mark.parametrize(("how", "kind"), [("segv", "SIGSEGV"), ("exit", "exit code 3")])
def test_a_death_while_preparing_a_mode_is_that_modes_failure(
    tmp_path: Path, how: str, kind: str
) -> None:
    result = attempt(tmp_path, f"{how}:xla")
    assert not result.finished
    assert result.dead_mode == "xla"
    assert result.status is Status.CRASHED
    failure = result.modes["xla"].failure
    assert failure is not None
    assert (failure.kind, failure.phase) == (kind, Phase.COMPILE)
    assert result.modes["graph"].status is Status.OK


def test_a_death_while_measuring_keeps_the_rounds_already_received(tmp_path: Path) -> None:
    result = attempt(tmp_path, "die-at:0")
    assert result.status is Status.CRASHED
    assert not result.dead_mode
    assert [item.round for item in result.rounds] == [0, 1, 2, 3]


def test_a_hang_that_ignores_sigterm_is_killed_at_its_stages_deadline(tmp_path: Path) -> None:
    result = attempt(tmp_path, "hang:xla", compile_s=1.5)
    assert result.status is Status.TIMEOUT
    assert result.dead_mode == "xla"
    assert result.failure is not None
    assert result.failure.message == "stage 'compile' timed out after 1.5 s"


def test_grandchildren_do_not_outlive_their_trial(tmp_path: Path) -> None:
    result = attempt(tmp_path, "grandchild:graph")
    pid = int(
        next(flag for flag in result.flags if flag.startswith("grandchild:")).partition(":")[2]
    )
    deadline = time.monotonic() + 120
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)


@pytest.fixture
def closing_stop() -> Iterator[process.Stop]:
    with process.Stop() as stop:
        yield stop


def test_a_request_to_stop_keeps_the_rounds_measured_so_far(
    tmp_path: Path, closing_stop: process.Stop
) -> None:
    stop = closing_stop

    def stop_soon(event: protocol.Event) -> None:
        if isinstance(event, protocol.Square):
            threading.Timer(0.3, stop.request).start()

    result = attempt(tmp_path, "wait-at:0", stop=stop, on_event=stop_soon)
    assert result.status is Status.INTERRUPTED
    assert [item.round for item in result.rounds] == [0, 1, 2, 3]
    assert not result.dead_mode


def test_a_stop_before_the_start_starts_nothing(tmp_path: Path, closing_stop: process.Stop) -> None:
    closing_stop.request()
    machine = QuietMachine()
    result = attempt(tmp_path, stop=closing_stop, machine=machine)
    assert result.status is Status.INTERRUPTED
    assert not machine.pid


def test_a_process_past_its_memory_limit_is_oom_host_and_not_an_interrupt(
    tmp_path: Path, closing_stop: process.Stop
) -> None:
    stop, machine = closing_stop, QuietMachine()

    def exceed(event: protocol.Event) -> None:
        if isinstance(event, protocol.Stage) and event.mode == "xla":
            assert machine.exceeded is not None
            machine.exceeded()

    result = attempt(tmp_path, "hang:xla", stop=stop, machine=machine, on_event=exceed)
    assert result.status is Status.OOM_HOST
    assert result.dead_mode == "xla"
    assert not stop.requested
    assert result.failure is not None
    assert result.failure.message.endswith("limit of 8.0 GiB")
    assert attempt(tmp_path, stop=stop).finished, "the next process is not stopped by it"


def test_bytes_that_are_not_an_event_are_ignored(tmp_path: Path) -> None:
    assert attempt(tmp_path, "garbage").finished


@pytest.mark.parametrize("script", ["fork", "setsid", "linger", "chatter"])
def test_what_the_model_started_neither_holds_up_nor_outlives_the_replicate(
    script: str, tmp_path: Path
) -> None:
    before = set(children(os.getpid()))
    result = attempt(tmp_path, script)
    assert result.finished
    assert result.status is Status.OK
    assert set(children(os.getpid())) == before
    assert str(tmp_path) not in "".join(command_lines())


def command_lines() -> Iterator[str]:
    """Of every fake worker."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = entry.read_text()
            if WORKER in line:
                yield line


@pytest.mark.parametrize(
    ("script", "status", "says"),
    [
        (("flood", "hang:graph"), Status.RUN_ERROR, "wrote more into the channel of our events"),
        (("deaf",), Status.RUN_ERROR, "wrote more into the channel of our events"),
        (("close",), Status.RUN_ERROR, "closed a file descriptor that it did not open"),
        (("chatter", "hang:graph"), Status.TIMEOUT, "stage 'compile' timed out after 1 s"),
    ],
)
def test_a_process_that_misuses_its_channel_is_ended_with_the_right_words(
    script: Sequence[str], status: Status, says: str, tmp_path: Path
) -> None:
    result = attempt(tmp_path, *script, compile_s=1 if "chatter" in script else 30)
    assert result.status is status
    assert result.failure is not None
    assert says in result.failure.message


def test_a_process_that_never_reads_a_long_job_is_ended_at_the_deadline(tmp_path: Path) -> None:
    trial = replace(TRIAL, timeouts=replace(TRIAL.timeouts, build_s=0.2))
    with process.Stop() as stop:
        result = process.run_attempt(
            ReplicateJob(trial=trial, replicate=0, modes=("graph",) * 30_000, order_seed=1),
            environment=dict(os.environ),
            log=tmp_path / "child.log",
            watch=QuietMachine().watch,
            stop=stop,
            leases=Leases((), holder="test"),
            on_event=lambda event: None,
            command=("sh", "-c", "exec sleep 600"),
        )
    assert result.status is Status.TIMEOUT


def test_a_log_keeps_its_beginning_and_its_last_words_within_a_limit(tmp_path: Path) -> None:
    attempt(tmp_path, "loud", "segv:graph")
    content = (tmp_path / "child.log").read_bytes()
    assert len(content) <= LOG_LIMIT_BYTES
    assert content.startswith(b"output of a library")
    assert b"bytes cut" in content
    assert content.rstrip().endswith(b"last words")


def test_a_clock_that_runs_slower_than_the_machines_is_flagged_and_not_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_sweeps.measure.attempt.CLOCK_SLACK_S", 0.1)
    result = attempt(tmp_path, "slow-clock")
    assert result.contaminated
    assert "clock_differs" in result.flags
    assert all(item.dirty for item in result.rounds)


def test_progress_is_answered_once_it_is_shown(tmp_path: Path) -> None:
    shown: list[str] = []

    def show(event: protocol.Event) -> None:
        if isinstance(event, protocol.Progressed):
            time.sleep(0.3)
            square = (tmp_path / "child.log").read_text().count("review")
            shown.append(f"after {event.measured} rounds: {square} squares")

    result = attempt(tmp_path, "progress", on_event=show)
    assert result.finished
    assert shown == ["after 4 rounds: 1 squares", "after 8 rounds: 2 squares"]


def test_a_replicate_waits_for_the_device_and_says_for_whom_and_no_deadline_runs(
    tmp_path: Path,
) -> None:
    waits = []
    with Leases(["core-0"], holder="the other trial") as other:
        assert other.take() == ""

        def note(event: protocol.Event) -> None:
            if isinstance(event, protocol.Waiting):
                waits.append(event.holder)
                threading.Timer(WAIT_S, other.close).start()

        leases = Leases(["core-0"], holder="mine")
        result = attempt(tmp_path, on_event=note, leases=leases, warmup_s=STAGE_S)
    assert result.finished
    assert waits == [f"the other trial (pid {os.getpid()})"]


def test_a_replicate_that_waits_for_the_device_can_be_stopped(tmp_path: Path) -> None:
    with Leases(["core-0"], holder="other") as other, process.Stop() as stop:
        other.take()

        def note(event: protocol.Event) -> None:
            if isinstance(event, protocol.Waiting):
                stop.request()

        leases = Leases(["core-0"], holder="mine")
        result = attempt(tmp_path, on_event=note, leases=leases, stop=stop)
    assert result.status is Status.INTERRUPTED


def test_a_replicate_waits_for_quiet_and_says_what_disturbs_and_no_deadline_runs(
    tmp_path: Path,
) -> None:
    said: list[protocol.Event] = []
    busy = ["others use 1.4 of 2 cores (python)"] * 7 + ["others use 0.9 of 2 cores"]
    machine = QuietMachine(disturbances=busy)
    result = attempt(tmp_path, on_event=said.append, machine=machine, quiet_s=60, warmup_s=STAGE_S)
    assert result.finished
    (event,) = [item for item in said if isinstance(item, protocol.Disturbed)]
    assert event == protocol.Disturbed(cause="others use 1.4 of 2 cores (python)", at_most_s=60)
    assert not machine.disturbances
    assert WAIT_S <= result.contamination["waited_s"] < 60


def test_a_wait_for_quiet_ends_after_its_limit_and_can_be_stopped(tmp_path: Path) -> None:
    machine = QuietMachine(disturbances=["others use 2 of 2 cores"] * 1000)
    result = attempt(tmp_path, machine=machine, quiet_s=1)
    assert result.finished
    assert result.contamination["waited_s"] == 1.0

    with process.Stop() as stop:

        def note(event: protocol.Event) -> None:
            if isinstance(event, protocol.Disturbed):
                stop.request()

        stopped = attempt(tmp_path, machine=machine, on_event=note, stop=stop, quiet_s=600)
    assert stopped.status is Status.INTERRUPTED
    assert not stopped.rounds
