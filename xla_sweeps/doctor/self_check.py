"""Check whether figures of a device can be trusted: the checks of `doctor --full`.

What one process can measure is a program of the backend (`self_check`). The rest is shown by real
trials, through the runner, and by the watcher of the machine.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from xla_sweeps.analysis.estimates import figure
from xla_sweeps.analysis.interval import interval_alone
from xla_sweeps.analysis.summary import samples_of, summarize
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.doctor.check_result import (
    EXPECTED_RATIO,
    Checked,
    impossible,
    judged,
    judged_interval,
    judged_ratio,
    ratio_words,
    reported,
)
from xla_sweeps.schema.backend import Backend
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import Figure
from xla_sweeps.system import nvml, programs
from xla_sweeps.system.devices import Device, usable_cores
from xla_sweeps.system.environment import child_environment
from xla_sweeps.system.process import signal_process
from xla_sweeps.trial import runner
from xla_sweeps.trial.monitor import FOREIGN_CORES, Sampler
from xla_sweeps.trial.rounds import Progress
from xla_sweeps.trial.tracking import tracker_named

PROGRAM = "self_check"

LIMIT_S = 180.0
"""Seconds that a program of the backend has."""

CPU_TRIAL = ("model=mnist_mlp", "batch_size=32")
HOST_TRIAL = ("model=mobilenet_v2", "resolution=96", "batch_size=32")
DEVICE_MODEL, BATCHES = "model=resnet50", (64, 128, 256, 512)

AA_WORDS = ("modes=[graph,graph]", "effort=quick", "tracker=none")

PROCESSES = 3

DEVICE_BOUND = 0.5
"""The part of a call that enqueuing it may take where the device is the limit."""

DESIGN = 4
"""Rounds in a Williams design of two modes."""

LATER_S = 0.5
"""Seconds that a first call may take longer where it is the process's first."""

CPU_FLOP_PER_S = 64 * 6e9
"""The most of one core: two vectors of 512 bits multiplied and added a tick, at 6 GHz."""

COUNTER_SLACK = 1.02
"""A counter of time may rise by this many times the time that passed."""

HOLD_S = 60.0
WATCHED_S = 2.0

Answer = TypeVar("Answer")

Say = Callable[[str], None]
"""Told in words what is being checked."""

Measure = Callable[[Sequence[str], int], Sequence[Record]]
"""Measures two copies of a mode of a trial in so many processes; returns all their records."""


class _Unwatched:
    """A screen on which nobody follows; satisfies `Screen`. Stages and warnings go to `say`."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def trial_started(self, title: str, *, replicates: int, log: Path) -> None:
        """Show nothing of a trial as a whole."""

    def stage(self, replicate: int, stage: str, mode: str | None, detail: str = "") -> None:
        """A stage begins."""
        self._say(" ".join(filter(None, (f"A/A process {replicate + 1}:", stage, mode, detail))))

    def round_done(self, replicate: int, progress: Progress) -> None:
        """Show nothing of rounds."""

    def replicate_done(self, replicate: int, status: str, message: str = "") -> None:
        """A replicate ended."""
        self._say(" ".join(filter(None, (f"A/A process {replicate + 1}:", status, message))))

    def warn(self, message: str) -> None:
        """Something a person should know now."""
        self._say(message)


def check(device: Device, backend: Backend, say: Say) -> Iterator[Checked]:
    """Check a device, in some minutes; each check when it is done.

    Args:
        device: where.
        backend: the framework whose programs and trials are used.
        say: told what is being checked.
    """
    variables = child_environment(
        os.environ, device=device, backend=backend, extra=backend.logging(2)
    )
    say("speed, precision, harness, memory, outputs")
    yield from _measured(device, backend, variables)
    say("first calls in both orders")
    yield from _first_calls(device, backend, variables)
    say("a second process")
    yield _neighbour(device, backend, variables)
    yield from _trials(device, say)


def _measured(device: Device, backend: Backend, variables: Mapping[str, str]) -> Iterator[Checked]:
    """Pass on what the backend's program checks, and that it ended early."""
    peak = CPU_FLOP_PER_S * usable_cores()
    if device.kind == "gpu":
        peak = nvml.float32_peak(device.uuid) or math.inf
    words = ("measure", device.kind, str(peak))
    done = programs.run(backend, PROGRAM, *words, environment=variables, limit_s=LIMIT_S)
    yield from _decoded(done.output, Checked)
    if done.code != 0:
        yield judged("checks in one process", done.reason, "all made", ok=False)


