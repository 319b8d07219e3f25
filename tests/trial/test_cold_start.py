"""Contenders whose call is a process: parts and caches of a start, and a replicate of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from conducting import QuietMachine, conduct_trial
from factories import EFFORT, TRIAL
from scripted import scripted

from xla_sweeps.schema.measurement import Block, Failure, ModeOutcome, Phase, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import CompileCache, ReplicateJob
from xla_sweeps.trial import protocol
from xla_sweeps.trial.cold_start import ColdStart
from xla_sweeps.trial.contender import PreparedMode
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.trial.replicate import ReplicateResult
from xla_sweeps.trial.workers import RequestFailed

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


ENTRY = b"an executable of XLA"


@dataclass
class Processes:
    """Processes that only send events, and keep an entry in the cache that they are given."""

    label: str = "xla"
    keeps: bool = True
    seen: list[bytes] = field(default_factory=list)
    """The entry of the cache that each process read."""
    stopped: bool = False

    def start(self, tell: Callable[[protocol.Event], None], given: Mapping[str, str]) -> Any:
        assert not given or given["TF_XLA_FLAGS"].startswith("--tf_xla_max_cluster_size=5 ")
        place = given["TF_XLA_FLAGS"].rpartition("=")[2] if given else ""
        assert place[:1] == place[-1:] == ('"' if given else ""), "a folder's name may have blanks"
        entry = Path(place.strip('"'), "entry") if given else None
        held = entry.read_bytes() if entry and entry.exists() else b""
        self.seen.append(held)
        if entry and self.keeps:
            entry.write_bytes(held or ENTRY)
        damaged = bool(held) and held != ENTRY

        def request_or_end(message: protocol.Request, expected: Any, *, deadline_s: float) -> Any:
            if isinstance(message, protocol.SetUp):
                tell(protocol.Stage(phase=Phase.IMPORT, detail="TensorFlow"))
                tell(protocol.Loaded(environment={}))
                tell(protocol.Stage(phase=Phase.VERIFY, mode="eager"))
                return protocol.Ready()
            if isinstance(message, protocol.TimeBlock):
                block = Block(mode=self.label, calls=1, elapsed_ns=1, enqueue_ns=0)
                return protocol.Timed(block=block, clock_ns=0)
            failure = Failure(phase=Phase.COMPILE, kind="DataLossError", message="damaged entry")
            if self.stopped:
                raise WorkerLost({self.label}, status=Status.INTERRUPTED, failure=failure)
            if damaged:
                raise WorkerLost({self.label}, status=Status.CACHE_DAMAGED, failure=failure)
            for phase in (Phase.TRACE, Phase.COMPILE, Phase.VERIFY):
                tell(protocol.Stage(phase=phase, mode=self.label))
            return protocol.ModeReady(outcome=ModeOutcome(status=Status.OK))

        worker = SimpleNamespace(
            pid=1,
            labels=(self.label,),
            memory=SimpleNamespace(request=None),
            request_or_end=request_or_end,
        )
        return Entered(worker)


class Entered(nullcontext[Any]):
    """A worker as the context manager that it is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.enter_result, name)


def cold_start(processes: Processes, caching: CompileCache, folder: Path) -> ColdStart:
    label = processes.label
    trial = replace(TRIAL, modes=(label,), compile_cache=caching)
    return ColdStart(
        PreparedMode(
            label=label,
            outcome=ModeOutcome(status=Status.OK),
            worker=cast(Any, None),
            job=ReplicateJob(
                trial=trial,
                replicate=0,
                modes=(label,),
                order_seed=0,
                adopts=True,
                shared=str(folder),
            ),
            start=processes.start,
            environment={"TF_XLA_FLAGS": "--tf_xla_max_cluster_size=5"},
            watcher=cast(Any, SimpleNamespace(following=lambda pid, stop: nullcontext())),
        )
    )


def time_two(contender: ColdStart) -> Block:
    request = protocol.TimeBlock(mode="xla", calls=2, settle=False)
    return contender.block(request, deadline_s=1)


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("xla", ["interpreter", "import", "build", "trace", "compile", "call"]),
        ("saved_xla", ["interpreter", "import", "load", "compile", "call"]),
    ],
)
def test_the_parts_of_a_start_add_up_to_its_time(
    tmp_path: Path, label: str, parts: list[str]
) -> None:
    block = time_two(cold_start(Processes(label), "off", tmp_path))
    assert list(block.parts_ns) == parts
    assert sum(block.parts_ns.values()) == block.elapsed_ns


def test_a_cold_cache_is_empty_before_each_start(tmp_path: Path) -> None:
    processes = Processes()
    contender = cold_start(processes, "cold", tmp_path)
    warmed = contender.warm_up()
    time_two(contender)
    assert processes.seen == [b"", b"", b""]
    assert warmed.outcome.cache_bytes == len(ENTRY)
    assert warmed.outcome.damaged_cache == ""


def test_a_warm_cache_is_filled_first_and_a_damaged_entry_is_an_outcome(tmp_path: Path) -> None:
    processes = Processes()
    contender = cold_start(processes, "warm", tmp_path)
    outcome = contender.warm_up().outcome
    time_two(contender)
    assert processes.seen == [b"", ENTRY[: len(ENTRY) // 2], ENTRY, ENTRY, ENTRY]
    assert outcome.damaged_cache == "cache_damaged: damaged entry"
    assert outcome.cache_bytes == len(ENTRY)


def test_without_a_cache_a_process_gets_no_folder(tmp_path: Path) -> None:
    processes = Processes()
    outcome = cold_start(processes, "off", tmp_path).warm_up().outcome
    assert (processes.seen, outcome.cache_bytes) == ([b""], None)
    assert not list(tmp_path.iterdir())


def test_xla_that_keeps_nothing_in_its_cache_has_no_warm_start(tmp_path: Path) -> None:
    with pytest.raises(RequestFailed) as raised:
        cold_start(Processes(keeps=False), "warm", tmp_path).warm_up()
    assert raised.value.status is Status.MODE_NOT_EFFECTIVE
    outcome = cold_start(Processes("graph", keeps=False), "warm", tmp_path).warm_up().outcome
    assert (outcome.cache_bytes, outcome.damaged_cache) == (0, "")


def test_an_interrupt_while_a_process_starts_ends_the_replicate(tmp_path: Path) -> None:
    with pytest.raises(WorkerLost):
        cold_start(Processes(stopped=True), "warm", tmp_path).warm_up()
