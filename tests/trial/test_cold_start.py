"""Contenders whose call is a process, in a replicate of scripted workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from conducting import QuietMachine, conduct_trial
from factories import EFFORT, TRIAL
from scripted import scripted

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.trial.replicate import ReplicateResult

FOUR = replace(EFFORT, rounds_min=4, rounds_max=4)


def conduct(folder: Path, machine: QuietMachine, *script: str) -> ReplicateResult:
    modes = ("graph", "xla")
    trial = replace(TRIAL, modes=modes, effort=FOUR, scenario=Scenario.COLD_START)
    return conduct_trial(trial, scripted(*script), folder, watch=machine.watch)


def test_each_call_is_a_process_and_modes_take_turns(tmp_path: Path) -> None:
    machine = QuietMachine()
    result = conduct(tmp_path, machine)
    assert result.finished, result.failure
    assert len(machine.pids) == 1, "the worker that prepares the modes, which stays"
    assert len(set(machine.followed)) == 2 + 4 * 2, "one start each to warm up, then the rounds"
    orders = [round_.order for round_ in result.rounds]
    assert sorted(orders) == [("graph", "xla")] * 2 + [("xla", "graph")] * 2
    blocks = [block for round_ in result.rounds for block in round_.blocks]
    assert {(block.calls, block.input) for block in blocks} == {(1, None)}, "always the same input"
    assert all(sum(block.parts_ns.values()) == block.elapsed_ns for block in blocks)
    for outcome in result.modes.values():
        assert outcome.status is Status.OK
        assert len(outcome.latencies_s) == 4
        assert min(outcome.latencies_s) > 0.01, "a process takes as long at least"
        assert outcome.trace_s is outcome.first_call_s is None, "these are another process's"


@pytest.mark.exhaustive
def test_an_answer_that_differs_ends_its_mode_and_the_others_go_on(tmp_path: Path) -> None:
    result = conduct(tmp_path, QuietMachine(), "wrong-later:xla")
    assert result.finished, result.failure
    assert result.modes["xla"].status is Status.WRONG_RESULT
    assert result.modes["graph"].status is Status.OK
    assert {block.mode for round_ in result.rounds for block in round_.blocks} == {"graph"}