def _first_calls(
    device: Device, backend: Backend, variables: Mapping[str, str]
) -> Iterator[Checked]:
    """Compare the first calls of two modes in both orders: what the first pays for both."""
    order, seconds = ("graph", "xla"), []
    name, expected = "first calls", f"at most {LATER_S:g} s more as the first"
    for modes in (order, order[::-1]):
        words = ("first", device.kind, *modes)
        done = programs.run(backend, PROGRAM, *words, environment=variables, limit_s=LIMIT_S)
        told = list(_decoded(done.output, dict[str, float]))
        if done.code != 0 or not told:
            yield judged(name, done.reason, expected, ok=False)
            return
        seconds.append(told[-1])
    for index, mode in enumerate(order):
        as_first, as_second = seconds[index][mode], seconds[1 - index][mode]
        yield judged(
            f"first call of {mode}",
            f"{as_first:.2f} s as the first, {as_second:.2f} s as the second",
            expected,
            ok=as_first - as_second <= LATER_S,
        )


def _neighbour(device: Device, backend: Backend, variables: Mapping[str, str]) -> Checked:
    """Start a process of nobody's on the device, and see whether the watcher notices it."""
    name, expected = "a second process on the device", "noticed"
    with Sampler(device=device, memory_limit_bytes=2**62) as sampler:
        before, cause = _foreign_cores(sampler), sampler.gpu.begin() if sampler.gpu else ""
        if cause:
            return impossible(name, f"already: {cause}", expected)
        if not sampler.gpu and before > usable_cores() - 2 * FOREIGN_CORES:
            return impossible(name, f"others use {before:.1f} cores already", expected)
        pid = _start_orphan(
            (*backend.command(PROGRAM), "hold", device.kind, str(HOLD_S)), variables
        )
        try:
            until = time.monotonic() + HOLD_S
            while time.monotonic() < until:
                used = _foreign_cores(sampler)
                cause = sampler.gpu.begin() if sampler.gpu else ""
                if cause or (not sampler.gpu and used - before > FOREIGN_CORES):
                    figure = cause or f"others use {used:.1f} cores, before {before:.1f}"
                    return judged(name, f"noticed: {figure}", expected, ok=True)
        finally:
            signal_process(pid, signal.SIGKILL)
    return judged(name, f"not noticed in {HOLD_S:g} s", expected, ok=False)


def _foreign_cores(sampler: Sampler) -> float:
    """Cores that others use, for a while."""
    first, began = sampler.read(), time.monotonic()
    time.sleep(WATCHED_S)
    last, seconds = sampler.read(), time.monotonic() - began
    return ((last.busy_s - first.busy_s) - (last.own_s - first.own_s)) / seconds


