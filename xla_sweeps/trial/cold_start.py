"""A contender whose call is a process: from its start to its first answer."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

from xla_sweeps.schema.measurement import Block, Failure, Phase, Trend
from xla_sweeps.trial import protocol
from xla_sweeps.trial.contender import PreparedMode
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.workers import RequestFailed


class ColdStart:
    """Starts a process for each call. The trial's idle workers stay, as between calls."""

    shares = True
    pids: Collection[int] = ()

    def __init__(self, prepared: PreparedMode) -> None:
        self._prepared = prepared

    def warm_up(self) -> protocol.Warmed:
        """Start it once, after which the files that it reads are in memory."""
        trial = self._prepared.job.trial
        try:
            elapsed_ns = self._start_once(trial.timeouts.build_s)
        except WorkerLost as lost:
            raise RequestFailed(lost.status, lost.failure) from lost
        outcome = replace(
            self._prepared.outcome,
            trace_s=None,  # of a process that had traced and compiled before
            first_call_s=None,
            warmup_calls=1,
            warmup_trend=Trend.NOT_ASSESSED,
            warmup_block_calls=(1,),
            warmup_block_ns=(elapsed_ns,),
        )
        return protocol.Warmed(outcome=outcome, call_s=elapsed_ns / 1e9, sync_s=0.0)

    def block(self, request: protocol.TimeBlock, *, deadline_s: float) -> Block:
        """Time starts one after the other, each to its answer on the same input."""
        calls = request.calls
        elapsed_ns = sum(self._start_once(deadline_s) for _ in range(calls))
        return Block(mode=request.mode, calls=calls, elapsed_ns=elapsed_ns, enqueue_ns=0)

    def _start_once(self, deadline_s: float) -> int:
        """Nanoseconds from the start of a process to its answer, which agrees with eager's."""
        prepared, answered = self._prepared, list[int]()
        answers = protocol.Stage(phase=Phase.VERIFY, mode=prepared.label)

        def take(event: protocol.Event) -> None:
            if event == answers:
                answered.append(time.perf_counter_ns())

        began = time.perf_counter_ns()
        worker = prepared.start(take)
        with worker, prepared.watcher.following(worker.pid, worker.memory.request):
            set_up = protocol.SetUp(job=prepared.job, shared=prepared.shared)
            prepare = protocol.Prepare(mode=prepared.label)
            try:
                worker.request(set_up, protocol.Ready, deadline_s=deadline_s)
                ready = worker.request(prepare, protocol.ModeReady, deadline_s=deadline_s)
            except RequestFailed as failed:
                raise worker.give_up(failed) from failed
        outcome = ready.outcome
        if outcome.status is not prepared.outcome.status or not answered:
            unlike = Failure(phase=Phase.VERIFY, kind="disagreement", message="no answer came")
            failure = outcome.failure or unlike
            raise WorkerLost(worker.labels, status=outcome.status, failure=failure)
        return answered[0] - began
