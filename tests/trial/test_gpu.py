"""Watching a GPU: between Williams designs, with counters, and with whatever the driver lacks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pynvml
import pytest
from conducting import Notes, conduct_trial
from factories import EFFORT, TRIAL
from fake_nvml import FakeGpu, FakeNvml
from scripted import scripted

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.measurement import Round
from xla_sweeps.schema.record import GpuSpan
from xla_sweeps.system import nvml
from xla_sweeps.system.devices import Device
from xla_sweeps.system.environment import environment
from xla_sweeps.trial import monitor, passes, protocol
from xla_sweeps.trial.gpu import GpuWatch
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.recording import make_record
from xla_sweeps.trial.replicate import ReplicateResult

GPU = Device(kind="gpu", index=0, name="NVIDIA A100-SXM4-80GB", uuid="GPU-a")

ROUNDS = [Round(round=number, order=(), blocks=()) for number in (4, 5, 6, 7)]

OWN = 77

REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu(processes={OWN: "python"})


@pytest.fixture
def driver(gpu: FakeGpu) -> Iterator[FakeNvml]:
    with FakeNvml(gpu).installed() as driver:
        yield driver


@pytest.fixture
def watch(driver: FakeNvml) -> GpuWatch:
    """A watch that has begun."""
    watch = watch_of(OWN)
    assert watch.begin() == ""
    driver.asked.clear()
    return watch


def watch_of(*pids: int) -> GpuWatch:
    watch = GpuWatch("GPU-a")
    watch.pids = frozenset(pids)
    return watch


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests do beside these."""
    monkeypatch.setattr(monitor, "contamination", lambda samples, *, cores: "")


