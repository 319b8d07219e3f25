"""Real replicates of a small model, by the measuring process itself."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import pytest
from factories import EFFORT, TRIAL
from paths import ROOT

from xla_sweeps.measure import protocol
from xla_sweeps.measure.attempt import Attempt
from xla_sweeps.measure.process import Stop, run_attempt
from xla_sweeps.schema.measurement import Load, Round, Status
from xla_sweeps.schema.modes import ExecutionMode, Scenario
from xla_sweeps.schema.trial import InputSpec, ReplicateJob
from xla_sweeps.system.leases import Leases

pytestmark = pytest.mark.tf

SHORT = replace(
    EFFORT,
    rounds_min=6,
    rounds_max=6,
    block_s=0.01,
    warmup_s=0.1,
    warmup_cap_s=0.5,
    latency_calls=10,
    latency_cap_s=0.5,
)

SMALL = replace(
    TRIAL,
    model=replace(
        TRIAL.model,
        name="mobilenet_v1",
        recipe={"constructor": "MobileNet"},
        inputs=(InputSpec(shape=(32, 32, 3)),),
        resolution_px=32,
    ),
    batch_size=2,
    effort=SHORT,
)


LOAD = Load(foreign_cores=0.1, steal_share=0.0, pressure_share=0.2)


class _Nobody:
    gpu = None

    def review(self, rounds: Sequence[Round]) -> Mapping[int, str]:
        return {}

    def loads(self, rounds: Sequence[Round]) -> Mapping[int, Load]:
        return {item.round: LOAD for item in rounds}

    def disturbance(self) -> str:
        return ""

    def summary(self) -> Mapping[str, Any]:
        return {}


@contextlib.contextmanager
def _watch(pid: int, exceeded: Callable[[], None]) -> Iterator[_Nobody]:
    yield _Nobody()


SHOWN_S = 0.3

Shown = list[tuple[int, int]]


@cache
def measured(
    *modes: str, scenario: Scenario = Scenario.CALL, batches: int = 1
) -> tuple[Attempt, Shown]:
    """One replicate in these modes, in this order, whose progress takes a while to show.

    With the rounds that were measured whenever it was shown, and when that was done, in ns.
    """
    shown: Shown = []
    trial = replace(SMALL, modes=modes, scenario=scenario, batches=batches)

    def show(event: protocol.Event) -> None:
        if isinstance(event, protocol.Progressed):
            time.sleep(SHOWN_S)
            shown.append((event.measured, time.perf_counter_ns()))

    with TemporaryDirectory() as folder, Stop() as stop:
        attempt = run_attempt(
            ReplicateJob(trial=trial, replicate=0, modes=modes, order_seed=1),
            environment={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"},
            log=Path(folder) / "child.log",
            watch=_watch,
            stop=stop,
            leases=Leases((), holder=""),
            on_event=show,
            command=(sys.executable, "-m", "xla_sweeps.tf.worker"),
        )
    assert attempt.finished, attempt.failure
    return attempt, shown


def test_a_replicate_keeps_what_a_later_analysis_needs() -> None:
    attempt, _ = measured("eager", "graph", "xla")
    assert 0 < attempt.sync["empty_s"] < 0.1
    assert attempt.seconds["import"] > 0.1
    for item in attempt.rounds:
        assert item.load == LOAD
        assert all(block.cpu_ns is not None and block.cpu_ns > 0 for block in item.blocks)
    for outcome in attempt.modes.values():
        assert sum(outcome.warmup_block_calls) == outcome.warmup_calls
        assert len(outcome.warmup_block_ns) == len(outcome.warmup_block_calls) > 0
        assert outcome.warmup_trend is not None
        assert len(outcome.latency_enqueue_ns) == len(outcome.latencies_s)
        assert sum(item.calls for item in outcome.latency_passes) in (0, len(outcome.latencies_s))


def test_predict_is_measured_beside_what_people_call_instead() -> None:
    modes = ("call_host", "graph_host", "predict", "predict_xla")
    attempt, _ = measured(*modes, scenario=Scenario.PREDICT, batches=2)
    assert {label: outcome.status for label, outcome in attempt.modes.items()} == dict.fromkeys(
        modes, Status.OK
    )
    for item in attempt.rounds:
        assert {block.mode for block in item.blocks} == set(modes)
    assert sorted(attempt.modes["graph_host"].copies_s) == ["input", "output"]
    assert not attempt.modes["predict"].copies_s
    settings = {label: attempt.modes[label].effective["jit_compile"] for label in modes[1:]}
    assert settings == {"graph_host": False, "predict": False, "predict_xla": True}
    assert attempt.modes["predict_xla"].compile_s
    assert attempt.model is not None
    assert attempt.model.macs


def test_no_round_begins_while_the_progress_before_it_is_shown() -> None:
    attempt, shown = measured("eager", "graph", "xla")
    assert shown
    later = [item for item in attempt.rounds if item.round >= 4]
    assert later
    for measured_before, at_ns in shown:
        rounds = [item for item in attempt.rounds if item.round >= measured_before]
        assert all(item.started_ns > at_ns for item in rounds)


def test_the_memory_of_a_mode_does_not_depend_on_the_order_of_the_modes() -> None:
    orders = (("eager", "graph", "xla"), ("xla", "graph", "eager"))
    one, other = (measured(*modes)[0].modes for modes in orders)
    for mode in one:
        needed = one[mode].steady_memory_bytes
        assert needed is not None
        assert needed > 4 * 4_253_864  # the weights
        assert other[mode].steady_memory_bytes == pytest.approx(needed, rel=0.005)


@pytest.mark.parametrize("sustained_s", [0.0, 0.05])
def test_each_mode_alone_is_measured_as_long_as_the_effort_says(sustained_s: float) -> None:
    import tensorflow as tf

    from xla_sweeps.tf import modes, replicate

    executables = {
        str(mode): modes.make_executable(tf.square, mode, [tf.ones(2)])
        for mode in (ExecutionMode.EAGER, ExecutionMode.GRAPH)
    }
    bench = SimpleNamespace(trial=replace(SMALL, effort=replace(SHORT, sustained_s=sustained_s)))
    told = SimpleNamespace(send=lambda event: None)
    calls = dict.fromkeys(executables, 3)
    alone = replicate._measure_alone(cast(Any, bench), executables, calls, cast(Any, told))
    assert list(alone) == (list(executables) if sustained_s else [])
    assert all(call_s and min(call_s) > 0 for call_s in alone.values())