def _start_orphan(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Start a process that is no descendant of this one; returns its process id."""
    script = '"$@" >/dev/null 2>&1 & echo $!'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *command],
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    return int(done.stdout)


def _trials(device: Device, say: Say) -> Iterator[Checked]:
    """Measure two copies of a mode in three processes, as any trial is measured."""
    with tempfile.TemporaryDirectory(prefix="xla-sweeps-doctor-") as folder:

        def measure(words: Sequence[str], replicates: int) -> Sequence[Record]:
            place = (f"device={device.label}", f"results_dir={folder}")
            count = f"effort.replicates={replicates}"
            settings = settings_of(compose_config((*words, *AA_WORDS, count, *place)))
            done = runner.run_trial(settings, screen=_Unwatched(say), tracker=tracker_named("none"))
            if done.exit_code >= 128:
                raise KeyboardInterrupt
            return done.records

        yield from check_copies(device, measure)


def check_copies(device: Device, measure: Measure) -> Iterator[Checked]:
    """Judge copies of a mode that the device limits; show those that the host limits.

    On a GPU the batch is doubled until enqueuing a call takes less than half of it.
    """
    words, records, text = CPU_TRIAL, list[Record](), ""
    if device.kind == "gpu":
        if host_bound := copies_of([one for one in measure(HOST_TRIAL, 1) if one.rounds]):
            name = "A/A where the host is the limit"
            yield reported(name, ratio_words(interval_alone(host_bound)), EXPECTED_RATIO)
        for batch in BATCHES:
            words = (DEVICE_MODEL, f"batch_size={batch}")
            records = [*measure(words, 1)]
            share = enqueue_share([one for one in records if one.rounds])
            if share is None or share < DEVICE_BOUND:
                break
            text = f"enqueuing takes {share:.0%} of a call of {batch} images"
        if text and (share is None or share >= DEVICE_BOUND):  # or memory did not suffice for more
            yield impossible("A/A where the device is the limit", text, EXPECTED_RATIO)
            return
    records += measure(words, PROCESSES - len(records))
    good = [one for one in records if one.rounds]
    if len(good) < PROCESSES:
        failed = next((one.failure for one in records if one.failure), None)
        text = failed.message if failed else "no rounds"
        text = f"{PROCESSES - len(good)} processes failed: {text}"
        yield judged("A/A trial", text, "none", ok=False)
    yield from judge_trials(good, device)


def enqueue_share(records: Sequence[Record]) -> float | None:
    """Time to enqueue a call / time of the call, of the mode where it is most."""
    modes = summarize(records, pool=None).modes if records else ()
    shares = [mode.host_bound_index for mode in modes if mode.host_bound_index is not None]
    return max(shares, default=None)


def judge_trials(records: Sequence[Record], device: Device) -> Iterator[Checked]:
    """Check an A/A trial: its ratio, its start, its designs, its counters.

    Args:
        records: one of each process.
        device: where it was measured.
    """
    yield judged_copies(copies_of(records))
    yield _starts(records)
    firsts = [ratio for record in records for ratio in first_against_last(record)]
    yield judged_ratio("first / last block of a design", firsts)
    yield _gpu_counters(records) if device.kind == "gpu" else _cpu_counters(device)


def copies_of(records: Sequence[Record]) -> Figure | None:
    """The log ratio of both copies over processes, as a trial's."""
    return figure("speedup", samples_of(records), *records[0].trial.modes) if records else None


def judged_copies(ratio: Figure | None) -> Checked:
    """Compare a ratio over processes with 1; one process alone says too little."""
    count = ratio.replicates if ratio else 0
    name = f"A/A over {count} processes"
    if ratio is None or count < 2:
        return impossible(name, "too few processes", EXPECTED_RATIO)
    return judged_interval(name, interval_alone(ratio))


def first_against_last(record: Record) -> list[float]:
    """log(first block / last block of the same mode), of each Williams design."""
    ratios = []
    for start in range(0, len(record.rounds) - DESIGN + 1, DESIGN):
        design = record.rounds[start : start + DESIGN]
        first = design[0].blocks[0]
        last = next(block for block in design[-1].blocks if block.mode == first.mode)
        ratios.append(math.log(first.call_s / last.call_s))
    return ratios


def _starts(records: Sequence[Record]) -> Checked:
    """Judge how much longer the first copy took to be traced and compiled than the second."""
    extra = []
    for record in records:
        outcomes = [record.modes[label] for label in record.trial.modes]
        seconds = [(each.trace_s or 0.0) + (each.compile_s or 0.0) for each in outcomes]
        extra.append(seconds[0] - seconds[1])
    name, expected = "A/A: first start of copy 1 - copy 2", f"0 ± {LATER_S:g} s"
    if not extra:
        return impossible(name, "nothing was measured", expected)
    middle = statistics.median(extra)
    return judged(name, f"{middle:.2f} s", expected, ok=abs(middle) <= LATER_S)


def _gpu_counters(records: Sequence[Record]) -> Checked:
    """Compare the driver's counters of time with the time that passed."""
    name, expected = "GPU's counters / elapsed time", f"at most {COUNTER_SLACK:g}"
    shares = [
        counted / span.elapsed_s
        for record in records
        for span in record.gpu
        for counted in (span.thermal_s, span.power_capped_s)
        if counted is not None and span.elapsed_s
    ]
    if not shares:
        return impossible(name, "the driver has no such counters", expected)
    return judged(name, f"{max(shares):.3f}", expected, ok=max(shares) <= COUNTER_SLACK)


def _cpu_counters(device: Device) -> Checked:
    """Compare the kernel's counters of CPU time with the time that passed."""
    with Sampler(device=device, memory_limit_bytes=2**62) as sampler:
        first = sampler.read()
        time.sleep(WATCHED_S)
        last = sampler.read()
    counted_s = last.busy_s + last.steal_s - first.busy_s - first.steal_s
    share = counted_s / ((last.at_ns - first.at_ns) / 1e9 * usable_cores())
    name, expected = "CPU's counters / elapsed time", f"at most {COUNTER_SLACK:g}"
    return judged(name, f"{share:.3f}", expected, ok=share <= COUNTER_SLACK)


def _decoded(output: bytes, kind: type[Answer]) -> Iterator[Answer]:
    """Answers of a program; lines that are a library's are skipped."""
    for line in output.splitlines():
        try:
            yield msgspec.json.decode(line, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
