"""A contender whose call is a process: from its start to its first answer.

With `compile_cache=cold` each process has an empty folder in which its compiler keeps what it
compiles, with `warm` the folder that an earlier process has filled.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xla_sweeps.schema.backend import backend_named
from xla_sweeps.schema.measurement import Block, Failure, ModeOutcome, Phase, Status, Trend
from xla_sweeps.schema.modes import Entry, Execution, mode_of
from xla_sweeps.trial import protocol
from xla_sweeps.trial.contender import PreparedMode
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.workers import RequestFailed

ANSWERS = "answers"
"""The value of `ModeOutcome.damaged_cache` of a process that compiles again."""

_MARKS = (Phase.IMPORT, protocol.Loaded, Phase.TRACE, Phase.COMPILE, Phase.VERIFY)
"""Events of a process, in order, each at the end of a part of its start."""


class ColdStart:
    """Starts a process for each call. The trial's idle workers stay, as between calls."""

    shares = True
    pids: Collection[int] = ()

    def __init__(self, prepared: PreparedMode) -> None:
        self._prepared = prepared
        self._caching = prepared.job.trial.compile_cache
        self._cache = Path(prepared.job.shared, f"cache-{prepared.label}")

    def warm_up(self) -> protocol.Warmed:
        """Start it once, after which the files that it reads are in memory.

        A warm cache is filled before, and once more read with its entries damaged.
        """
        limit_s, damaged = self._prepared.job.trial.timeouts.build_s, ""
        try:
            if self._caching == "warm":
                self._start_once(limit_s)
                damaged = self._try_damaged(limit_s)
            elapsed_ns = sum(self._start_once(limit_s).values())
        except WorkerLost as lost:
            if lost.status is Status.INTERRUPTED:
                raise
            raise RequestFailed(lost.status, lost.failure) from lost
        outcome = replace(
            self._with_cache(self._prepared.outcome),
            damaged_cache=damaged,
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
        parts = Counter[str]()
        for _ in range(request.calls):
            parts.update(self._start_once(deadline_s))
        return Block(
            mode=request.mode,
            calls=request.calls,
            elapsed_ns=parts.total(),
            enqueue_ns=0,
            parts_ns=dict(parts),
        )

    def _with_cache(self, outcome: ModeOutcome) -> ModeOutcome:
        """The outcome with the size of the cache; raises where a compiler keeps nothing in it."""
        if self._caching == "off":
            return outcome
        size = sum(path.stat().st_size for path in self._cache.rglob("*") if path.is_file())
        label = self._prepared.label
        if not size and mode_of(label).execution is not Execution.GRAPH:
            message = f"{label} kept nothing in its compiler's cache"
            absent = Failure(phase=Phase.WARMUP, kind="cache_not_used", message=message)
            raise RequestFailed(Status.MODE_NOT_EFFECTIVE, absent)
        return replace(outcome, cache_bytes=size)

    def _try_damaged(self, limit_s: float) -> str:
        """Outcome of a start whose cache has every entry cut in half; "" without entries."""
        kept = self._cache.with_name(f"{self._cache.name}-kept")
        shutil.copytree(self._cache, kept)
        entries = [path for path in self._cache.rglob("*") if path.is_file()]
        for path in entries:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        try:
            if entries:
                self._start_once(limit_s)
            return ANSWERS if entries else ""
        except WorkerLost as lost:
            if lost.status is Status.INTERRUPTED:
                raise
            return f"{lost.status}: {lost.failure.message}"
        finally:
            shutil.rmtree(self._cache)
            kept.rename(self._cache)

    def _variables(self) -> Mapping[str, str]:
        """Variables of the cache's folder, which exists and is empty for a cold one."""
        if self._caching == "off":
            return {}
        if self._caching == "cold":
            shutil.rmtree(self._cache, ignore_errors=True)
        self._cache.mkdir(exist_ok=True)
        backend = backend_named(mode_of(self._prepared.label).backend)
        return backend.cache(str(self._cache), self._prepared.environment)

    def _start_once(self, deadline_s: float) -> dict[str, int]:
        """Start a process, end it after its answer, which agrees with eager's; ns of each part."""
        prepared, label, times = self._prepared, self._prepared.label, list[int]()

        def take(event: protocol.Event) -> None:
            mark = event.phase if isinstance(event, protocol.Stage) else type(event)
            if len(times) < len(_MARKS) and mark == _MARKS[len(times)]:
                times.append(time.perf_counter_ns())

        variables = self._variables()
        began = time.perf_counter_ns()
        worker = prepared.start(take, variables)
        with worker, prepared.watcher.following(worker.pid, worker.memory.request):
            set_up = protocol.SetUp(job=prepared.job)
            prepare = protocol.Prepare(mode=label)
            once_more = protocol.TimeBlock(mode=label, calls=1, settle=False)
            worker.request_or_end(set_up, protocol.Ready, deadline_s=deadline_s)
            outcome = worker.request_or_end(
                prepare, protocol.ModeReady, deadline_s=deadline_s
            ).outcome
            if outcome.status is not prepared.outcome.status or len(times) < len(_MARKS):
                unlike = Failure(phase=Phase.VERIFY, kind="unlike", message="no answer came")
                failure = outcome.failure or unlike
                raise WorkerLost(worker.labels, status=outcome.status, failure=failure)
            again = worker.request_or_end(once_more, protocol.Timed, deadline_s=deadline_s)
        return self._split([began, *times], again.block.elapsed_ns)

    def _split(self, times: Sequence[int], call_ns: int) -> dict[str, int]:
        """The ns of each part of a start, from the times at which they end and those of a call."""
        interpreter, imports, build, trace, first_call = (
            end - begin for begin, end in itertools.pairwise(times)
        )
        loads = mode_of(self._prepared.label).entry is Entry.SAVED
        made = {"load": build + trace} if loads else {"build": build, "trace": trace}
        call = min(call_ns, first_call)
        before = {"interpreter": interpreter, "import": imports, **made}
        return {**before, "compile": first_call - call, "call": call}
