"""Runs jobs on this machine: one at a time on each device, a device by its UUID, its cores near to it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from xla_sweeps.errors import DeviceError
from xla_sweeps.sweep.launchers import COMMAND, End, Ended, Job, end_of, last_line
from xla_sweeps.system import devices as environment
from xla_sweeps.system.process import PARENT_VARIABLE

STOP_GRACE_S = 20.0

_CPU_LANE = re.compile(r"cpu(?::(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A device with the cores that go with it; one job at a time.

    Attributes:
        cores: numbers of the cores; empty where all may be used.
    """

    name: str
    device: environment.Device
    cores: tuple[int, ...] = ()

    @property
    def core_count(self) -> int:
        """How many cores a job on it may use."""
        return len(self.cores) or environment.usable_cores()


def lanes_for(
    asked: str | None, *, found: Sequence[environment.Device] | None = None
) -> list[Lane]:
    """The lanes that `--devices` asks for: `gpu:0,gpu:1`, `cpu`, or `cpu:0,cpu:1` to split the cores in two.

    Args:
        asked: what was given; None is every GPU, or the CPU where there is none.
        found: the devices there are; default: this machine's.

    Raises:
        DeviceError: one is absent, or asked for twice, or there are more parts than cores.
    """
    devices = list(environment.devices() if found is None else found)
    gpus = [device for device in devices if device.kind == "gpu"]
    if asked is None:
        return [_gpu_lane(gpu, len(gpus)) for gpu in gpus] or [Lane(name="cpu", device=devices[-1])]
    names = [name.strip() for name in asked.split(",") if name.strip()]
    if not names or len(set(names)) != len(names):
        raise DeviceError(
            f"--devices={asked}: name each device once, as in --devices=gpu:0,gpu:1 or cpu:0,cpu:1"
        )
    if all(_CPU_LANE.fullmatch(name) for name in names):
        return _cpu_lanes(names, devices[-1])
    labels = {gpu.label: gpu for gpu in gpus} | {gpu.uuid: gpu for gpu in gpus if gpu.uuid}
    for name in names:
        if name not in labels:
            there = ", ".join(gpu.label for gpu in gpus) or "no GPU"
            raise DeviceError(
                f"--devices={asked}: {name} is not here; this machine has {there} and cpu"
            )
    return [_gpu_lane(labels[name], len(names)) for name in names]


def _cpu_lanes(names: Sequence[str], cpu: environment.Device) -> list[Lane]:
    """The CPU whole, or in as many equal parts as there are names."""
    if len(names) == 1:
        return [Lane(name=names[0], device=cpu)]
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // len(names)
    if not share:
        raise DeviceError(
            f"--devices={','.join(names)}: {len(names)} parts of {len(cores)} cores cannot be made"
        )
    return [
        Lane(name=name, device=cpu, cores=tuple(cores[index * share : (index + 1) * share]))
        for index, name in enumerate(names)
    ]


def _gpu_lane(gpu: environment.Device, count: int) -> Lane:
    """A GPU; beside others, with the cores of its own NUMA node."""
    near = environment.near_cores(gpu) if count > 1 else ()
    return Lane(name=gpu.label, device=gpu, cores=tuple(near))


@dataclass(eq=False)
class _Running:
    job: Job
    lane: Lane
    process: subprocess.Popen[bytes] | None = None
    stopped: bool = False
    ended: threading.Event = field(default_factory=threading.Event)


