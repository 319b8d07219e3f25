"""Run jobs on a Ray cluster: a task each, with a device of its own, whose records are copied back.

Ray never tries again (`max_retries=0`): the driver decides that. Needs the extra `ray`, and the
same versions of Python, Ray and this package on every node.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.environment_options import WANDB_DIR
from xla_sweeps.sweeps.launchers import (
    AHEAD,
    QUEUE_LIMIT,
    SLOTS,
    Launcher,
    LauncherRequest,
    Options,
)
from xla_sweeps.sweeps.launchers.job import (
    End,
    Ended,
    Job,
    ended_with,
    make_log_folder,
    start,
    wait,
)
from xla_sweeps.sweeps.launchers.slots import MEMORY_GIB, Slot, ahead_on
from xla_sweeps.system.devices import Device, cores_of_one, devices
from xla_sweeps.system.files import replace_whole, scratch_folder
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.system.leases import to_prepare, without_leases
from xla_sweeps.system.process import Assignment, Stop

CONNECT_S = 10.0

ASK_S, ANSWER_S = 1.0, 1.0

LOG_LIMIT = 256 * 1024


class RayLauncher(Launcher):
    """Submit jobs to a cluster.

    Without an `address`, or one in RAY_ADDRESS, it starts one on this machine; `auto` joins the one
    that runs here.
    """

    name = "ray"
    options: ClassVar[Options] = {
        "address": {
            "help": "the cluster's address (default: $RAY_ADDRESS, else start one on this machine)"
        },
        "slots": SLOTS,
        **AHEAD,
    }

    def __init__(self, request: LauncherRequest) -> None:
        ray = _import_ray()
        asked = request.options.get("address")
        address = asked or os.environ.get("RAY_ADDRESS") or None  # which Ray obeys; None starts one
        given = f"--address={address}" if asked else f"RAY_ADDRESS={address}"
        _require_listening(given, address)
        self._ray, self._warn, self._command = ray, request.warn, list(request.command)
        self.asked_slots = request.options.get("slots")
        self._queue_limit: int = self.asked_slots or QUEUE_LIMIT
        config = ray.job_config.JobConfig()
        config._py_driver_sys_path = _Fixed()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(
                address=address,
                job_config=config,
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                logging_level="ERROR",
                ignore_reinit_error=True,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise _no_answer(given, str(error).splitlines()[0]) from error
        self._jobs: dict[Future[Ended], tuple[Any, str]] = {}
        self._warned: set[str | None] = {None}
        self._stopping = self._closed = False
        self._slot_by_key: dict[str, str] = {}
        self._asked = 0.0
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=True
        )
        notes = ray.remote(num_cpus=0, max_restarts=-1, scheduling_strategy=here)(_Notes)
        self._notes = notes.remote()
        self._ahead = self._ahead_of(request.options.get("ahead") or 0)

    @classmethod
    def preview(cls, options: Mapping[str, Any], *, jobs: int, results_dir: Path) -> str:
        """Nothing to show, where Ray is installed."""
        _import_ray()
        return ""

    def slots(self) -> list[str]:
        """The nodes that are up."""
        return [f"{node['NodeManagerHostname']}:{node['NodeID'][:6]}" for node in self._nodes()]

    def free(self, accelerator: str | None, slot: str | None = None) -> int:
        """The number of further jobs that may be queued."""
        if self._stopping:
            return 0
        if accelerator not in self._warned and not self._nodes(accelerator):
            self._warned.add(accelerator)
            self._warn(f"no node of the cluster has an {accelerator} yet; its trials wait")
        return max(0, self._queue_limit - len(self._jobs))

    def submit(self, job: Job) -> Future[Ended]:
        """Queue a job as a task with one GPU where the cluster has any, else a node's CPUs.

        Those that prepare ahead share a node, and its processes, of which a new one would disturb.
        """
        calls = 0 if self._ahead else 1
        given = self._resources(job)
        ahead = self._ahead > 0 and not given["num_gpus"]
        task = self._ray.remote(max_calls=calls, max_retries=0, **given)(run_job)
        key = f"{id(job)}-{job.log.name}"
        job = replace(job, log=job.log.absolute())
        ref = task.remote(job, self._command, key, self._notes, ahead=ahead)
        future: Future[Ended] = Future()
        self._jobs[future] = (ref, key)
        ref.future().add_done_callback(lambda done: self._finish(future, job, done))
        return future

    def slot_of(self, future: Future[Ended]) -> str:
        """The node that the job runs on."""
        entry = self._jobs.get(future)
        if entry is None:
            return ""
        if time.monotonic() > self._asked + ASK_S:
            self._ask()
        return self._slot_by_key.get(entry[1], "")

    def _ask(self) -> None:
        """Ask which node each job runs on; without an answer, what was known before still holds."""
        self._asked = time.monotonic()
        with contextlib.suppress(Exception):
            self._slot_by_key = self._ray.get(self._notes.slots.remote(), timeout=ANSWER_S)

    def stop(self, *, now: bool) -> None:
        """Cancel the jobs that wait; those that run may save and end, or are killed."""
        self._stopping = True
        if self._jobs and not now:
            self._ask()
        for ref, key in list(self._jobs.values()):
            with contextlib.suppress(Exception):
                if key in self._slot_by_key and not now:
                    self._notes.stop.remote(key)
                else:
                    self._ray.cancel(ref, force=True)

    def close(self) -> None:
        """Cancel everything and leave the cluster; end it where this launcher started it."""
        if self._closed:
            return  # after leaving it, any call of Ray would start a cluster here
        self._closed = True
        self.stop(now=True)
        self._ray.shutdown()

    def _resources(self, job: Job) -> dict[str, Any]:
        chosen = {} if job.accelerator is None else {"accelerator_type": job.accelerator}
        nodes = self._nodes(job.accelerator)
        if any(node["Resources"].get("GPU") for node in nodes):
            return {"num_gpus": 1, "num_cpus": 1, **chosen}
        cores = min((int(node["Resources"]["CPU"]) for node in nodes), default=1)
        if self._ahead:
            share = math.floor(1e4 * cores / (1 + self._ahead)) / 1e4  # as exact as Ray counts
            memory = MEMORY_GIB * 2**30
            return {"num_cpus": share, "num_gpus": 0, "memory": memory, **chosen}
        return {"num_cpus": cores, "num_gpus": 0, **chosen}

    def _ahead_of(self, asked: int) -> int:
        """Number of trials that prepare beside one on every node; a warning where it is less."""
        given, nodes = [(asked, "")], self._nodes() if asked else []
        if len({node["Resources"]["CPU"] for node in nodes}) > 1:
            given = [(0, f"--ahead={asked} is 0 here: nodes differ in their number of cores")]
        for node in nodes:
            has = node["Resources"]
            device = Device(kind="gpu" if has.get("GPU") else "cpu", index=0, name="")
            slot = Slot(name="", device=device, cores=tuple(range(int(has["CPU"]))))
            given.append(ahead_on([slot], asked, free_bytes=has.get("memory")))
        ahead, less = min(given)
        if less:
            self._warn(less)
        return ahead

    def _nodes(self, accelerator: str | None = None) -> list[dict[str, Any]]:
        """The nodes that are up, or those of them with such an accelerator."""
        wanted = "CPU" if accelerator is None else f"accelerator_type:{accelerator}"
        up = (node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU"))
        return [node for node in up if wanted in node["Resources"]]

    def _finish(self, future: Future[Ended], job: Job, done: Any) -> None:
        """Report how a task ended; its log and its records are copied back."""
        try:
            ended = done.result()
            keep_log(ended.output, job.log)
        except BaseException as error:  # whatever the engine raises for a job that it lost
            kind = type(error).__name__
            cancelled = self._stopping or kind in ("CancelledError", "TaskCancelledError")
            first = next(iter(str(error).strip().splitlines()), "")
            how = End.STOPPED if cancelled else End.LOST
            ended = Ended(how=how, detail=f"{kind}: {first}")
        _, key = self._jobs.pop(future)
        with contextlib.suppress(Exception):
            self._notes.note_end.remote(key)
        future.set_result(ended)


class _Notes:
    """An actor that knows which node each job runs on and which jobs are to stop; strings only."""

    def __init__(self) -> None:
        self._slots: dict[str, str] = {}
        self._stopped: set[str] = set()

    def note_start(self, key: str, slot: str) -> None:
        self._slots[key] = slot

    def slots(self) -> dict[str, str]:
        return self._slots

    def note_end(self, key: str) -> None:
        self._slots.pop(key, None)

    def stop(self, key: str) -> None:
        self._stopped.add(key)

    def is_stopped(self, key: str) -> bool:
        return key in self._stopped


class _Fixed(list[str]):
    """Keeps the current folder off the workers' `sys.path`; Ray 2.60.0 has no switch for it."""

    def extend(self, values: Iterable[str]) -> None:
        pass


