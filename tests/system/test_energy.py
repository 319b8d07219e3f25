"""Energy counters: a GPU's own among several, those of CPU packages, and what goes wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_nvml import FakeGpu, FakeNvml

from xla_sweeps.system.devices import Device
from xla_sweeps.system.energy import Counter, Meter, MeterError, meter_of

CPU = Device(kind="cpu", index=0, name="Some CPU")

TURN_UJ = 262_143_328_850


def machine(root: Path, *packages: int, unreadable: bool = False) -> Path:
    """A machine whose packages have counters, with their parts and a second interface beside."""
    zones = root / "sys/class/powercap"
    for place in packages:
        for zone, name in (
            (f"intel-rapl:{place}", f"package-{place}"),
            (f"intel-rapl:{place}:0", "core"),
            (f"intel-rapl-mmio:{place}", f"package-{place}"),
        ):
            (zones / zone).mkdir(parents=True)
            (zones / zone / "name").write_text(f"{name}\n")
            (zones / zone / "max_energy_range_uj").write_text(f"{TURN_UJ}\n")
            if not unreadable:
                (zones / zone / "energy_uj").write_text("1000000\n")
    for number in os.sched_getaffinity(0):
        topology = root / f"sys/devices/system/cpu/cpu{number}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text("0\n")
    return root


def counts(root: Path, place: int, microjoules: int) -> None:
    (root / f"sys/class/powercap/intel-rapl:{place}/energy_uj").write_text(f"{microjoules}\n")


def test_each_gpu_has_its_own_counter() -> None:
    first, second = FakeGpu(energy_mj=5_000), FakeGpu(uuid="GPU-b", energy_mj=90_000)
    with FakeNvml(first, second).installed():
        meter = meter_of(Device(kind="gpu", index=1, name="A GPU", uuid="GPU-b"))
        before = meter.read()
        first.energy_mj, second.energy_mj = 9_000, 92_500
        assert meter.joules(before, meter.read()) == 2.5


def test_a_gpu_whose_driver_counts_no_energy_has_no_meter() -> None:
    with FakeNvml(FakeGpu(lacks={"nvmlDeviceGetTotalEnergyConsumption"})).installed():
        meter = meter_of(Device(kind="gpu", index=0, name="A GPU", uuid="GPU-a"))
    assert meter.problem == "the driver does not count the energy of this GPU"


def test_a_counter_that_stands_still_or_begins_again_gives_no_energy() -> None:
    gpu = FakeGpu(energy_mj=5_000)
    with FakeNvml(gpu).installed():
        meter = meter_of(Device(kind="gpu", index=0, name="A GPU", uuid="GPU-a"))
        before = meter.read()
        with pytest.raises(MeterError, match="the GPU's counter stands still"):
            meter.joules(before, meter.read())
        gpu.energy_mj = 100
        with pytest.raises(MeterError, match="the GPU's counter began again"):
            meter.joules(before, meter.read())
        gpu.lacks.add("nvmlDeviceGetTotalEnergyConsumption")
        with pytest.raises(MeterError, match="could no longer be read"):
            meter.read()


def test_the_packages_of_this_process_are_counted_whole_and_once(tmp_path: Path) -> None:
    meter = meter_of(CPU, root=machine(tmp_path, 0, 1))
    before = meter.read()
    counts(tmp_path, 0, 3_500_000)
    counts(tmp_path, 1, 900_000_000)  # the process may not run there
    assert (meter.name, meter.joules(before, meter.read())) == ("CPU package", 2.5)


def test_a_counter_that_wraps_goes_on(tmp_path: Path) -> None:
    meter = meter_of(CPU, root=machine(tmp_path, 0))
    counts(tmp_path, 0, TURN_UJ - 1_000_000)
    before = meter.read()
    counts(tmp_path, 0, 500_000)
    assert meter.joules(before, meter.read()) == 1.5


def test_a_cpu_says_why_its_energy_is_not_known(tmp_path: Path) -> None:
    none = meter_of(CPU, root=tmp_path)
    assert none.problem == ("this machine shows no energy counter of its CPU (/sys/class/powercap)")
    locked = meter_of(CPU, root=machine(tmp_path, 0, unreadable=True))
    assert locked.problem.endswith("intel-rapl:0/energy_uj can be read by root alone")


def test_counters_of_one_device_are_added() -> None:
    values = iter([10, 20, 1_000_010, 2_000_020])
    meter = Meter(name="CPU package", counters=(Counter(read=lambda: next(values)),) * 2)
    assert meter.joules(meter.read(), meter.read()) == 3.0
