"""Watch a GPU between Williams designs, while the measuring process waits: never in a block."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from xla_sweeps.schema.measurement import Flag, Round
from xla_sweeps.schema.record import GpuSpan
from xla_sweeps.system import nvml

THERMAL_REASONS = 0x8 | 0x20 | 0x40 | 0x80
"""NVML's clock event reasons: slowdown, software and hardware thermal limits, power brake."""

POWER_CAP_REASON = 0x4

LIMITED_SHARE = 0.01
"""A clock that was held down for a larger share of the time was limited."""

IMPOSSIBLE = 1.1
"""A counter of time that rises by more than this many times the elapsed time is wrong."""

COUNTER_SLACK_S = 0.1  # counters may be updated so late

IDLE_S = 0.05  # seconds for which the counters are watched while the GPU is idle

SHARED = "another process used the GPU"


class GpuWatch:
    """Activity of a GPU during one replicate: other processes at first, and newcomers."""

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self.pids: frozenset[int] = frozenset()
        self._before: frozenset[int] | None = None
        self._wrong: set[str] = set()
        self._last: nvml.Reading | None = None
        self._present: frozenset[int] | None = None
        self._reviews = 0
        self.spans: list[GpuSpan] = []
        self.foreign = self.newcomers = 0

    def expect(self, pids: Iterable[int]) -> None:
        """Take these for the measuring processes; to be called before they use the GPU."""
        if not self.pids:
            self._before = nvml.compute_processes(self._uuid)
        self.pids = frozenset(pids)

    def begin(self) -> str:
        """Look at the idle GPU before anything is timed; what disturbs it now, in words, or ""."""
        before = nvml.read(self._uuid)
        time.sleep(IDLE_S)
        self._last = now = nvml.read(self._uuid)
        self._look()
        if before is not None and now is not None and not _slowdown(now.reasons):
            span = _span(before, now, ())
            if (span.thermal_s or 0.0) > span.elapsed_s / 2:
                self._wrong.add("thermal_s")
        return _slowdown(self._last.reasons if self._last else None) or self._sharing()

    def review(self, rounds: Sequence[Round]) -> str:
        """Cause of contamination since the last review, for these rounds; or ""."""
        before, now = self._last, nvml.read(self._uuid)
        self._last = now
        self._reviews += 1
        if self.foreign:
            self._look()
        if before is None or now is None or not rounds:
            return self._sharing()
        span = _span(before, now, rounds)
        self.spans.append(span)
        most_s = IMPOSSIBLE * span.elapsed_s + COUNTER_SLACK_S
        counters = ("power_capped_s", "thermal_s")
        self._wrong |= {name for name in counters if (getattr(span, name) or 0.0) > most_s}
        share = (span.thermal_s or 0.0) / max(1e-9, span.elapsed_s)
        hot = ""
        if share > LIMITED_SHARE and "thermal_s" not in self._wrong:
            hot = f"heat slowed the GPU for {share:.0%} of the time"
        return hot or _slowdown(span.reasons) or self._sharing()

    def end(self) -> None:
        """Look for processes that began to compute on the GPU meanwhile."""
        now = nvml.compute_processes(self._uuid)
        self.newcomers = 0 if now is None or self._present is None else len(now - self._present)

    def flags(self) -> list[str]:
        """Caveats: whether power limited the clock, and whether the driver tells, and truly."""
        told = [span for span in self.spans if span.reasons is not None]
        counted = [span for span in self.spans if span.power_capped_s is not None]
        if "power_capped_s" in self._wrong:
            counted = []
        capped_s = sum(span.power_capped_s or 0.0 for span in counted)
        limited = capped_s > LIMITED_SHARE * sum(span.elapsed_s for span in counted) or (
            not counted and any((span.reasons or 0) & POWER_CAP_REASON for span in told)
        )
        silent = self._reviews and not told and all(span.thermal_s is None for span in self.spans)
        return [
            *([str(Flag.POWER_LIMITED)] if limited else []),
            *([str(Flag.NO_GPU_TELEMETRY)] if silent or self._wrong else []),
        ]

    def facts(self) -> dict[str, Any]:
        """Extremes of clock, heat and power, and all clock event reasons, for the record."""
        facts: dict[str, Any] = {"gpu_foreign": self.foreign + self.newcomers}
        for name in ("sm_mhz", "celsius", "watts"):
            values = [value for span in self.spans if (value := getattr(span, name)) is not None]
            if values:
                facts[f"gpu_{name}"] = [min(values), max(values)]
        reasons = [span.reasons for span in self.spans if span.reasons is not None]
        if reasons:
            facts["gpu_reasons"] = 0
        for mask in reasons:
            facts["gpu_reasons"] |= mask
        return facts

    def _look(self) -> None:
        self._present = nvml.compute_processes(self._uuid)
        present = self._present or frozenset()
        # In a container, NVML reports process ids of the host, so as many processes as measure are
        # assumed to be the measuring ones, of those that were not there before these.
        own = len(present & self.pids) or min(
            len(self.pids), len(present - (self._before or frozenset()))
        )
        self.foreign = max(0, len(present) - own)

    def _sharing(self) -> str:
        return SHARED if self.foreign else ""


def _span(before: nvml.Reading, now: nvml.Reading, rounds: Sequence[Round]) -> GpuSpan:
    return GpuSpan(
        rounds=(rounds[0].round, rounds[-1].round) if rounds else (0, 0),
        elapsed_s=(now.at_ns - before.at_ns) / 1e9,
        sm_mhz=now.sm_mhz,
        celsius=now.celsius,
        watts=now.watts,
        reasons=now.reasons,
        power_capped_s=_since(before.power_capped_ns, now.power_capped_ns),
        thermal_s=_since(before.thermal_ns, now.thermal_ns),
    )


def _since(before_ns: int | None, now_ns: int | None) -> float | None:
    """Seconds that a counter rose; None if it is unknown, or restarted with a new driver."""
    if before_ns is None or now_ns is None or now_ns < before_ns:
        return None
    return (now_ns - before_ns) / 1e9


def _slowdown(reasons: int | None) -> str:
    bits = (reasons or 0) & THERMAL_REASONS
    return f"the GPU slowed its clock (event reasons {bits:#x})" if bits else ""