@dataclass
class Clock:
    """A clock of the driver's readings, between two of which so much time passes."""

    step_ns: int = 2 * 10**12
    now_ns: int = 0

    def monotonic_ns(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Long spans: counters may rise by thousands of seconds."""
    clock = Clock()
    monkeypatch.setattr(nvml, "time", clock)
    return clock


def measure(
    tmp_path: Path, driver: FakeNvml, *, energy_s: float = 0.0
) -> tuple[ReplicateResult, list[tuple[str, int]]]:
    """Run the fake worker; returns how many queries had been made at each event.

    On the GPU it is `OWN`, which is not there yet when it is started.
    """
    (gpu,) = driver.gpus
    gpu.processes, gpu.arriving = {}, [{OWN: "python"}, *gpu.arriving]
    asked: list[tuple[str, int]] = []
    notes = Notes(lambda kind, value: asked.append((kind, len(driver.asked))))
    effort = replace(EFFORT, rounds_min=8, energy_s=energy_s)
    trial = replace(TRIAL, modes=("graph", "xla"), effort=effort)
    watch = partial(Sampler, device=GPU, memory_limit_bytes=2**40)
    result = conduct_trial(trial, scripted(), tmp_path, watch=watch, notes=notes)
    return result, asked


def test_the_driver_is_asked_only_while_the_measuring_process_waits(
    tmp_path: Path, driver: FakeNvml
) -> None:
    attempt, asked = measure(tmp_path, driver)
    by_event: dict[str, list[int]] = {}
    for name, count in asked:
        by_event.setdefault(name, []).append(count)
    begun, first, second = by_event["stage"][-1], *by_event["rounds"]
    (looked,) = set(by_event["stage"][:-1])
    assert looked == 3, "who is there, as the process starts; then nothing before all is prepared"
    assert looked < begun < first < second
    assert driver.asked.count("nvmlDeviceGetComputeRunningProcesses") == 3
    assert [span.rounds for span in attempt.gpu] == [(0, 3), (4, 7)]
    assert attempt.contamination["gpu_sm_mhz"] == [1410, 1410]
    assert not attempt.contaminated


def test_a_gpu_settles_before_the_first_block_after_each_review(
    tmp_path: Path, driver: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[float] = []
    encode = protocol.encode

    def noted(message: protocol.Message | protocol.Request) -> bytes:
        if isinstance(message, protocol.TimeBlock):
            sent.append(message.ramp_s)
        return encode(message)

    monkeypatch.setattr(protocol, "encode", noted)
    measure(tmp_path, driver)
    assert [bool(ramp_s) for ramp_s in sent] == [True, *[False] * 7] * 2


def test_modes_are_measured_alone_where_power_limits_a_gpu(
    tmp_path: Path, driver: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mode that takes turns profits from another one that lets the GPU rest."""
    monkeypatch.setattr(passes, "ALONE_S", 0.01)
    attempt, _ = measure(tmp_path, driver)
    assert not any(outcome.sustained_call_s for outcome in attempt.modes.values())
    driver.gpus[0].reasons, driver.gpus[0].lacks = 0x4, {"nvmlDeviceGetViolationStatus"}
    limited, _ = measure(tmp_path, driver)
    assert [flagged.flag for flagged in limited.flags] == ["power_limited"]
    assert all(outcome.sustained_call_s for outcome in limited.modes.values())


def test_the_energy_of_each_mode_alone_is_read_from_the_driver(
    tmp_path: Path, driver: FakeNvml
) -> None:
    driver.gpus[0].energy_mj = lambda: time.monotonic_ns() // 10**4  # 100 W
    attempt, _ = measure(tmp_path, driver, energy_s=0.02)
    assert attempt.energy is not None
    assert not attempt.energy.problem
    watts = [one.joules / one.elapsed_s for one in attempt.energy.idle]
    for outcome in attempt.modes.values():
        assert [one.calls > 0 for one in outcome.energy] == [True] * 3
        watts += [one.joules / one.elapsed_s for one in outcome.energy]
    assert watts == pytest.approx([100.0] * 9, rel=0.2)
    driver.gpus[0].energy_mj = 10**6
    still, _ = measure(tmp_path, driver, energy_s=0.02)
    assert still.energy is not None
    assert still.energy.problem == "the GPU's counter stands still"
    assert not any(outcome.energy for outcome in still.modes.values())
    assert not still.failure
    assert still.rounds


def test_a_span_holds_what_the_counters_rose_by(watch: GpuWatch, gpu: FakeGpu) -> None:
    gpu.violations_ns = {pynvml.NVML_PERF_POLICY_POWER: 3 * 10**9}
    gpu.sm_mhz, gpu.celsius, gpu.watts, gpu.reasons = 1200, 60, 300.5, 0x4
    assert watch.review(ROUNDS) == ""
    gpu.violations_ns = {}  # the driver was loaded again
    watch.review(ROUNDS)
    first, second = watch.spans
    assert (first.rounds, first.power_capped_s, first.thermal_s) == ((4, 7), 3.0, 0.0)
    assert (first.sm_mhz, first.celsius, first.watts) == (1200, 60, 300.5)
    assert (second.power_capped_s, second.thermal_s) == (None, 0.0)


def test_heat_contaminates_and_the_power_limit_is_a_caveat(watch: GpuWatch, gpu: FakeGpu) -> None:
    gpu.violations_ns = {pynvml.NVML_PERF_POLICY_POWER: 10**12}
    assert watch.review(ROUNDS) == ""
    assert watch.flags() == ["power_limited"]
    gpu.violations_ns[pynvml.NVML_PERF_POLICY_THERMAL] = 10**12
    assert watch.review(ROUNDS).startswith("heat slowed the GPU for ")
    assert watch.review(ROUNDS) == ""


@pytest.mark.parametrize("policy", ["POWER", "THERMAL"])
def test_a_counter_that_rises_by_more_than_the_elapsed_time_is_not_believed(
    policy: str, watch: GpuWatch, gpu: FakeGpu, clock: Clock
) -> None:
    """Others count in other units: by them it would contaminate every design for ever."""
    clock.step_ns = 10**9
    for rise in (10**12, 2 * 10**12, 2 * 10**12 + 5 * 10**8):
        gpu.violations_ns[getattr(pynvml, f"NVML_PERF_POLICY_{policy}")] = rise
        assert watch.review(ROUNDS) == ""
    assert watch.flags() == ["no_gpu_telemetry"]
    gpu.reasons = 0x40
    assert watch.review(ROUNDS) == "the GPU slowed its clock (event reasons 0x40)"
    assert max(watch.spans[0].thermal_s or 0, watch.spans[0].power_capped_s or 0) == 1000


def test_a_counter_of_heat_that_rises_while_the_gpu_is_idle_is_not_believed(
    gpu: FakeGpu, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeNvml(gpu).installed():
        watch, heat = watch_of(OWN), gpu.violations_ns

        def tick() -> int:
            heat[pynvml.NVML_PERF_POLICY_THERMAL] = Clock.monotonic_ns(clock)
            return clock.now_ns

        monkeypatch.setattr(clock, "monotonic_ns", tick)
        assert [watch.begin(), watch.review(ROUNDS), watch.review(ROUNDS)] == ["", "", ""]
        assert watch.flags() == ["no_gpu_telemetry"]


def test_without_counters_the_reasons_tell(gpu: FakeGpu) -> None:
    gpu.lacks = {"nvmlDeviceGetViolationStatus"}
    with FakeNvml(gpu).installed():
        watch = watch_of(OWN)
        watch.begin()
        gpu.reasons = 0x4
        assert watch.review(ROUNDS) == ""
        gpu.reasons = 0x40
        assert watch.review(ROUNDS) == "the GPU slowed its clock (event reasons 0x40)"
        assert watch.flags() == ["power_limited"]


def test_reasons_are_kept_as_all_the_bits_that_were_ever_set(watch: GpuWatch, gpu: FakeGpu) -> None:
    for gpu.reasons in (0x20, 0x4, 0x80):
        watch.review(ROUNDS)
    assert watch.facts()["gpu_reasons"] == 0xA4


def test_an_older_driver_gives_all_that_it_has(gpu: FakeGpu) -> None:
    gpu.reasons = 0x20
    with FakeNvml(gpu, lacks=("nvmlDeviceGetCurrentClocksEventReasons",)).installed():
        watch = watch_of(OWN)
        watch.begin()
        assert watch.review(ROUNDS) == "the GPU slowed its clock (event reasons 0x20)"
        assert watch.flags() == []


def test_a_driver_that_tells_nothing_of_limits_is_flagged_and_the_rest_is_kept(
    gpu: FakeGpu,
) -> None:
    with FakeNvml(gpu, lacks=(*REASONS, "nvmlDeviceGetViolationStatus")).installed():
        watch = watch_of(OWN)
        watch.begin()
        watch.review(ROUNDS)
        assert watch.flags() == ["no_gpu_telemetry"]
        assert watch.facts() == {
            "gpu_foreign": 0,
            "gpu_sm_mhz": [1410, 1410],
            "gpu_celsius": [50, 50],
            "gpu_watts": [250.0, 250.0],
        }


def test_a_gpu_that_is_lost_while_it_is_measured_ends_nothing(
    watch: GpuWatch, gpu: FakeGpu
) -> None:
    gpu.error = pynvml.NVMLError_GpuIsLost
    assert watch.review(ROUNDS) == ""
    watch.end()
    assert (watch.newcomers, watch.flags()) == (0, ["no_gpu_telemetry"])


def test_another_process_contaminates_until_it_has_gone(driver: FakeNvml, gpu: FakeGpu) -> None:
    gpu.processes[5] = "python"
    watch = watch_of(OWN)
    assert watch.begin() == "another process used the GPU"
    assert watch.review(ROUNDS) == "another process used the GPU"
    del gpu.processes[5]
    assert watch.review(ROUNDS) == ""
    driver.asked.clear()
    assert watch.review(ROUNDS) == ""
    assert "nvmlDeviceGetComputeRunningProcesses" not in driver.asked


@pytest.mark.parametrize(
    "processes",
    [{OWN: "python"}, {31000: "python"}, {OWN: "python", 9: "/usr/bin/nvidia-cuda-mps-server"}, {}],
    ids=["alone", "in a container", "shared by MPS's server", "not there yet"],
)
@pytest.mark.usefixtures("driver")
def test_the_measuring_process_and_the_server_of_mps_are_not_foreign(
    processes: dict[int, str], gpu: FakeGpu
) -> None:
    gpu.processes = processes
    watch = watch_of(OWN)
    assert watch.begin() == ""
    watch.end()
    assert watch.newcomers == 0


@pytest.mark.usefixtures("driver")
def test_in_a_container_a_process_that_was_there_before_is_foreign(gpu: FakeGpu) -> None:
    """Its own process has another number there, so one process need not be its own."""
    gpu.processes = {31000: "python"}
    watch = GpuWatch("GPU-a")
    watch.expect([OWN])
    assert watch.begin() == "another process used the GPU"
    gpu.processes[31001] = "python"
    assert watch.begin() == "another process used the GPU"
    del gpu.processes[31000]
    assert watch.begin() == ""


def test_a_process_that_came_during_the_replicate_contaminates_it(
    tmp_path: Path, driver: FakeNvml, gpu: FakeGpu
) -> None:
    gpu.arriving = [{5: "python"}]
    attempt, _ = measure(tmp_path, driver)
    assert attempt.contaminated
    assert attempt.rounds
    assert all(round_.dirty for round_ in attempt.rounds)
    assert attempt.contamination["gpu_foreign"] == 1


@pytest.mark.usefixtures("driver")
def test_the_watch_is_part_of_what_contaminates_a_round(gpu: FakeGpu) -> None:
    sampler = Sampler(device=GPU, memory_limit_bytes=2**60)
    sampler.close()
    assert sampler.gpu
    sampler.gpu.begin()
    gpu.reasons = 0x80
    assert [round_.round for round_ in sampler.review(ROUNDS) if round_.dirty] == [4, 5, 6, 7]


@pytest.mark.usefixtures("driver")
def test_a_record_names_the_gpus_settings_and_keeps_what_it_reported() -> None:
    words = ["model=resnet50", "device=gpu", "tracker=none"]
    settings = settings_of(compose_config(words), environ={})
    span = GpuSpan(rounds=(0, 3), elapsed_s=1.0)
    record = make_record(settings, "0" * 16, 0, ReplicateResult(gpu=(span,)), environment())
    assert record.gpu == (span,)
    assert record.device == {
        "kind": "gpu",
        "name": "NVIDIA A100-SXM4-80GB",
        "uuid": "GPU-a",
        "memory_bytes": 80 * 2**30,
        "power_limit_w": 400,
        "power_limit_set_w": 400,
        "sm_clock_mhz": 1410,
        "memory_clock_mhz": 1593,
        "ecc": True,
        "persistence": False,
    }


def test_reading_the_machine_ten_times_a_second_asks_the_driver_nothing(driver: FakeNvml) -> None:
    sampler = Sampler(device=GPU, memory_limit_bytes=2**60)
    sampler.close()
    sampler.read()
    assert driver.asked == []
