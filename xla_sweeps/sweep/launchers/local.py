"""Run jobs on this machine: one at a time on each slot, a device with the cores near it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import msgspec

from xla_sweeps.errors import DeviceError
from xla_sweeps.measure.failures import error_line
from xla_sweeps.measure.workers import Stop
from xla_sweeps.schema.backend import Backend, backend_named
from xla_sweeps.sweep.launchers import Launch, Launcher
from xla_sweeps.sweep.launchers.job import (
    COMMAND,
    End,
    Ended,
    Job,
    ended_with,
    make_log_folder,
    start,
    wait,
)
from xla_sweeps.sweep.launchers.slots import Slot, job_environment
from xla_sweeps.system.devices import is_accelerator
from xla_sweeps.system.environment import child_environment
from xla_sweeps.system.forking import Child, NotForked, Order, Parent, fork
from xla_sweeps.system.leases import lease_names
from xla_sweeps.system.process import Assignment, signal_group, signal_process

STOP_GRACE_S = 20.0

TRIALS = (sys.executable, "-m", "xla_sweeps.cli.composed")
"""Imports once what a trial's own process needs, and forks trials that the sweep has composed."""

START_S = 60.0


@dataclass(eq=False)
class _Running:
    job: Job
    slot: Slot
    parent: socket.socket | None = None
    trials: socket.socket | None = None
    process: Child | None = None
    stop: Stop = field(default_factory=Stop)
    ended: threading.Event = field(default_factory=threading.Event)


class LocalLauncher(Launcher):
    """Starts each job as a process group of its own, on a slot that has no other job.

    Args:
        slots: the slots to use.
        command: what a job's arguments follow.
        fresh: whether no measuring process is forked; else one for each slot loads the framework
            once, and forks those of jobs that allow it.
        trials: forks the jobs that have their configuration, one for each slot.
        warn: called once for each slot, with why a trial was not forked.

    Attributes:
        together: leases that every job holds while it measures, besides its own device's.
    """

    name = "local"
    targets = True
    takes_documents = True

    def __init__(
        self,
        slots: Sequence[Slot],
        *,
        command: Sequence[str] = COMMAND,
        fresh: bool = False,
        trials: Sequence[str] = TRIALS,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.together: tuple[str, ...] = ()
        self.forks = not fresh
        self._slots = list(slots)
        self._command, self._trials = tuple(command), tuple(trials)
        self._parents: dict[str, Parent] = {}
        self._warn, self._warned = warn, set[str]()
        self._lock = threading.Lock()
        self._running: dict[Future[Ended], _Running] = {}

    def slots(self) -> list[str]:
        """The names of the slots."""
        return [slot.name for slot in self._slots]

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        """The number of idle slots with such a device, or of that name."""
        with self._lock:
            return sum(slot in (None, idle.name) for idle in self._idle(accelerator))

    def _idle(self, accelerator: str | None) -> list[Slot]:
        busy = {id(running.slot) for running in self._running.values()}
        return [
            slot
            for slot in self._slots
            if id(slot) not in busy
            and (accelerator is None or is_accelerator(slot.device.name, accelerator))
        ]

    def submit(self, job: Job) -> Future[Ended]:
        """Start a job on an idle slot.

        Raises:
            DeviceError: none is idle; ask `free` first.
        """
        future: Future[Ended] = Future()
        with self._lock:
            idle = [slot for slot in self._idle(job.accelerator) if job.slot in (None, slot.name)]
            if not idle:
                raise DeviceError("no device is idle")
            running = self._running[future] = _Running(job, idle[0])
        slot = running.slot
        environ = job_environment(os.environ, slot)
        if job.forks and self.forks:
            running.parent = self._parent(backend_named(job.forks), environ, running)
        if job.document is not None and self._trials:
            running.trials = self._connected("trials", self._trials, environ, running)
        threading.Thread(
            target=self._run, args=(future,), name=f"job on {idle[0].name}", daemon=True
        ).start()
        return future

    def _parent(
        self, backend: Backend, environ: Mapping[str, str], running: _Running
    ) -> socket.socket | None:
        """A connection to what forks measuring processes of a backend; None where nothing does."""
        if "parent" not in backend.programs:
            return None
        measuring = child_environment(environ, device=running.slot.device, backend=backend)
        return self._connected(
            f"{backend.name}-parent", backend.command("parent"), measuring, running
        )

    def _connected(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], running: _Running
    ) -> socket.socket | None:
        """A connection to a parent of the slot's, started here; None where there is none."""
        job, slot = running.job, running.slot
        name = f"{name}-{slot.name.replace(':', '')}"
        if name not in self._parents:
            log = job.log.with_name(f"{name}.log")
            self._parents[name] = Parent(
                command, environment=environment, cores=slot.cores, log=log
            )
        with contextlib.suppress(OSError):
            make_log_folder(job.log)
            return self._parents[name].connection()
        return None

    def slot_of(self, future: Future[Ended]) -> str:
        """The slot that the job runs on."""
        running = self._running.get(future)
        return running.slot.name if running else ""

    def drain(self, slot: str) -> bool:
        """Give a slot no more jobs, unless it is the last."""
        with self._lock:
            rest = [other for other in self._slots if other.name != slot]
            if not rest or len(rest) == len(self._slots):
                return False
            self._slots = rest
        return True

    def stop(self, *, now: bool) -> None:
        """Ask the jobs to save and end, and kill them after a grace period; `now`: kill them."""
        with self._lock:
            jobs = list(self._running.values())
            for running in jobs:
                running.stop.request()
        for running in jobs:
            if running.process is not None:
                _signal(running.process, signal.SIGKILL if now else signal.SIGTERM)
        if not now and jobs:
            threading.Thread(target=_kill_late, args=(jobs,), daemon=True).start()

    def close(self) -> None:
        """Kill what still runs, and wait for it."""
        self.stop(now=True)
        for running in list(self._running.values()):
            running.ended.wait(5)
        while self._parents:
            self._parents.popitem()[1].close()

    def _run(self, future: Future[Ended]) -> None:
        """Run one job; the kernel ends its process with this thread, so the thread waits for it."""
        running = self._running[future]
        job, slot = running.job, running.slot
        try:
            ended = self._supervise(running)
        except Exception as error:  # a thread that dies would leave the sweep waiting for ever
            why = (isinstance(error, OSError) and error.strerror) or error_line(error)
            detail = f"cannot start {job.log.name}: {why}"
            ended = Ended(how=End.BROKEN, slot=slot.name, detail=detail)
        with self._lock:
            del self._running[future]
            running.stop.close()
        running.ended.set()
        future.set_result(ended)

    def _supervise(self, running: _Running) -> Ended:
        job, slot = running.job, running.slot
        process = self._started(running)
        if process is None:
            return Ended(how=End.STOPPED, slot=slot.name)
        running.process = process
        if running.stop.requested:
            _signal(process, signal.SIGTERM)
        with process:
            code = wait(process, job)
        ended = ended_with(code, job, slot=slot.name)
        if running.stop.requested and ended.how is End.DIED:
            return replace(ended, how=End.STOPPED)
        return ended

    def _started(self, running: _Running) -> Child | None:
        """The job's process: forked where the sweep has composed it, or else the command.

        None where it was stopped before it began.
        """
        job, slot, parent, trials = running.job, running.slot, running.parent, running.trials
        environment = job_environment(os.environ, slot)
        assignment = self._assignment(running)
        descriptors = [parent.fileno()] if parent else []
        with parent or contextlib.nullcontext(), trials or contextlib.nullcontext():
            if trials:
                complete = environment | assignment.environment()
                try:
                    return _forked(running, trials, complete, descriptors)
                except NotForked as why:
                    if not running.stop.requested and slot.name not in self._warned:
                        self._warned.add(slot.name)
                        self._warn(f"{slot.name}: trials start afresh, which takes longer: {why}")
            if running.stop.requested:
                return None
            return start(
                job,
                self._command,
                environment=environment,
                assignment=assignment,
                cores=slot.cores,
                descriptors=descriptors,
            )

    def _assignment(self, running: _Running) -> Assignment:
        return Assignment(
            parent=os.getpid(),
            known_records=running.job.known_records,
            together=self.together,
            warm=running.parent.fileno() if running.parent else -1,
        )

    def take_turns(self) -> None:
        """Have only one job measure at a time; they build and compile side by side as before."""
        names = (name for slot in self._slots for name in lease_names(slot.device, slot.cores))
        self.together = tuple(dict.fromkeys(names))