def keep_log(output: str, log: Path) -> None:
    """Keep a job's output that came back from its node, where that is possible."""
    with contextlib.suppress(OSError):
        make_log_folder(log)
        replace_whole(log, output.encode())


def run_job(job: Job, command: Sequence[str], key: str, notes: Any, *, ahead: bool) -> Ended:
    """Run one job on a node, with a results folder of its own, whose records are copied back.

    With `ahead`, it prepares beside another one there; until it may, it counts as waiting, which a
    stop cancels.
    """
    import ray

    node = f"{socket.gethostname()}:{ray.get_runtime_context().get_node_id()[:6]}"
    if ahead and (why := without_leases()):
        return Ended(how=End.BROKEN, slot=node, detail=f"--ahead: {why}")

    def note_start() -> None:
        with contextlib.suppress(Exception):
            ray.get(notes.note_start.remote(key, node), timeout=10)

    with scratch_folder() as folder, Stop() as never:
        results = folder / "results"
        arguments = (*_elsewhere(job), f"results_dir={results}")
        kept, log = job.log.parents[3], results / "logs" / "sweeps" / "ray" / "job.log"
        places = {WANDB_DIR: str(kept)} if kept.is_dir() else {}  # what is written here is removed
        job = replace(job, arguments=arguments, log=log, variables={**places, **job.variables})
        variables = {**given_variables(), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # as Ray numbers them
        cores: tuple[int, ...] = ()
        with contextlib.suppress(XlaSweepsError):
            cores = cores_of_one(variables)
        turns = to_prepare(devices()[-1], cores) if ahead else ()
        process = start(
            job,
            command,
            environment=variables,
            assignment=Assignment(parent=os.getpid()),
            cores=cores,
            turns=turns,
            stop=never,
            begin=note_start,
        )
        assert process is not None

        def stop_if_asked() -> None:
            with contextlib.suppress(Exception):
                if ray.get(notes.is_stopped.remote(key), timeout=10):
                    process.terminate()

        code = wait(process, job, every_s=1.0, look=stop_if_asked)
        records = sorted((results / "records").glob("*/*.json"))
        return replace(
            ended_with(code, job, slot=node),
            records=tuple(path.read_bytes() for path in records),
            output=_output(job.log, results / "logs"),
        )


def _elsewhere(job: Job) -> list[str]:
    """A job's arguments for a node: no results folder; of trackers only one that is asked for."""
    kept = [word for word in job.arguments if not word.startswith("results_dir=")]
    asked = {WANDB_DIR, "WANDB_MODE"}.intersection(job.variables)
    tracked = asked or any(word.startswith("tracker=") for word in kept)
    return kept if tracked else [*kept, "tracker=none"]


def _output(log: Path, folder: Path) -> str:
    """A job's output and the other logs in a folder; the middle is cut out where it is long."""
    text = log.read_text("utf-8", "replace") + "".join(
        f"\n--- {path.name}\n{path.read_text('utf-8', 'replace')}"
        for path in folder.rglob("*.log")
        if path != log
    )
    half = LOG_LIMIT // 2
    return text if len(text) <= LOG_LIMIT else f"{text[:half]}\n[... cut ...]\n{text[-half:]}"


def given_variables() -> dict[str, str]:
    """A node's variables, without the number of threads that Ray sets where nobody did.

    That number would be part of the trial's identity. Ray sets it in the running worker; /proc has
    the variables that the worker began with.
    """
    began = Path("/proc/self/environ").read_bytes().split(b"\0")
    given = any(variable.startswith(b"OMP_NUM_THREADS=") for variable in began)
    return {name: value for name, value in os.environ.items() if given or name != "OMP_NUM_THREADS"}


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError(f"--launcher ray needs Ray: {how_to_install('ray')}") from None
    return ray


def _require_listening(given: str, address: str | None) -> None:
    """Raise an error within seconds if nothing listens there; Ray itself tries for minutes."""
    host, _, port = (address or "").rpartition(":")
    if "/" in host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except OSError as error:
        raise _no_answer(given, error.strerror or str(error)) from error


def _no_answer(given: str, why: str) -> XlaSweepsError:
    return XlaSweepsError(f"{given}: no Ray cluster answers: {why}")
