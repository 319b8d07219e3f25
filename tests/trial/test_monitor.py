"""The contamination monitor: what contaminates, what does not, and a real neighbour."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import fields, replace
from pathlib import Path

import pytest
from neighbour import hog

from xla_sweeps.schema.measurement import Load, Round
from xla_sweeps.system.devices import Device, usable_cores
from xla_sweeps.trial import neighbours
from xla_sweeps.trial.monitor import Sample, Sampler, around, contamination, load_of, machine_times

CPU = Device(kind="cpu", index=0, name="Some CPU")

SECOND = 10**9


def sample(at_s: float, **changes: object) -> Sample:
    zeros = {field.name: 0 for field in fields(Sample)}
    return Sample(**{**zeros, "at_ns": round(at_s * SECOND), **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (sample(1, busy_s=2.0, own_s=1.9), ""),
        (sample(1, busy_s=2.0, own_s=1.2), "other processes used 0.8 cores"),
        (sample(1, steal_s=0.3), "the hypervisor took 15% of the CPU"),
        (sample(1, steal_s=0.05), ""),
        (sample(1, throttled_s=0.01), "the CPU quota throttled this control group"),
    ],
)
def test_each_kind_of_contamination_is_described(last: Sample, reason: str) -> None:
    assert contamination([sample(0), last], cores=2) == reason


def test_the_load_of_a_stretch_is_told_in_figures() -> None:
    samples = [sample(0), sample(1), sample(2, busy_s=3, own_s=2, steal_s=0.4, pressure_s=0.5)]
    expected = Load(foreign_cores=0.5, steal_share=0.1, pressure_share=0.25)
    assert load_of(samples, cores=2) == expected


def test_on_a_large_machine_five_percent_by_others_are_allowed() -> None:
    samples = [sample(0), sample(1, busy_s=3.0, own_s=1.0)]
    assert contamination(samples, cores=64) == ""
    assert contamination(samples, cores=8) == "other processes used 2.0 cores"


def test_a_short_stretch_is_judged_over_half_a_second_around_it() -> None:
    samples = [sample(index / 10) for index in range(21)]
    chosen = around(samples, round(1.00 * SECOND), round(1.02 * SECOND))
    assert (chosen[0].at_ns, chosen[-1].at_ns) == (round(0.7 * SECOND), round(1.3 * SECOND))
    assert len(around(samples, 0, 2 * SECOND)) == 21
    assert around(samples, 5 * SECOND, 6 * SECOND)[-1] == samples[-1]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A /proc and /sys with made-up counters, which `step` in a test increases."""
    for name, text in {
        "proc/stat": "cpu  100 0 100 500 0 0 0 10 0 0\n",
        "proc/77/stat": "77 (a b) c) S "
        + " ".join(["0"] * 10)
        + " 50 30 5 5 "
        + " ".join(["0"] * 30),
        "proc/77/status": "VmRSS:\t 2048 kB\nnonvoluntary_ctxt_switches:\t42\n",
        "proc/pressure/cpu": (
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000000\nfull avg10=0.00 total=1\n"
        ),
        "sys/fs/cgroup/cpu.stat": "usage_usec 1\nthrottled_usec 2000000\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_kernels_counters_are_read_correctly(machine: Path) -> None:
    sampler = watching(machine, 77)
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    seen = sampler.read()
    assert seen.busy_s == pytest.approx(200 * tick_s)
    assert seen.steal_s == pytest.approx(10 * tick_s)
    assert seen.own_s == pytest.approx(90 * tick_s)
    assert (seen.pressure_s, seen.throttled_s) == (5.0, 2.0)
    assert (seen.involuntary_switches, seen.rss_bytes) == (42, {77: 2048 * 1024})


def watching(machine: Path, measuring: int, *started: tuple[int, int, str]) -> Sampler:
    """A stopped sampler of a measuring process; `started`: process, thread and its children."""
    for pid, thread, children in started:
        place = machine / f"proc/{pid}/task/{thread}/children"
        place.parent.mkdir(parents=True)
        place.write_text(children)
    sampler = Sampler(device=CPU, memory_limit_bytes=2**40, root=machine)
    sampler.add(measuring, lambda: None)
    sampler.close()
    return sampler


def test_a_helper_that_another_thread_started_is_our_own(machine: Path) -> None:
    sampler = watching(machine, 78, (os.getpid(), 70, "71 78"), (71, 71, "77 "), (78, 78, "79"))
    assert sampler.read().own_s == pytest.approx(90 / os.sysconf("SC_CLK_TCK"))


def test_a_compiler_that_a_measuring_process_started_is_its_own_load(machine: Path) -> None:
    """XLA runs `ptxas` as a child, whose time the kernel adds to its parent's only at its end."""
    own = os.getpid()
    sampler = watching(machine, 77, (own, own, "77"), (77, 77, "79"))
    first = sampler.read()
    ticks = " ".join(["0"] * 10) + " 300 0 0 0 " + " ".join(["0"] * 30)
    (machine / "proc/79").mkdir()
    (machine / "proc/79/stat").write_text(f"79 (ptxas) R {ticks}")
    (machine / "proc/stat").write_text("cpu  400 0 100 500 0 0 0 10 0 0\n")
    last = replace(sampler.read(), at_ns=first.at_ns + SECOND)
    assert last.busy_s - first.busy_s == pytest.approx(300 / os.sysconf("SC_CLK_TCK"))
    assert load_of([first, last], cores=4).foreign_cores == 0


def test_a_kernel_that_lacks_some_counters_is_not_an_error(tmp_path: Path) -> None:
    sampler = watching(tmp_path, 77)
    assert sampler.summary()["foreign_cores"] == 0.0
    assert sampler.review([]) == []


def test_exceeding_the_memory_limit_is_reported_once(machine: Path) -> None:
    told: list[int] = []
    alarm = threading.Event()

    def exceeded() -> None:
        told.append(1)
        alarm.set()

    sampler = Sampler(device=CPU, memory_limit_bytes=2**20, root=machine)
    sampler.add(77, exceeded)
    assert alarm.wait(120)
    time.sleep(0.35)
    sampler.close()
    assert told == [1]


def test_a_real_neighbour_contaminates_the_rounds_beside_it_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "NAMED", 99)  # other tests run beside it
    quiet = subprocess.Popen(["sleep", "60"])
    try:
        with hog(tmp_path), Sampler(device=CPU, memory_limit_bytes=2**40) as sampler:
            sampler.add(quiet.pid, lambda: None)
            started = time.perf_counter_ns()
            time.sleep(1.2)
            rounds = [
                Round(
                    round=3,
                    order=(),
                    blocks=(),
                    started_ns=started,
                    finished_ns=time.perf_counter_ns(),
                )
            ]
            (reviewed,) = sampler.review(rounds)
            summary, now = sampler.summary(), sampler.disturbance()
    finally:
        quiet.kill()
        quiet.wait()
    assert "cores" in reviewed.dirty or "hypervisor" in reviewed.dirty
    assert summary["foreign_cores"] > 0.25
    assert summary["cores"] == usable_cores()
    assert "hungry" in summary["busiest"]
    assert re.fullmatch(r"others use \d\.\d of \d+ cores \(.*\bhungry\b.*\)", now)
    assert "secret-argument" not in f"{summary} {now}"


