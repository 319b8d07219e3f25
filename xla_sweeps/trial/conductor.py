"""Conduct one replicate: its workers prepare the modes, then take turns block by block."""

from __future__ import annotations

import time
from contextlib import ExitStack

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.process import adopting_orphans
from xla_sweeps.trial.crew import Crew
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.passes import TIMED_SHARE, Passes
from xla_sweeps.trial.quiet import QuietWait
from xla_sweeps.trial.replicate import ReplicateResult, Setting


def measure(job: ReplicateJob, setting: Setting) -> ReplicateResult:
    """Measure one replicate to its end; `OSError` where a worker or its log cannot be started."""
    result = ReplicateResult()
    with adopting_orphans() as mark, ExitStack() as started, setting.watch() as watcher:
        crew = Crew(job, setting, watcher, mark, started, result)
        quiet = QuietWait(setting, watcher, job.trial.device, job.replicate)
        try:
            _measure(crew, quiet)
        except WorkerLost as interrupted:
            crew.losses.append(interrupted)
        _conclude(crew)
        result.conclude(watcher, clock_differs=any(clock.differs for clock in crew.clocks))
        if setting.quiet_s:
            result.contamination["waited_s"] = round(quiet.waited_s, 1)
    return result


def _measure(crew: Crew, quiet: QuietWait) -> None:
    """Prepare, measure, finish; a stop raises `WorkerLost`."""
    began, result = time.perf_counter(), crew.result

    def least_s() -> float:
        return TIMED_SHARE * (time.perf_counter() - began - quiet.waited_s)

    crew.make_ready(quiet.wait)
    prepared_at = time.perf_counter()
    passes = Passes(crew, least_s)
    if crew.warm:
        passes.measure()
    crew.finish(passes.calls)
    if result.finished:
        result.seconds["prepare"] = prepared_at - crew.built_at
        result.seconds["measure"] = time.perf_counter() - prepared_at


def _conclude(crew: Crew) -> None:
    """Say how the replicate ended."""
    result, losses = crew.result, crew.losses
    interrupted = [lost for lost in losses if lost.status is Status.INTERRUPTED]
    result.finished = result.finished and not interrupted
    if result.finished:
        crew.note_losses()
    elif losses:
        last = (interrupted or losses)[-1]
        result.status, result.failure = last.status, last.failure
