"""The checks of `doctor --full` that real trials and the watcher show, and how they are judged."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from factories import CONFIG, make_outcome, make_record

from benchmarks import simulated_sweeps
from xla_sweeps.analysis import stats
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import Settings
from xla_sweeps.doctor import self_check
from xla_sweeps.doctor.check_result import Checked, Verdict, judged_interval
from xla_sweeps.schema.backend import backend_named, default_backend
from xla_sweeps.schema.record import GpuSpan, Record
from xla_sweeps.system import programs
from xla_sweeps.system.devices import Device
from xla_sweeps.trial import runner
from xla_sweeps.trial.replicate import Screen

CPU = Device(kind="cpu", index=0, name="cpu")
GPU = Device(kind="gpu", index=0, name="NVIDIA H100", uuid="GPU-a")

COPIES = {"graph": 0.1, "graph_2": 0.1}


def copies(number: int, call_s: dict[str, float] | None = None) -> Record:
    """One process of an A/A trial."""
    return make_record(
        call_s or COPIES,
        noise=0.001,
        seed=number,
        replicate=number,
        config={**CONFIG, "modes": [*COPIES]},
    )


def verdicts(records: list[Record], device: Device) -> dict[str, Verdict]:
    """Verdicts on records that were measured, all at once or one and then the others."""
    left = list(records)

    def measure(words: Sequence[str], replicates: int) -> list[Record]:
        return [left.pop(0) for _ in range(min(replicates, len(left)))]

    return {one.name: one.verdict for one in self_check.check_copies(device, measure)}


@pytest.mark.parametrize(
    ("ratio", "noise", "verdict"),
    [
        (1.0, 0.002, Verdict.OK),
        (1.009, 0.0, Verdict.OK),
        (1.03, 0.002, Verdict.BAD),
        (0.9, 0.01, Verdict.BAD),
        (1.0, 0.2, Verdict.IMPOSSIBLE),
    ],
)
def test_a_ratio_is_bad_where_its_whole_interval_is_beyond_one_percent(
    ratio: float, noise: float, verdict: Verdict
) -> None:
    logs = [math.log(ratio) + noise * (-1) ** number * (number + 1) / 10 for number in range(10)]
    assert judged_interval("it", stats.signed_rank_interval(logs)).verdict is verdict


def test_equal_copies_in_three_processes_are_ok() -> None:
    told = verdicts([copies(number) for number in range(3)], CPU)
    assert set(told.values()) == {Verdict.OK}
    assert {"A/A over 3 processes", "CPU's counters / elapsed time"} <= set(told)


def test_a_copy_that_differs_is_bad_over_all_processes() -> None:
    told = verdicts([copies(number, {"graph": 0.1, "graph_2": 0.103}) for number in range(3)], CPU)
    bad = {name for name, verdict in told.items() if verdict is Verdict.BAD}
    assert bad == {"A/A over 3 processes"}


def test_a_copy_that_differs_in_one_process_of_three_is_not_bad() -> None:
    """An H100's doctor: 1.1155 (1.061-1.183) in its second process, and nothing was wrong."""
    ratios = (1.0, 1.115, 0.99)
    told = verdicts(
        [copies(number, {"graph": 0.1, "graph_2": 0.1 / one}) for number, one in enumerate(ratios)],
        CPU,
    )
    assert Verdict.BAD not in told.values()


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize(
    ("processes", "rounds"),
    [
        (0.03, 0.06),
        pytest.param(0.01, 0.01, marks=pytest.mark.exhaustive),
        pytest.param(0.05, 0.2, marks=pytest.mark.exhaustive),
    ],
)
def test_a_healthy_device_is_called_bad_in_five_percent_of_runs_at_most(
    processes: float, rounds: float, on_gpu: bool
) -> None:
    source = np.random.default_rng(4)
    case = simulated_sweeps.Case(name="", processes=processes, rounds=rounds, on_gpu=on_gpu)
    bad = 0
    for _ in range(200):
        copies = simulated_sweeps.figure("speedup", case.drawn(source, 3), on_gpu=on_gpu)
        bad += self_check.judged_copies(copies).verdict is Verdict.BAD
    assert bad <= 0.05 * 200


class Machine:
    """A GPU whose calls of up to some images wait for the host."""

    def __init__(self, busy_from: int, fails_at: int = 10**6) -> None:
        self.busy_from, self.fails_at, self.measured = busy_from, fails_at, list[tuple[str, int]]()

    def measure(self, words: Sequence[str], replicates: int) -> list[Record]:
        """As many records of copies; none where memory does not suffice."""
        self.measured.append((words[-1], replicates))
        batch = int(words[-1].partition("=")[2])
        enqueue_s = 0.09 if batch < self.busy_from else 0.01
        mode = make_outcome(latencies_s=(0.1,) * 20, latency_enqueue_ns=(int(1e9 * enqueue_s),))
        device = {"kind": "gpu"}
        records = [
            replace(copies(number), modes=dict.fromkeys(COPIES, mode), device=device)
            for number in range(replicates)
        ]
        return [replace(one, rounds=()) for one in records] if batch >= self.fails_at else records


