"""Watch the machine for contamination, from outside the measuring processes, ten times a second.

The measuring processes, and what they start, have CPU counters of their own. Any other load, stolen
time or throttling contaminates the rounds that it falls into, and they are measured again.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from xla_sweeps.schema.measurement import Load, Round
from xla_sweeps.system.devices import Device, read_or_empty, usable_cores
from xla_sweeps.system.energy import meter_of
from xla_sweeps.system.process import descendants
from xla_sweeps.trial.gpu import SHARED, GpuWatch
from xla_sweeps.trial.neighbours import FOREIGN, busiest, disturbance_of, in_words, spending

PERIOD_S = 0.1

WINDOW_S = 0.5
"""Shortest interval that is judged: the kernel counts CPU time in ticks of 10 ms."""

FOREIGN_CORES = 0.25
FOREIGN_SHARE = 0.05
"""A round is contaminated if other processes use more than this many cores and share of them."""

STEAL_SHARE = 0.05

QUIET_S = 2.0  # the machine is quiet when nothing contaminated it for so long

WAIT_LIMIT_S = 30.0
"""Longest wait for a quiet machine of a replicate whose predecessor was contaminated."""

IDLE_CORES = 0.1
"""A round is contaminated if idle workers use more than this many cores during a block."""

SETTLE_S = 0.5
"""Longest wait for a worker's thread pools, which spin for a while after their last work."""

SETTLE_LOOK_S = 0.005

_CPUCLOCK_SCHED = 2

