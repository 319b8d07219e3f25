"""Run jobs on this machine: one at a time on each slot, a device with the cores near it.

Slots of one device prepare beside each other, and take turns at measuring: see `system.leases`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from xla_sweeps.sweeps.launchers import AHEAD, DEVICES, Launcher, LauncherRequest, Options
from xla_sweeps.sweeps.launchers.job import End, Ended, Job, ended_with, one_replicate, start, wait
from xla_sweeps.sweeps.launchers.slots import Slot, job_environment, place_of, places
from xla_sweeps.system.devices import is_accelerator
from xla_sweeps.system.leases import lease_names, to_prepare
from xla_sweeps.system.process import Stop, signal_group
from xla_sweeps.trial.failures import error_line

STOP_GRACE_S = 20.0


@dataclass(eq=False)
class _Running:
    job: Job
    slot: Slot
    process: subprocess.Popen[bytes] | None = None


class LocalLauncher(Launcher):
    """Start each job as a process group of its own, on a slot that has no other job."""

    name = "local"
    options: ClassVar[Options] = {"devices": DEVICES, **AHEAD}
    on_devices = targets = True

    def __init__(self, request: LauncherRequest) -> None:
        self._together: tuple[str, ...] = ()
        """Leases that every job holds while it measures, besides its own device's."""
        self._ahead = request.options.get("ahead") or 0
        self._slots, self._command = places(request.slots, self._ahead), request.command
        self._lock = threading.Lock()
        self._running: dict[Future[Ended], _Running] = {}
        self._stop = Stop()

    def slots(self) -> list[str]:
        """The names of the slots."""
        return [slot.name for slot in self._slots]

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        """The number of idle slots with such a device, or of that name."""
        with self._lock:
            return len(self._idle(accelerator, slot))

    def _idle(self, accelerator: str | None, name: str | None = None) -> list[Slot]:
        busy = {id(running.slot) for running in self._running.values()}
        return [
            slot
            for slot in self._slots
            if id(slot) not in busy
            and name in (None, slot.name)
            and is_accelerator(slot.device.name, accelerator or "")
        ]

    def submit(self, job: Job) -> Future[Ended]:
        """Start a job on an idle slot; ask `free` first."""
        future: Future[Ended] = Future()
        with self._lock:
            slot = self._idle(job.accelerator, job.slot)[0]
            self._running[future] = _Running(job, slot)
        threading.Thread(target=self._run, args=(future,), daemon=True).start()
        return future

    def slot_of(self, future: Future[Ended]) -> str:
        """The slot that the job runs on."""
        running = self._running.get(future)
        return running.slot.name if running else ""

    def drain(self, slot: str) -> bool:
        """Give a device no more jobs, unless it is the last."""
        with self._lock:
            rest = [other for other in self._slots if place_of(other.name) != place_of(slot)]
            if not rest or len(rest) == len(self._slots):
                return False
            self._slots = rest
        return True

    def stop(self, *, now: bool) -> None:
        """Ask the jobs to save and end, and kill them after a grace period; `now`: kill them."""
        with self._lock:
            self._stop.request()
            jobs = dict(self._running)
        for running in jobs.values():
            _signal(running.process, signal.SIGKILL if now else signal.SIGTERM)
        if not now and jobs:
            threading.Thread(target=_kill_late, args=(jobs,), daemon=True).start()

    def close(self) -> None:
        """Kill what still runs, and wait for it."""
        left = list(self._running)
        self.stop(now=True)
        if not futures.wait(left, 5).not_done:
            self._stop.close()

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
        future.set_result(ended)

    def _supervise(self, running: _Running) -> Ended:
        job, slot = running.job, running.slot
        turns = to_prepare(slot.device, slot.cores) | {*self._together} if self._ahead else ()
        mine = msgspec.structs.replace(one_replicate(job), together=self._together)
        process = running.process = start(
            job,
            self._command,
            environment=job_environment(os.environ, slot),
            assignment=mine,
            cores=slot.cores,
            turns=turns,
            stop=self._stop,
        )
        if process is None:
            return Ended(how=End.STOPPED, slot=slot.name)
        if self._stop.requested:
            _signal(process, signal.SIGTERM)
        with process:
            code = wait(process, job)
        ended = ended_with(code, job, slot=slot.name)
        if self._stop.requested and ended.how is End.DIED:
            return replace(ended, how=End.STOPPED)
        return ended

    def take_turns(self) -> None:
        """Have only one job measure at a time; they build and compile side by side as before."""
        names = (name for slot in self._slots for name in lease_names(slot.device, slot.cores))
        self._together = tuple(dict.fromkeys(names))


def _signal(process: subprocess.Popen[bytes] | None, number: signal.Signals) -> None:
    """Signal a job: SIGKILL its whole group, SIGTERM the command alone, which ends its children."""
    if process is None:
        return
    if number is signal.SIGKILL:
        signal_group(process.pid, number)
    else:
        process.send_signal(number)


def _kill_late(jobs: Mapping[Future[Ended], _Running]) -> None:
    for future in futures.wait(jobs, STOP_GRACE_S).not_done:
        _signal(jobs[future].process, signal.SIGKILL)
