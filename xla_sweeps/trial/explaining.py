"""Explain a model in a process of its own, which is started and followed as a trial's is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from xla_sweeps.config.settings import Settings
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.backend import backends_of, default_backend
from xla_sweeps.schema.explanation import Explanation, OpList
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system import environment, programs
from xla_sweeps.system.files import scratch_folder
from xla_sweeps.system.installation import install
from xla_sweeps.system.leases import Leases, whole_replicate
from xla_sweeps.system.process import StopSignals, adopting_orphans
from xla_sweeps.trial import protocol, workers
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.monitor import Sampler


def explain(
    settings: Settings,
    *,
    trace: bool,
    on_stage: Callable[[protocol.Stage], None],
    on_wait: Callable[[str], None],
) -> tuple[Explanation, bool]:
    """Explain one model; it waits for measurements on the device, which compiling would disturb.

    Returns what was found, and whether the process finished. Settings that only concern timing are
    ignored. `trace`: whether to trace where the time goes; `on_wait` is told who measures.

    Raises:
        ConfigError: no backend, or more than one, is to explain it.
        KeyboardInterrupt: a signal ended it.
    """
    require_explainer(settings)
    trial = settings.trial
    job = ReplicateJob(trial=trial, replicate=1, modes=trial.modes, order_seed=0)
    explained, why = Explanation(model=trial.model.name, device=""), ""

    def follow(event: protocol.Event) -> None:
        nonlocal explained
        if isinstance(event, protocol.Stage):
            on_stage(event)
        elif isinstance(event, protocol.Explained):
            explained = event.explanation

    with (
        scratch_folder() as folder,
        StopSignals() as stop,
        Leases(whole_replicate(settings.device), holder=f"explain {trial.model.name}") as whole,
        adopting_orphans() as mark,
    ):
        whole.wait(stop, on_wait)
        (command,) = workers.commands_of(trial, settings.device, Path(folder, "log"))
        try:
            worker = workers.start(command, mark=mark, stop=stop, on_event=follow)
            if worker is not None:
                limit = trial.memory_limit_bytes
                with worker, Sampler(device=settings.device, memory_limit_bytes=limit) as sampler:
                    sampler.add(worker.pid, worker.memory.request)
                    request = protocol.Explain(job=job, trace=trace)
                    worker.request(request, protocol.Finished, deadline_s=trial.timeouts.build_s)
                    explained = replace(explained, others=sampler.others())
        except (workers.RequestFailed, WorkerLost) as error:
            why = error.failure.message
    if stop.number:
        raise KeyboardInterrupt
    return (explained.complete(why), False) if why else (explained, True)


def require_explainer(settings: Settings) -> None:
    """Raise `ConfigError` unless one backend explains the model of a trial, and can do so here."""
    backend, *others = backends_of(settings.trial)
    if others:
        names = [each.name for each in (backend, *others)]
        raise ConfigError(
            f"explain: modes of {' and '.join(names)}: a model is explained on one backend; "
            f"give backend={' or backend='.join(names)} in place of modes"
        )
    if not backend.explains:
        raise ConfigError(f"explain: {backend.title} explains no model")
    for module, package in backend.explains_with.items():
        if not environment.is_installed(module):
            raise ConfigError(f"explain on {backend.title} needs {package}: {install(package)}")


def compiled_ops() -> OpList:
    """List of what the installed framework compiles; of a GPU too, without one.

    Raises:
        XlaSweepsError: it cannot be loaded, or does not answer.
    """
    backend = default_backend()
    done = programs.run(backend, "ops")
    reason = done.reason if done.code else "its list of kernels cannot be read"
    with contextlib.suppress(IndexError, msgspec.DecodeError):
        if not done.code:
            return msgspec.json.decode(done.output.splitlines()[-1], type=OpList)
    raise XlaSweepsError(f"explain --ops: {backend.title} does not list its kernels: {reason}")
