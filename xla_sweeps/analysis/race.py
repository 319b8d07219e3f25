"""Race of settings: what is measured next, and which ways are still in it. Pure.

A way is a mode of a setting. Axes are varied one after the other from what is in use now, and the
settings that lead on one go on to the next. A way is out only where the upper bound of its rate
lies below the leader's lower bound, never by a point estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xla_sweeps.analysis.guard import Change
from xla_sweeps.schema.columns import Verdict
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
        mode: its label; "" where the whole setting was refused.
        rate: samples/s, with the bounds `low` and `high` of its 95 % interval.
        latency_ms: the 90th percentile of single calls, by the upper bound of its interval.
        memory_bytes: the most that the device's allocator had handed out; None where unknown.
        compile_s: the first call less a steady one; None where unknown.
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

    @property
    def runs(self) -> bool:
        """True if it was measured, whether or not it keeps the limits."""
        return not math.isnan(self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finals:
    """Pairs of what is in use and the finalists, in fresh processes.

    Attributes:
        changes: of seconds per sample, from what is in use.
        broken: why finalists failed in the pairs.
        pairs: how many were measured; in `contaminated` of them other programs used the machine.
    """

    changes: Mapping[tuple[Setting, str], Change] = field(default_factory=dict)
    broken: Mapping[tuple[Setting, str], str] = field(default_factory=dict)
    pairs: int = 0
    contaminated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The result of a race.

    Attributes:
        now: what is in use.
        ahead: ways that the race could not tell from the best, the fastest first.
        out: ways that can be no answer.
        tried: number of settings; `unfinished`: whether time was too short for others.
        limited: whether there is a limit on latency or memory.
    """

    now: Way
    ahead: Sequence[Way]
    out: Sequence[Way]
    finals: Finals
    tried: int
    unfinished: bool
    limited: bool

    @property
    def best(self) -> Way | None:
        """The fastest finalist by its pairs, if faster than what is in use; None for none.

        Where what is in use is no answer, it need not be faster, and if that does not run at all,
        it is the fastest of the race.
        """
        changes = self.finals.changes
        judged = [
            way
            for way in self.ahead
            if way.name in changes
            and way.name not in self.finals.broken
            and (self.now.why_not or changes[way.name].verdict is Verdict.FASTER)
        ]
        if not judged and not self.now.runs:
            return next(iter(self.ahead), None)
        return min(judged, key=lambda way: changes[way.name].change, default=None)

    @property
    def rivals(self) -> list[Way]:
        """Finalists that are faster than what is in use too, and not told apart from the best."""
        changes, best = self.finals.changes, self.best
        if not best or best.name not in changes:
            return []
        return [
            way
            for way in self.ahead
            if way is not best
            and way.name not in self.finals.broken
            and (change := changes.get(way.name))
            and change.verdict is Verdict.FASTER
            and change.low <= changes[best.name].high
        ]

    @property
    def may_be_faster(self) -> list[Way]:
        """Ways that may be faster than what is in use, as far as the pairs tell."""
        settled = (Verdict.SLOWER, Verdict.EQUIVALENT)
        return [
            way
            for way in self.ahead
            if way.name not in (self.now.name, *self.finals.broken)
            and not ((change := self.finals.changes.get(way.name)) and change.verdict in settled)
        ]

    @property
    def stays(self) -> bool:
        """True if nothing that was tried is faster than what is in use."""
        return not self.now.why_not and not self.may_be_faster

    @property
    def is_sure(self) -> bool:
        """True if there is an answer: another way, or to stay."""
        return self.best is not None or self.stays


def way_of(setting: Setting, mode: ModeSummary, limits: Limits) -> Way:
    """The figures of a mode as a way, and why it can be no answer."""
    columns = mode.columns
    rates = (columns.throughput_samples_per_s, columns.throughput_low, columns.throughput_high)
    rate, low, high = (math.nan if value is None else value for value in rates)
    return Way(
        setting=setting,
        mode=mode.label,
        rate=rate,
        low=low,
        high=high,
        latency_ms=columns.latency_p90_high_ms,
        memory_bytes=mode.steady_memory_bytes,
        compile_s=mode.compile_s,
        why_not=_why_not(mode, limits),
    )


def _why_not(mode: ModeSummary, limits: Limits) -> str:
    columns, memory = mode.columns, mode.steady_memory_bytes
    if mode.status is not Status.OK:
        return mode.failure.message if mode.failure else str(mode.status)
    if mode.agreement_ok is False:
        return "its outputs do not agree"
    if columns.throughput_low is None or columns.throughput_high is None:
        return "too little was measured of it"
    if limits.latency_ms is not None:
        latency = columns.latency_p90_high_ms
        if latency is None:
            return "its latency is not known"
        if latency > limits.latency_ms:
            return f"its calls take up to {latency:.3g} ms, over the limit"
    if limits.memory_bytes is not None:
        if memory is None:
            return "its memory is not known"
        if memory > limits.memory_bytes:
            return f"it takes {memory / 2**30:.2f} GiB, over the limit"
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
