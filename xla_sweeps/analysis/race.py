"""Race of settings: what is measured next, and which ways are still in it. Pure.

A way is a mode of a setting. Axes are varied one after the other from what is in use now, and the
settings that lead on one go on to the next. A way is out only where the upper bound of its rate
lies below the leader's lower bound, never by a point estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.row import ModeSummary

BEAM = 2
"""The most settings that go from one axis to the next."""

Setting = tuple[tuple[str, Any], ...]
"""Values by option, in the order of the axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of an answer: milliseconds of a call, bytes of device memory; None for any."""

    latency_ms: float | None = None
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A mode of a setting, as measured.

    Attributes:
        rate: samples/s, with the bounds `low` and `high` of its 95 % interval.
        latency_ms: the 90th percentile of single calls, by the upper bound of its interval.
        memory_bytes: the most that the device's allocator had handed out; None where unknown.
        compile_s: tracing and compiling; None where unknown.
        why_not: why it can be no answer; "" if it can.
    """

    setting: Setting
    mode: str
    rate: float = math.nan
    low: float = math.nan
    high: float = math.nan
    latency_ms: float | None = None
    memory_bytes: float | None = None
    compile_s: float | None = None
    why_not: str = ""

    @property
    def name(self) -> tuple[Setting, str]:
        """Its setting and mode."""
        return self.setting, self.mode


def way_of(setting: Setting, mode: ModeSummary, limits: Limits) -> Way:
    """A mode's figures as a way, and why it can be no answer."""
    columns = mode.columns
    rate, low, high = (
        math.nan if value is None else value
        for value in (
            columns.throughput_samples_per_s,
            columns.throughput_low,
            columns.throughput_high,
        )
    )
    latency = columns.latency_p90_high_ms or columns.latency_p50_high_ms
    made = Way(
        setting=setting,
        mode=mode.label,
        rate=rate,
        low=low,
        high=high,
        latency_ms=latency,
        memory_bytes=mode.steady_memory_bytes,
        compile_s=mode.compile_s,
        why_not=_why_not(mode, limits, latency),
    )
    if made.why_not or not math.isnan(low + high):
        return made
    return Way(setting=setting, mode=mode.label, why_not="too little was measured of it")


def _why_not(mode: ModeSummary, limits: Limits, latency_ms: float | None) -> str:
    if mode.status not in (Status.OK, Status.CONTAMINATED):
        return mode.failure.message if mode.failure else str(mode.status)
    if mode.agreement_ok is False:
        return "its outputs do not agree"
    for limit, value, unit in (
        (limits.latency_ms, latency_ms, "ms a call"),
        (limits.memory_bytes, mode.steady_memory_bytes, "bytes"),
    ):
        if limit is not None and value is None:
            return f"no {unit} known to hold a limit against"
        if limit is not None and value is not None and value > limit:
            shown = f"{value:,.4g} {unit}" if unit != "bytes" else f"{value / 2**30:.2f} GiB"
            return f"{shown} is over the limit"
    return ""


def leading(ways: Iterable[Way]) -> list[Way]:
    """The ways that cannot be told from the best, the fastest first."""
    able = [way for way in ways if not way.why_not]
    if not able:
        return []
    bound = max(way.low for way in able)
    return sorted((way for way in able if way.high >= bound), key=lambda way: -way.rate)


def settings_left(
    measured: Mapping[Setting, Sequence[Way]], axes: Mapping[str, Sequence[Any]], start: Setting
) -> list[Setting]:
    """The settings to measure next; none where every axis was varied.

    Args:
        measured: the ways of each setting that was measured or refused.
        axes: values of each option that is varied; `start` has one of each.
        start: what is in use now.
    """
    beam = [start]
    if start not in measured:
        return beam
    for axis, values in axes.items():
        varied = [_with(setting, axis, value) for setting in beam for value in values]
        varied = list(dict.fromkeys([*beam, *varied]))
        missing = [setting for setting in varied if setting not in measured]
        if missing:
            return missing
        ahead = leading(way for setting in varied for way in measured[setting])
        beam = list(dict.fromkeys(way.setting for way in ahead))[:BEAM] or beam
    return []


def _with(setting: Setting, axis: str, value: Any) -> Setting:
    return tuple((name, value if name == axis else own) for name, own in setting)
