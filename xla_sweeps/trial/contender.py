"""Contenders, which take turns in the rounds of a replicate: modes in workers, or processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from xla_sweeps.schema.measurement import Block, ModeOutcome
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.trial import protocol
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.workers import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedMode:
    """A mode that a worker has prepared, and how to `start` another process for it alone.

    That gets the worker's `environment`, and what is given besides; its `job` is to adopt what the
    worker has written.
    """

    label: str
    outcome: ModeOutcome
    worker: Worker
    job: ReplicateJob
    start: Callable[[Callable[[protocol.Event], None], Mapping[str, str]], Worker]
    environment: Mapping[str, str]
    watcher: Sampler


class Contender(Protocol):
    """One of those that take turns.

    Attributes:
        shares: whether its processes need what the worker that prepared it has written.
        pids: processes that compute in its blocks; the trial's others must idle meanwhile.
    """

    shares: ClassVar[bool]
    pids: Collection[int]

    def warm_up(self) -> protocol.Warmed:
        """Call until the speed is steady, before any round.

        Raises:
            RequestFailed: it cannot be measured; the others in its process can.
            WorkerLost: its process ended.
        """

    def block(self, request: protocol.TimeBlock, *, deadline_s: float) -> Block:
        """Time a block of calls.

        Raises:
            WorkerLost: its process ended.
        """


class WorkerMode:
    """A mode that a worker has prepared."""

    shares = False

    def __init__(self, prepared: PreparedMode) -> None:
        self._prepared, self.pids = prepared, (prepared.worker.pid,)

    def warm_up(self) -> protocol.Warmed:
        """Have the worker warm it up."""
        prepared = self._prepared
        limit_s = prepared.job.trial.timeouts.warmup_s
        request = protocol.WarmUp(mode=prepared.label)
        return prepared.worker.request(request, protocol.Warmed, deadline_s=limit_s)

    def block(self, request: protocol.TimeBlock, *, deadline_s: float) -> Block:
        """Have the worker time a block; an exception in it ends the worker."""
        worker = self._prepared.worker
        return worker.request_or_end(request, protocol.Timed, deadline_s=deadline_s).block
