"""Show how fast a model could be at best, and what each mode achieves of that."""

from __future__ import annotations

from collections.abc import Iterator

from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.roofline import Achieved, Peak, Roofline, Work

LEFT_OUT = (
    "left out: values between operations that no cache holds, and all arithmetic but "
    "multiply-accumulates. They take time too, so the true bound is higher."
)
"""What the bound leaves out."""

NOT_AVAILABLE = "not available"

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def verdict(found: Roofline) -> str:
    """How close graph mode is to the bound, and so what XLA can gain; "" if that is not known."""
    graph = next((item for item in found.modes if item.mode == Mode.GRAPH), None)
    if graph is None or graph.share is None or graph.gain is None:
        return ""
    bound = f"{graph.share:.0%} of the bound set by {found.side}".replace("%", " %")
    if graph.share >= 1:
        return f"graph runs at {bound}: the peaks measured here are not this device's best"
    return f"graph already runs at {bound}; XLA can gain at most {graph.gain:.1f}×"


def roofline_lines(found: Roofline) -> Iterator[str]:
    """The sentence, work, bound, and what is missing."""
    if sentence := verdict(found):
        yield sentence
    yield _work(found.work)
    if found.bound_s is not None:
        yield (
            f"bound: {_time(found.compute_s)} by compute, {_time(found.memory_s)} by memory, "
            f"so {found.side} binds"
        )
    for part, why in found.missing.items():
        yield f"– {_PARTS.get(part, part)}: {NOT_AVAILABLE}: {why}"


def roofline_figures(found: Roofline) -> Iterator[str]:
    """A line for each mode and each peak, with headings; blanks align the columns."""
    yield f"{'':<14} {'a call':>12} {'of the bound':>14} {'compute':>16} {'memory':>14}"
    yield from map(_mode, found.modes)
    yield f"{'peak':<22} {'all cores':>16} {'one core':>16}"
    yield from map(_peak, found.peaks)


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


def _mode(item: Achieved) -> str:
    share = NOT_AVAILABLE if item.share is None else f"{item.share:.0%}".replace("%", " %")
    compute = NOT_AVAILABLE if item.flop_per_s is None else f"{scaled(item.flop_per_s)}FLOP/s"
    memory = f"{scaled(item.bytes_per_s)}B/s"
    return f"{item.mode:<14} {_time(item.call_s):>12} {share:>14} {compute:>16} {memory:>14}"


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
