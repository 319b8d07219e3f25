"""Real replicates of a small model, by the measuring process itself."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from catalog_models import of_catalog
from conducting import Notes, QuietMachine, conduct_trial
from factories import EFFORT, TRIAL
from paths import ROOT
from scripted import scripted

from xla_sweeps.schema.backend import default_backend
from xla_sweeps.schema.measurement import Load, Phase
from xla_sweeps.trial.gpu import GpuWatch
from xla_sweeps.trial.replicate import ReplicateResult

pytestmark = pytest.mark.tf

SHORT = replace(
    EFFORT,
    rounds_min=6,
    rounds_max=6,
    block_s=0.01,
    warmup_s=0.1,
    warmup_cap_s=0.5,
    warmup_cap_calls=0,
    latency_calls=10,
    latency_cap_s=0.5,
)

SMALL = replace(TRIAL, model=of_catalog("mnist_mlp", "examples", 28), batch_size=2, effort=SHORT)

LOAD = Load(foreign_cores=0.1, steal_share=0.0, pressure_share=0.2)

Shown = list[tuple[int, int]]


@cache
def measured(*modes: str, onednn: str = "") -> tuple[ReplicateResult, Shown]:
    """One replicate in these modes, in this order, whose progress takes a while to show.

    With the rounds that were measured whenever it was shown, and when that was done, in ns.
    """
    shown: Shown = []

    def show(kind: str, value: Any) -> None:
        if kind == "progress":
            time.sleep(0.3)
            shown.append((value.measured, time.perf_counter_ns()))

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    environment |= {"TF_ENABLE_ONEDNN_OPTS": onednn} if onednn else {}
    with TemporaryDirectory() as folder:
        result = conduct_trial(
            replace(SMALL, modes=modes),
            default_backend(),
            Path(folder),
            watch=QuietMachine(load=LOAD).watch,
            notes=Notes(show),
            environment=environment,
        )
    assert result.finished, result.failure
    return result, shown


def test_a_replicate_keeps_what_a_later_analysis_needs() -> None:
    attempt, _ = measured("eager", "graph", "xla")
    assert 0 < attempt.sync["empty_s"] < 0.1
    assert attempt.seconds["import"] > 0.1
    for round_ in attempt.rounds:
        assert round_.load == LOAD
        assert all(block.cpu_ns is not None and block.cpu_ns > 0 for block in round_.blocks)
    for outcome in attempt.modes.values():
        assert sum(outcome.warmup_block_calls) == outcome.warmup_calls
        assert len(outcome.warmup_block_ns) == len(outcome.warmup_block_calls) > 0
        assert outcome.warmup_trend is not None
        assert len(outcome.latency_enqueue_ns) == len(outcome.latencies_s)


def test_no_round_begins_while_the_progress_before_it_is_shown() -> None:
    attempt, shown = measured("eager", "graph", "xla")
    assert shown
    later = [round_ for round_ in attempt.rounds if round_.round >= 4]
    assert later
    for measured_before, at_ns in shown:
        rounds = [round_ for round_ in attempt.rounds if round_.round >= measured_before]
        assert all(round_.started_ns > at_ns for round_ in rounds)


@pytest.mark.exhaustive  # daily: test_memory.py
@pytest.mark.parametrize(
    "settings",
    # Without it TensorFlow's allocator does not count.
    [pytest.param({"onednn": "0"}, id="0"), pytest.param({}, id="its own")],
)
def test_a_modes_memory_does_not_depend_on_the_order_of_modes(settings: dict[str, str]) -> None:
    orders = (("eager", "graph", "xla"), ("xla", "graph", "eager"))
    one, other = (measured(*modes, **settings)[0].modes for modes in orders)
    for mode in one:
        needed = one[mode].steady_memory_bytes
        assert needed is not None
        assert needed > 4 * 535_818, "the weights"
        assert other[mode].steady_memory_bytes == pytest.approx(needed, rel=0.005)


@pytest.mark.parametrize("sustained_s", [0.0, 0.3])
def test_each_mode_alone_takes_as_long_as_the_effort_says(
    sustained_s: float, tmp_path: Path
) -> None:
    trial = replace(SMALL, modes=("graph", "xla"), effort=replace(SHORT, sustained_s=sustained_s))
    machine = QuietMachine()
    machine.gpu = GpuWatch("GPU-none")
    stages: dict[str, float] = {}

    def keep_time(kind: str, value: Any) -> None:
        if kind == "stage" and value[0] == Phase.MEASURE:
            stages[value[2]] = time.perf_counter()

    notes = Notes(keep_time)
    result = conduct_trial(trial, scripted(), tmp_path, watch=machine.watch, notes=notes)
    alone = [outcome.sustained_call_s for outcome in result.modes.values()]
    if not sustained_s:
        assert "each mode alone" not in stages
        assert alone == [(), ()]
        return
    before_s = stages["each mode alone"] - stages[""]
    assert result.seconds["measure"] - before_s >= 2 * sustained_s
    assert [len(call_s) > 3 for call_s in alone] == [True, True]
    assert all(time_s == pytest.approx(0.01, rel=1e-3) for call_s in alone for time_s in call_s)