_KEEP = 36_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Counters at one moment; times are seconds since boot unless stated otherwise.

    Attributes:
        at_ns: CLOCK_MONOTONIC, the clock of `perf_counter_ns`.
        busy_s: CPU time of all cores together.
        own_s: of which by the measuring processes, this process and all that these started.
        rss_bytes: resident memory of each measuring process, by process id.
    """

    at_ns: int
    busy_s: float
    own_s: float
    steal_s: float
    pressure_s: float
    throttled_s: float
    involuntary_switches: int
    rss_bytes: Mapping[int, int]


class Sampler(AbstractContextManager["Sampler"]):
    """Sample in a thread of its own until it is closed; a context manager.

    Attributes:
        gpu: watches the GPU; None on a CPU.
        meter: makes the meter of the device's energy.
    """

    def __init__(self, *, device: Device, memory_limit_bytes: int, root: Path = Path("/")) -> None:
        self._root, self._limit = root, memory_limit_bytes
        self._exceeded: dict[int, Callable[[], None]] = {}
        self.gpu = GpuWatch(device.uuid) if device.kind == "gpu" else None
        self.meter = partial(meter_of, device, root=root)
        self._cores, self._mine = usable_cores(), os.sched_getaffinity(0)
        self.forget()
        self._stopped, self._resting = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()

    def forget(self) -> None:
        """Forget what was seen until now."""
        self._samples = [self.read()]
        self._others = self._looked = spending(self._root)
        self._looked_ns = self._samples[0].at_ns

    def __exit__(self, *ended: object) -> None:
        self.close()

    def add(self, pid: int, exceeded: Callable[[], None]) -> None:
        """Watch one more process from now on; `exceeded` is called above the memory limit."""
        self._exceeded = {**self._exceeded, pid: exceeded}
        if self.gpu:
            self.gpu.expect(self._exceeded)
        self.forget()

    @contextmanager
    def following(self, pid: int, exceeded: Callable[[], None]) -> Iterator[None]:
        """Watch a measuring process that comes and goes between others."""
        before = self._exceeded
        self._exceeded = {**before, pid: exceeded}
        try:
            yield
        finally:
            self._exceeded = before

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Sample only when asked: nothing is measured here, but perhaps by a process beside it."""
        self._resting = True
        try:
            yield
        finally:
            self._resting = False

    def close(self) -> None:
        """Stop sampling."""
        self._stopped.set()
        self._thread.join()

    def review(self, rounds: Sequence[Round]) -> list[Round]:
        """These rounds with what contaminated them, and the machine's other load around each."""
        samples = self._sample_now()
        slowed = self.gpu.review(rounds) if self.gpu else ""
        reviewed = []
        for round_ in rounds:
            span = around(samples, round_.started_ns, round_.finished_ns)
            cause = contamination(span, cores=self._cores) or slowed
            load = load_of(span, cores=self._cores)
            reviewed.append(replace(round_, dirty=cause, load=load))
        return reviewed

    def disturbance_between(self, began_ns: int, ended_ns: int) -> str:
        """Contamination between two times of CLOCK_MONOTONIC in words, or ""."""
        span = around(self._sample_now(), began_ns, ended_ns)
        shared = SHARED if self.gpu and self.gpu.foreign else ""
        return contamination(span, cores=self._cores) or shared

    def disturbance(self) -> str:
        """Present contamination in words, or ""; between blocks only: it looks at every process."""
        samples = self._sample_now()
        last_ns = samples[-1].at_ns
        recent = around(samples, last_ns - round(QUIET_S * 1e9), last_ns)
        cause = contamination(recent, cores=self._cores)
        foreign = load_of(recent, cores=self._cores).foreign_cores
        if not cause and self.gpu:
            cause = self.gpu.begin()
        if not cause or foreign <= allowed_cores(self._cores):
            return cause
        before, since_ns = self._looked, self._looked_ns
        self._looked, self._looked_ns = spending(self._root), last_ns
        names = busiest(before, self._looked, (last_ns - since_ns) / 1e9, self._mine)
        return in_words(foreign, self._cores, names)

    def summary(self) -> dict[str, Any]:
        """The whole time for the record: shares of CPU time, peaks, the busiest others."""
        samples = list(self._samples)
        first, last = samples[0], samples[-1]
        span_s = max(1e-9, (last.at_ns - first.at_ns) / 1e9)
        facts: dict[str, Any] = {
            **asdict(load_of(samples, cores=self._cores)),
            "samples": len(samples),
            "cores": self._cores,
            "busiest": busiest(self._others, spending(self._root), span_s, self._mine),
            "throttled_s": round(last.throttled_s - first.throttled_s, 4),
            "involuntary_switches": max(0, last.involuntary_switches - first.involuntary_switches),
            "peak_rss_bytes": max(max(sample.rss_bytes.values(), default=0) for sample in samples),
        }
        return facts | (self.gpu.facts() if self.gpu else {})

    def others(self) -> str:
        """Contamination of the whole time in words, with the busiest others; "" for none."""
        cause = contamination(self._sample_now(), cores=self._cores)
        return disturbance_of(self.summary()) if cause.startswith(FOREIGN) else cause

    def _sample_now(self) -> list[Sample]:
        """All samples so far, the last one of now."""
        self._samples.append(self.read())
        return list(self._samples)

    def read(self) -> Sample:
        """One sample, now."""
        pressure = read_or_empty(self._root / "proc/pressure/cpu")
        throttling = read_or_empty(self._root / "sys/fs/cgroup/cpu.stat")
        busy_s, steal_s = machine_times(read_or_empty(self._root / "proc/stat"), self._mine)
        measured = tuple(self._exceeded)
        started = descendants(os.getpid(), root=self._root)  # compilers of measured ones as well
        own_s = sum(_process_s(self._root, pid) for pid in {*measured, os.getpid(), *started})
        statuses = {pid: read_or_empty(self._root / f"proc/{pid}/status") for pid in measured}
        return Sample(
            at_ns=time.monotonic_ns(),
            busy_s=busy_s,
            own_s=own_s,
            steal_s=steal_s,
            pressure_s=_number(pressure, r"^some .*total=(\d+)") / 1e6,
            throttled_s=_number(throttling, r"^throttled_usec (\d+)") / 1e6,
            involuntary_switches=sum(
                _number(status, r"^nonvoluntary_ctxt_switches:\s*(\d+)")
                for status in statuses.values()
            ),
            rss_bytes={
                pid: _number(status, r"^VmRSS:\s*(\d+)") * 1024 for pid, status in statuses.items()
            },
        )

    def _run(self) -> None:
        alarmed: set[int] = set()
        while not self._stopped.wait(PERIOD_S):
            if self._resting:
                continue
            samples, sample = self._samples, self.read()
            samples.append(sample)
            if len(samples) > _KEEP:
                del samples[1 : -(_KEEP // 2)]
            for pid, exceeded in self._exceeded.items():
                if sample.rss_bytes.get(pid, 0) > self._limit and pid not in alarmed:
                    alarmed.add(pid)
                    exceeded()


def around(samples: Sequence[Sample], started_ns: int, finished_ns: int) -> list[Sample]:
    """The samples that span an interval, widened on both sides to at least `WINDOW_S`."""
    missing_ns = max(0, round(WINDOW_S * 1e9) - (finished_ns - started_ns)) // 2
    low, high = started_ns - missing_ns, finished_ns + missing_ns
    before = bisect_right(samples, low, key=lambda sample: sample.at_ns)
    after = bisect_left(samples, high, key=lambda sample: sample.at_ns)
    return list(samples[max(0, before - 1) : after + 1])


def contamination(samples: Sequence[Sample], *, cores: int) -> str:
    """Contamination of an interval in words, or ""."""
    first, last, load = samples[0], samples[-1], load_of(samples, cores=cores)
    if last.at_ns <= first.at_ns:
        return ""
    if load.foreign_cores > allowed_cores(cores):
        return f"{FOREIGN}{load.foreign_cores:.1f} cores"
    if load.steal_share > STEAL_SHARE:
        return f"the hypervisor took {load.steal_share:.0%} of the CPU"
    if last.throttled_s > first.throttled_s:
        return "the CPU quota throttled this control group"
    return ""


def cpu_ns(pids: Sequence[int]) -> int:
    """CPU time of all threads of these processes so far, ns; 0 for one that has ended.

    References:
        clock_getcpuclockid(3): the clock of a process is its inverted id, shifted by three bits.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    return total


def settle(pids: Sequence[int]) -> None:
    """Return once these compute no more, or after `SETTLE_S`: OpenMP's threads spin for 200 ms."""
    deadline, used_ns = time.monotonic() + SETTLE_S, cpu_ns(pids)
    while pids and time.monotonic() < deadline:
        time.sleep(SETTLE_LOOK_S)
        before_ns, used_ns = used_ns, cpu_ns(pids)
        if used_ns - before_ns < IDLE_CORES * SETTLE_LOOK_S * 1e9:
            return


def disturbance_by_idle(measured: Round) -> str:
    """Contamination of a round by idle workers, in words, or ""."""
    for block in measured.blocks:
        cores = (block.idle_cpu_ns or 0) / block.elapsed_ns
        if cores > IDLE_CORES:
            return f"the trial's idle processes used {cores:.1f} cores"
    return ""


def load_of(samples: Sequence[Sample], *, cores: int) -> Load:
    """Other load of the machine, from the first of these samples to the last."""
    first, last = samples[0], samples[-1]
    span_s = max(1e-9, (last.at_ns - first.at_ns) / 1e9)
    foreign_s = (last.busy_s - first.busy_s) - (last.own_s - first.own_s)
    return Load(
        foreign_cores=round(max(0.0, foreign_s / span_s), 3),
        steal_share=round((last.steal_s - first.steal_s) / span_s / cores, 4),
        pressure_share=round((last.pressure_s - first.pressure_s) / span_s, 4),
    )


def allowed_cores(cores: int) -> float:
    """Number of cores that others may use before a round is contaminated."""
    return max(FOREIGN_CORES, FOREIGN_SHARE * cores)


def machine_times(stat: str, mine: Collection[int]) -> tuple[float, float]:
    """Seconds that the cores `mine` were busy, and that the hypervisor took from them."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    lines = {
        line.split()[0]: [int(word) for word in line.split()[1:9]]
        for line in stat.splitlines()
        if line[:3] == "cpu"
    }
    each = [name for name in lines if name != "cpu"]
    own = [f"cpu{number}" for number in mine if f"cpu{number}" in lines]
    chosen = own if own and len(own) < len(each) else ["cpu"]
    busy = steal = 0
    for name in chosen:
        user, nice, system, _idle, _iowait, irq, softirq, stolen = lines.get(name, [0] * 8)
        busy += user + nice + system + irq + softirq
        steal += stolen
    return busy * tick_s, steal * tick_s


def _process_s(root: Path, pid: int) -> float:
    """CPU seconds of a process, all its threads and its reaped children."""
    fields = read_or_empty(root / f"proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _number(text: str, pattern: str) -> int:
    """The number that a pattern finds in a file of the kernel's; 0 where it is not there."""
    match = re.search(pattern, text, re.M)
    return int(match[1]) if match else 0