class LocalLauncher:
    """Starts each job as a process group of its own, on a device that no other job of ours has.

    Args:
        lanes: the devices to use.
        command: what a job's arguments follow.

    Attributes:
        environment: further variables for the jobs.
    """

    name = "local"
    targets = True

    def __init__(self, lanes: Sequence[Lane], *, command: Sequence[str] = COMMAND) -> None:
        self.environment: dict[str, str] = {}
        self._lanes = list(lanes)
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._running: dict[Future[Ended], _Running] = {}

    def lanes(self) -> list[str]:
        """The names of the devices."""
        return [lane.name for lane in self._lanes]

    def free(self, accelerator: str | None, lane: str | None = None) -> int:
        """How many devices of the kind, or of that name, have nothing to do."""
        with self._lock:
            return sum(lane in (None, idle.name) for idle in self._idle(accelerator))

    def _idle(self, accelerator: str | None) -> list[Lane]:
        busy = {id(running.lane) for running in self._running.values()}
        return [
            lane
            for lane in self._lanes
            if id(lane) not in busy
            and (accelerator is None or environment.is_accelerator(lane.device.name, accelerator))
        ]

    def submit(self, job: Job) -> Future[Ended]:
        """Start a job on an idle device.

        Raises:
            DeviceError: none is idle; ask `free` first.
        """
        future: Future[Ended] = Future()
        with self._lock:
            idle = [lane for lane in self._idle(job.accelerator) if job.lane in (None, lane.name)]
            if not idle:
                raise DeviceError("no device is idle")
            self._running[future] = _Running(job, idle[0])
        threading.Thread(
            target=self._run, args=(future,), name=f"job on {idle[0].name}", daemon=True
        ).start()
        return future

    def where(self, future: Future[Ended]) -> str:
        """The device that the job runs on."""
        running = self._running.get(future)
        return running.lane.name if running else ""

    def drain(self, where: str) -> bool:
        """Give a device no more jobs, unless it is the last."""
        with self._lock:
            rest = [lane for lane in self._lanes if lane.name != where]
            if not rest or len(rest) == len(self._lanes):
                return False
            self._lanes = rest
        return True

    def stop(self, *, now: bool) -> None:
        """Ask the jobs to save and end, and end them after a grace; `now`: kill their groups."""
        with self._lock:
            running = list(self._running.values())
        for item in running:
            item.stopped = True
            if item.process is not None:
                _signal(item.process, signal.SIGKILL if now else signal.SIGTERM)
        if not now and running:
            threading.Thread(target=_kill_late, args=(running,), daemon=True).start()

    def close(self) -> None:
        """Kill what still runs, and wait for it."""
        self.stop(now=True)
        for item in list(self._running.values()):
            item.ended.wait(5)

    def _run(self, future: Future[Ended]) -> None:
        """One job, in a thread that lives as long as its process: the kernel ends the process with it."""
        running = self._running[future]
        job, lane = running.job, running.lane
        try:
            ended = self._supervise(running)
        except OSError as error:
            ended = Ended(
                how=End.DIED,
                where=lane.name,
                detail=f"cannot start {job.log.name}: {error.strerror}",
            )
        with self._lock:
            del self._running[future]
        running.ended.set()
        future.set_result(ended)

    def _supervise(self, running: _Running) -> Ended:
        job, lane = running.job, running.lane
        job.log.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("ab") as output:
            process = subprocess.Popen(
                [*self._command, *job.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=job_environment(os.environ, lane) | self.environment,
            )
        if lane.cores:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(process.pid, lane.cores)
        running.process = process
        if running.stopped:
            _signal(process, signal.SIGTERM)
        code = process.wait()
        _signal(process, signal.SIGKILL)  # what it left behind
        how = end_of(code)
        detail = "" if how is End.FINISHED else last_line(job.log)
        if how is End.DIED:
            detail = f"exit code {code}: {detail}"
        return Ended(
            how=End.STOPPED if running.stopped and how is End.DIED else how,
            where=lane.name,
            detail=detail,
        )


def job_environment(environ: Mapping[str, str], lane: Lane) -> dict[str, str]:
    """A job's environment: this one's, with the one device that it may see, and its parent to die with."""
    gpu = lane.device.kind == "gpu"
    visible = (lane.device.uuid or str(lane.device.index)) if gpu else ""
    return {**environ, PARENT_VARIABLE: str(os.getpid()), "CUDA_VISIBLE_DEVICES": visible}


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a job's whole group.

    SIGTERM goes to the command alone, which ends its own children.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if number is signal.SIGKILL:
            os.killpg(process.pid, number)
        elif process.poll() is None:
            os.kill(process.pid, number)


def _kill_late(running: Sequence[_Running]) -> None:
    deadline = time.monotonic() + STOP_GRACE_S
    for item in running:
        if not item.ended.wait(max(0.0, deadline - time.monotonic())) and item.process is not None:
            _signal(item.process, signal.SIGKILL)