def launcher(launch: Launch) -> LocalLauncher:
    """The launcher of this machine."""
    fresh = bool(launch.options["fresh_processes"])
    return LocalLauncher(launch.slots, warn=launch.warn, fresh=fresh)


def _forked(
    running: _Running,
    trials: socket.socket,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
) -> Child:
    """A job's process, forked from one that has imported what it needs.

    Raises:
        NotForked: it cannot be forked, or was stopped before.
    """
    job = running.job
    document = msgspec.json.encode(job.document).decode()
    order = Order(environment=dict(environment), cores=(), arguments=(document, *job.arguments))
    make_log_folder(job.log)
    with job.log.open("ab", buffering=0) as output:
        forked = fork(
            trials,
            order,
            output=output.fileno(),
            descriptors=descriptors,
            patience_s=START_S,
            stops=[running.stop],
        )
    forked.stdin.close()
    return forked


def _signal(process: Child, number: signal.Signals) -> None:
    """Signal a job: SIGKILL its whole group, SIGTERM the command alone, which ends its children."""
    if number is signal.SIGKILL:
        signal_group(process.pid, number)
    elif process.poll() is None:
        signal_process(process.pid, number)


def _kill_late(jobs: Sequence[_Running]) -> None:
    deadline = time.monotonic() + STOP_GRACE_S
    for running in jobs:
        if (
            not running.ended.wait(max(0.0, deadline - time.monotonic()))
            and running.process is not None
        ):
            _signal(running.process, signal.SIGKILL)
