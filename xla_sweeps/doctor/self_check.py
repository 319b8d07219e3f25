"""Check whether figures of a device can be trusted: the checks of `doctor --full`.

What one process can measure is a program of the backend; the rest is shown by real trials.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence

from xla_sweeps.analysis.estimates import figure
from xla_sweeps.analysis.interval import interval_alone
from xla_sweeps.analysis.measured import samples_of
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.doctor.check_result import (
    EXPECTED_RATIO,
    Checked,
    answers_of,
    check_of,
    impossible,
    judged_interval,
)
from xla_sweeps.schema.backend import Backend, backends
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import Figure
from xla_sweeps.system import nvml, programs
from xla_sweeps.system.devices import Device, usable_cores
from xla_sweeps.system.environment import absent, child_environment
from xla_sweeps.system.files import scratch_folder
from xla_sweeps.trial import runner
from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.replicate import Screen
from xla_sweeps.trial.tracking import tracker_named

PROGRAM, PLANTS = "self_check", "plants"
"""Programs of a backend: all checks that one process can make, or those of its outputs only."""

LIMIT_S = 180.0  # seconds that the backend's program has

CPU_TRIAL = ("model=mnist_mlp", "batch_size=32")
GPU_MODEL, BATCHES = "model=resnet50", (64, 128, 256, 512)

AA_WORDS = ("modes=[graph,graph]", "effort=quick", "tracker=none")

PROCESSES = 3

DEVICE_BOUND = 0.5
"""The part of a call that enqueuing it may take where the device is the limit."""

CPU_FLOP_PER_S = 64 * 6e9
"""The most of one core: two vectors of 512 bits multiplied and added a tick, at 6 GHz."""

COUNTER_SLACK = 1.02
"""A counter of time may rise by this many times the time that passed."""

Say = Callable[[str], None]
"""Told in words what is being checked."""

Measure = Callable[[Sequence[str], int], Sequence[Record]]
"""Measures two copies of a mode of a trial in so many processes; returns all their records."""


class _Unwatched(Screen):
    """A screen that says stages and warnings, and nothing of rounds; processes from `after` + 1."""

    def __init__(self, say: Say, after: int) -> None:
        self._say, self._after = say, after

    def stage(self, replicate: int, stage: str, mode: str | None, detail: str = "") -> None:
        process = f"A/A process {self._after + replicate + 1}:"
        self._say(" ".join(filter(None, (process, stage, mode, detail))))

    def replicate_done(self, replicate: int, status: str, message: str = "") -> None:
        self.stage(replicate, status, message)

    def warn(self, message: str) -> None:
        self._say(message)


def check(device: Device, backend: Backend, say: Say) -> Iterator[Checked]:
    """Check a device, in some minutes; each check when it is done."""
    is_there = not absent(backend)
    if is_there:
        say("speed, memory, outputs")
        yield from check_process(device, backend)
    for other in backends():
        if PLANTS in other.programs and not absent(other):
            say(f"outputs on {other.title}")
            yield from check_plants(device, other)
    if not is_there:
        yield impossible("speed, memory, A/A", f"needs {backend.title}", "trusted")
        return
    with scratch_folder() as folder:
        processes = 0

        def measure(words: Sequence[str], replicates: int) -> Sequence[Record]:
            place = (f"device={device.label}", f"results_dir={folder}")
            count = f"effort.replicates={replicates}"
            settings = settings_of(compose_config((*words, *AA_WORDS, count, *place)))
            nonlocal processes
            screen = _Unwatched(say, after=processes)
            processes += replicates
            done = runner.run_trial(settings, screen=screen, tracker=tracker_named("none"))
            if done.exit_code >= 128:
                raise KeyboardInterrupt
            return done.records

        yield from check_copies(device, measure)


def check_process(device: Device, backend: Backend) -> Iterator[Checked]:
    """Pass on what the backend's program checks, and that it ended early."""
    peak = CPU_FLOP_PER_S * usable_cores()
    if device.kind == "gpu":
        peak = nvml.float32_peak(device.uuid) or math.inf
    done = _run(device, backend, PROGRAM, "measure", device.kind, str(peak))
    yield from answers_of(done.output, Checked)
    if done.code != 0:
        yield check_of("checks in one process", done.reason, "all made", ok=False)