def checked(machine: Machine, device: Device) -> dict[str, Checked]:
    return {one.name: one for one in self_check.check_copies(device, machine.measure)}


def test_the_batch_is_doubled_until_the_device_is_the_limit() -> None:
    machine = Machine(busy_from=256)
    told = checked(machine, GPU)
    assert machine.measured == [
        ("batch_size=64", 1),
        ("batch_size=128", 1),
        ("batch_size=256", 1),
        ("batch_size=256", 2),
    ]
    assert told["A/A over 3 processes"].verdict is Verdict.OK


def test_a_gpu_that_always_waits_for_the_host_is_not_judged() -> None:
    told = checked(Machine(busy_from=10**6), GPU)
    assert told["A/A where the device is the limit"].verdict is Verdict.IMPOSSIBLE
    assert "90% of a call of 512 images" in told["A/A where the device is the limit"].figure


def test_a_gpu_whose_memory_ends_before_it_is_busy_is_not_judged() -> None:
    told = checked(Machine(busy_from=256, fails_at=128), GPU)
    assert "90% of a call of 64 images" in told["A/A where the device is the limit"].figure
    assert Verdict.BAD not in {one.verdict for one in told.values()}


def test_an_aa_trial_that_fails_is_bad() -> None:
    told = checked(Machine(busy_from=64, fails_at=64), GPU)
    assert told["A/A trial"].verdict is Verdict.BAD
    assert told["A/A trial"].figure.startswith("3 of 3 processes failed: ")


def test_a_cpu_measures_its_small_model_in_three_processes() -> None:
    machine = Machine(busy_from=0)
    assert checked(machine, CPU)["A/A over 3 processes"].verdict is Verdict.OK
    assert machine.measured == [("batch_size=32", 3)]


@pytest.mark.parametrize(
    ("thermal_s", "verdict"),
    [(0.0, Verdict.OK), (1.0, Verdict.OK), (1000.0, Verdict.BAD), (None, Verdict.IMPOSSIBLE)],
)
def test_counters_that_rise_by_more_than_the_elapsed_time_are_bad(
    thermal_s: float | None, verdict: Verdict
) -> None:
    span = GpuSpan(rounds=(0, 3), elapsed_s=1.0, thermal_s=thermal_s)
    records = [replace(copies(number), gpu=(span,)) for number in range(3)]
    assert verdicts(records, GPU)["GPU's counters / elapsed time"] is verdict


def test_a_program_that_dies_is_a_bad_check_after_those_that_it_made() -> None:
    made = Checked("one", "1", "1", Verdict.OK)
    code = f"import sys; print({msgspec.json.encode(made).decode()!r}); sys.exit('no CUDA here')"
    backend = replace(default_backend(), programs={"self_check": (sys.executable, "-c", code)})
    checks = list(self_check.check_process(CPU, backend))
    assert checks[0] == made
    assert (checks[1].verdict, checks[1].figure) == (Verdict.BAD, "no CUDA here")


def test_without_tensorflow_the_errors_planted_on_other_backends_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Checked("an output error", "caught", "caught", Verdict.OK)
    code = f"print({msgspec.json.encode(made).decode()!r})"
    other = replace(backend_named("jax"), programs={"plants": (sys.executable, "-c", code)})
    lacking = {default_backend().name: ["tensorflow"]}
    monkeypatch.setattr(self_check, "backends", lambda: (default_backend(), other))
    monkeypatch.setattr(self_check, "absent", lambda one: lacking.get(one.name))
    monkeypatch.setattr(programs, "require", lambda _: None)
    said = list[str]()
    planted, others = self_check.check(CPU, default_backend(), said.append)
    assert planted == made
    assert others.verdict is Verdict.IMPOSSIBLE
    assert said == ["outputs on JAX"]


def test_each_process_has_a_number_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """An H200's doctor measured one process, then two more, and said "1", "1", "2"."""

    machine = Machine(busy_from=64)

    def run_trial(settings: Settings, *, screen: Screen, **_: object) -> SimpleNamespace:
        count = settings.trial.effort.replicates
        for replicate in range(count):
            screen.stage(replicate, "import", None)
        return SimpleNamespace(exit_code=0, records=machine.measure(["batch_size=64"], count))

    def composed(words: Sequence[str]) -> dict[str, Any]:
        return compose_config([word for word in words if word != "device=gpu:0"])

    monkeypatch.setattr(self_check, "compose_config", composed)
    monkeypatch.setattr(runner, "run_trial", run_trial)
    monkeypatch.setattr(self_check, "check_process", lambda *_: iter(()))
    said = list[str]()
    assert len(list(self_check.check(GPU, default_backend(), said.append))) == 2
    assert said[1:] == [f"A/A process {number}: import" for number in (1, 2, 3)]