def test_the_work_of_the_measured_process_itself_is_not_foreign() -> None:
    """Its CPU time, by its own clock, is in what is our own: all of it, and once."""
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def spent_s() -> float:
        """CPU time of the worker and of this process, by their own clocks."""
        clock = (~worker.pid << 3) | 2  # the kernel's number for the CPU clock of a process
        return time.clock_gettime(clock) + time.process_time()

    try:
        with Sampler(device=CPU, memory_limit_bytes=2**40) as sampler:
            sampler.add(worker.pid, lambda: None)
            before_first, first, after_first = spent_s(), sampler.read(), spent_s()
            while spent_s() < after_first + 0.5:  # on a busy machine that takes a while
                time.sleep(0.05)
            before_last, last, after_last = spent_s(), sampler.read(), spent_s()
    finally:
        worker.kill()
        worker.wait()
    ticks_s = 6 / os.sysconf("SC_CLK_TCK")  # user and system time of both are whole ticks
    least_s, most_s = before_last - after_first - ticks_s, after_last - before_first + ticks_s
    assert least_s < last.own_s - first.own_s < most_s


def test_load_on_cores_outside_our_affinity_is_not_contamination() -> None:
    stat = (
        "cpu  300 0 0 900 0 0 0 30 0 0\ncpu0 100 0 0 500 0 0 0 10 0 0\ncpu1 200 0 0 400 0 0 0 20 0 "
        "0\nintr 5\n"
    )
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert machine_times(stat, {0}) == pytest.approx((100 * tick, 10 * tick))
    assert machine_times(stat, {0, 1}) == pytest.approx((300 * tick, 30 * tick))
    assert machine_times(stat, {7}) == pytest.approx((300 * tick, 30 * tick))
    assert machine_times("", {0}) == (0.0, 0.0)