def check_plants(device: Device, backend: Backend) -> Iterator[Checked]:
    """Pass on which planted errors a backend's modes show, or that it does not run there."""
    done = _run(device, backend, PLANTS, device.kind)
    yield from answers_of(done.output, Checked)
    name, expected = f"outputs on {backend.title}", "errors caught"
    if done.code is None or done.code < 0:
        yield check_of(name, done.reason, expected, ok=False)
    elif done.code:
        yield impossible(name, done.reason, expected)


def _run(device: Device, backend: Backend, *words: str) -> programs.Ended:
    extra = backend.logging(2)
    variables = child_environment(os.environ, device=device, backend=backend, extra=extra)
    return programs.run(backend, *words, environment=variables, limit_s=LIMIT_S)


def check_copies(device: Device, measure: Measure) -> Iterator[Checked]:
    """Judge copies of a mode in three processes, which the device limits, and its counters.

    On a GPU the batch is doubled until enqueuing a call takes less than half of it.
    """
    words, records, waits = CPU_TRIAL, list[Record](), ""
    for batch in BATCHES if device.kind == "gpu" else ():
        words = (GPU_MODEL, f"batch_size={batch}")
        records = [*measure(words, 1)]
        share = enqueue_share([one for one in records if one.rounds])
        if share is None:  # memory did not suffice
            break
        waits = f"enqueuing takes {share:.0%} of a call of {batch} images"
        if share < DEVICE_BOUND:
            waits = ""
            break
    if waits:
        yield impossible("A/A where the device is the limit", waits, EXPECTED_RATIO)
        return
    records += measure(words, PROCESSES - len(records))
    good = [one for one in records if one.rounds]
    if len(good) < PROCESSES:
        failed = next((one.failure for one in records if one.failure), None)
        text = failed.message if failed else "no rounds"
        text = f"{PROCESSES - len(good)} of {PROCESSES} processes failed: {text}"
        yield check_of("A/A trial", text, "none", ok=False)
    ratio = figure("speedup", samples_of(good), *good[0].trial.modes) if good else None
    yield judged_copies(ratio)
    yield _gpu_counters(good) if device.kind == "gpu" else _cpu_counters(device)


def enqueue_share(records: Sequence[Record]) -> float | None:
    """Time to enqueue a call / time of the call, of the mode where it is most."""
    modes = summarize(records, pool=None).modes if records else ()
    shares = [mode.host_bound_index for mode in modes if mode.host_bound_index is not None]
    return max(shares, default=None)


def judged_copies(ratio: Figure | None) -> Checked:
    """Compare a ratio over processes with 1; one process alone says too little."""
    count = ratio.replicates if ratio else 0
    name = f"A/A over {count} processes"
    if ratio is None or count < 2:
        return impossible(name, "too few processes", EXPECTED_RATIO)
    return judged_interval(name, interval_alone(ratio))


def _gpu_counters(records: Sequence[Record]) -> Checked:
    """Compare the driver's counters of time with the time that passed."""
    shares = [
        counted / span.elapsed_s
        for record in records
        for span in record.gpu
        for counted in (span.thermal_s, span.power_capped_s)
        if counted is not None and span.elapsed_s
    ]
    return _judge_counters("GPU", max(shares, default=None))


def _cpu_counters(device: Device) -> Checked:
    """Compare the kernel's counters of CPU time with the time that passed."""
    with Sampler(device=device, memory_limit_bytes=2**62) as sampler:
        first = sampler.read()
        time.sleep(2.0)  # the counters are watched for so long
        last = sampler.read()
    counted_s = last.busy_s + last.steal_s - first.busy_s - first.steal_s
    return _judge_counters("CPU", counted_s / ((last.at_ns - first.at_ns) / 1e9 * usable_cores()))


def _judge_counters(kind: str, share: float | None) -> Checked:
    name, expected = f"{kind}'s counters / elapsed time", f"at most {COUNTER_SLACK:g}"
    if share is None:
        return impossible(name, "the driver has no such counters", expected)
    return check_of(name, f"{share:.3f}", expected, ok=share <= COUNTER_SLACK)
