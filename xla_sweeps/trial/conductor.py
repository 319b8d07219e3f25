"""Conduct one replicate: its workers prepare the modes, then take turns block by block."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.process import adopting_orphans
from xla_sweeps.trial.crew import Crew
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.passes import TIMED_SHARE, Passes
from xla_sweeps.trial.replicate import WAITING, ReplicateResult, Setting

WAIT_SAY_S = 10.0  # between two reports of what disturbs


def measure(job: ReplicateJob, setting: Setting) -> ReplicateResult:
    """Measure one replicate to its end; `OSError` where a worker or its log cannot be started."""
    result = ReplicateResult()
    with adopting_orphans() as mark, ExitStack() as started, setting.watch() as watcher:
        crew = Crew(job, setting, watcher, mark, started, result)
        quiet = QuietWait(setting, watcher, job)
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
    result, losses = crew.result, crew.losses
    interrupted = [lost for lost in losses if lost.status is Status.INTERRUPTED]
    result.finished = result.finished and not interrupted
    if result.finished:
        crew.note_losses()
    elif losses:
        last = (interrupted or losses)[-1]
        result.status, result.failure = last.status, last.failure


@dataclass
class QuietWait:
    """The waits of one replicate until its device is its own and quiet; no deadline runs then."""

    setting: Setting
    watcher: Sampler
    job: ReplicateJob
    waited_s: float = 0.0
    began: float = math.inf
    said: float = -math.inf

    def wait(self) -> bool:
        """Wait for the turn; False where a stop was requested."""
        setting = self.setting
        if not setting.leases.wait(setting.stop, self._say_holder, also=self._is_quiet):
            return False
        if self.watcher.gpu:
            self.watcher.gpu.begin()
        return True

    def _say_holder(self, holder: str) -> None:
        self.setting.screen.warn(WAITING.format(device=self.job.trial.device, holder=holder))

    def _is_quiet(self) -> bool:
        """True once nothing disturbs any more, or after a while; to be asked twice a second."""
        now, limit_s = time.monotonic(), self.setting.quiet_s
        self.began = min(now, self.began)
        self.waited_s = min(now - self.began, limit_s)
        left_s = limit_s - self.waited_s
        cause = self.watcher.disturbance() if left_s > 0 else ""
        if cause and now >= self.said + WAIT_SAY_S:
            self.said = now
            detail = f"for quiet: {cause}, at most {left_s:.0f} s"
            self.setting.screen.stage(self.job.replicate, "wait", None, detail)
        return not cause
