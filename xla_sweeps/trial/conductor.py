"""Conduct one replicate: its workers prepare the modes, then take turns block by block."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.process import adopting_orphans
from xla_sweeps.trial.crew import Crew
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.passes import Passes
from xla_sweeps.trial.replicate import ReplicateResult, Setting

WAIT_SAY_S = 10.0  # between two reports of what disturbs


def measure(job: ReplicateJob, setting: Setting) -> ReplicateResult:
    """Measure one replicate to its end, while its device is leased.

    Raises:
        StoreError: a process cannot be started with its log.
    """
    result = ReplicateResult()
    with adopting_orphans() as mark, ExitStack() as started, setting.watch() as watcher:
        turns = Turns(setting, watcher, job)
        crew = Crew(job, setting, watcher, mark, started, result, turns.clock)
        try:
            _measure(crew, turns)
        except WorkerLost as interrupted:
            crew.losses.append(interrupted)
        _conclude(crew)
        if not result.contamination:
            crew.take_in_watch()
        if setting.quiet_s:
            result.contamination["waited_s"] = round(turns.quiet_s, 1)
        if turns.ahead:
            result.seconds["turns"] = turns.waited_s
    return result


def _measure(crew: Crew, turns: Turns) -> None:
    """Prepare, measure, finish; a stop raises `WorkerLost`."""
    began, result = turns.clock(), crew.result
    crew.make_ready(turns.wait)
    prepared_at = turns.clock()
    passes = Passes(crew, began)
    if crew.warm:
        passes.measure()
    crew.take_in_watch()  # before others go on
    turns.end()
    crew.finish(passes.calls)
    if result.finished:
        result.seconds["prepare"] = prepared_at - crew.built_at
        result.seconds["measure"] = turns.clock() - prepared_at


def _conclude(crew: Crew) -> None:
    result, losses = crew.result, crew.losses
    interrupted = [lost for lost in losses if lost.status is Status.INTERRUPTED]
    result.finished = result.finished and not interrupted
    if result.finished:
        for lost in losses:  # their modes failed, unless they had failed before
            for label in lost.labels:
                outcome = result.modes.get(label)
                if outcome is None or outcome.status is Status.OK:
                    result.fail(label, lost.status, lost.failure)
    elif losses:
        last = (interrupted or losses)[-1]
        result.status, result.failure = last.status, last.failure


@dataclass
class Turns:
    """The waits of one replicate until its device is its own and quiet; no deadline runs then.

    Attributes:
        ahead: whether it prepares beside others, with which it shares its leases until its turn.
        waited_s: seconds that it waited for its turn and for quiet, of which `quiet_s` for quiet.
    """

    setting: Setting
    watcher: Sampler
    job: ReplicateJob
    waited_s: float = 0.0
    quiet_s: float = 0.0
    looked: float = math.inf
    said: float = -math.inf

    def __post_init__(self) -> None:
        self.ahead = self.setting.leases.shared

    def clock(self) -> float:
        """Seconds of a clock that stands still during the waits."""
        return time.perf_counter() - self.waited_s

    def wait(self) -> bool:
        """Wait for the turn; False where a stop was requested."""
        if self.setting.leases.shared:
            if not self._wait(shared=False):
                return False
            self.watcher.forget()
        if not self._wait(shared=False, also=self._is_quiet):
            return False
        if self.watcher.gpu:
            self.watcher.gpu.begin()
        return True

    def end(self) -> None:
        """Let others have their turn, if this one prepared beside others."""
        if self.ahead and not self.setting.leases.shared:
            self._wait(shared=True)

    def _wait(self, *, shared: bool, also: Callable[[], bool] = lambda: True) -> bool:
        leases, begun = self.setting.leases, time.perf_counter()
        leases.want(shared=shared)
        self.looked = math.inf
        with self.watcher.resting():
            got = leases.wait(self.setting.stop, self._say_holder, also=also)
        self.waited_s += time.perf_counter() - begun
        return got

    def _say_holder(self, holder: str) -> None:
        self.setting.screen.stage(self.job.replicate, "wait", None, f"for its turn, after {holder}")

    def _is_quiet(self) -> bool:
        """True once nothing disturbs any more, or after a while; to be asked twice a second."""
        now, limit_s = time.monotonic(), self.setting.quiet_s
        self.quiet_s = min(self.quiet_s + max(0.0, now - self.looked), limit_s)
        self.looked, left_s = now, limit_s - self.quiet_s
        cause = self.watcher.disturbance() if left_s > 0 else ""
        if cause and now >= self.said + WAIT_SAY_S:
            self.said = now
            detail = f"for quiet: {cause}, at most {left_s:.0f} s"
            self.setting.screen.stage(self.job.replicate, "wait", None, detail)
        return not cause
