"""Show the best possible speed of a model, and the share of it that each mode achieves."""

from __future__ import annotations

from collections.abc import Iterator

from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.roofline import Achieved, Peak, Roofline, Work

LEFT_OUT = (
    "left out: values between operations that no cache holds, and all arithmetic but "
    "multiply-accumulates. They take time too, so the true bound is higher."
)
"""Limits of the bound."""

NOT_AVAILABLE = "not available"

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def verdict(roofline: Roofline) -> str:
    """The distance of graph mode from the bound, which XLA can gain; "" if it is not known."""
    graph = next((achieved for achieved in roofline.modes if achieved.mode == Mode.GRAPH), None)
    if graph is None or graph.share is None or graph.gain is None:
        return ""
    bound = f"{graph.share:.0%} of the bound set by {roofline.side}".replace("%", " %")
    if graph.share >= 1:
        return f"graph runs at {bound}: the peaks measured here are not this device's best"
    return f"graph already runs at {bound}; XLA can gain at most {graph.gain:.1f}×"


def roofline_lines(roofline: Roofline) -> Iterator[str]:
    """The sentence, work, bound, and what is missing."""
    if sentence := verdict(roofline):
        yield sentence
    yield _work(roofline.work)
    if roofline.bound_s is not None:
        yield (
            f"bound: {_time(roofline.compute_s)} by compute, {_time(roofline.memory_s)} by memory, "
            f"so {roofline.side} binds"
        )
    for part, why in roofline.missing.items():
        yield f"– {_PARTS.get(part, part)}: {NOT_AVAILABLE}: {why}"


def roofline_figures(roofline: Roofline) -> Iterator[str]:
    """A line for each mode and each peak, with headings; blanks align the columns."""
    yield f"{'':<14} {'a call':>12} {'of the bound':>14} {'compute':>16} {'memory':>14}"
    yield from map(_mode, roofline.modes)
    yield f"{'peak':<22} {'all cores':>16} {'one core':>16}"
    yield from map(_peak, roofline.peaks)


_PARTS = {
    "macs": "multiply-accumulates",
    "compute_s": "bound by compute",
    "memory_s": "bound by memory",
}


def _work(work: Work) -> str:
    count = NOT_AVAILABLE
    if work.macs is not None:
        count = ("at least " if work.macs_at_least else "") + scaled(work.macs).rstrip()
    return (
        f"a call: {count} multiply-accumulates; at least {scaled(work.total_bytes)}B moved: "
        f"{scaled(work.weight_bytes)}B weights, {scaled(work.input_bytes)}B inputs, "
        f"{scaled(work.output_bytes)}B outputs"
    )


def _mode(achieved: Achieved) -> str:
    share = NOT_AVAILABLE if achieved.share is None else f"{achieved.share:.0%}".replace("%", " %")
    compute = (
        NOT_AVAILABLE if achieved.flop_per_s is None else f"{scaled(achieved.flop_per_s)}FLOP/s"
    )
    memory = f"{scaled(achieved.bytes_per_s)}B/s"
    return (
        f"{achieved.mode:<14} {_time(achieved.call_s):>12} {share:>14} {compute:>16} {memory:>14}"
    )


def _peak(peak: Peak) -> str:
    one = (
        NOT_AVAILABLE
        if peak.one_core_per_s is None
        else f"{scaled(peak.one_core_per_s)}{peak.unit}"
    )
    return f"{peak.name:<22} {scaled(peak.per_s) + peak.unit:>16} {one:>16}  {peak.size}".rstrip()


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NOT_AVAILABLE
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def scaled(number: float) -> str:
    """Three digits with a decimal prefix, to be followed by a unit: `8.37 G`."""
    for scale, prefix in _SCALES:
        if number >= scale:
            return f"{number / scale:.3g} {prefix}"
    return f"{number:.3g} "
