"""Write where the time of a call goes, before and after compiling."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xla_sweeps.report.figures import decimals, percent
from xla_sweeps.report.terminal.explained_lines import bare, finding, table
from xla_sweeps.schema.explanation import Explanation, Kernel, Kind, ModeTime, Time
from xla_sweeps.schema.modes import Execution, Role, mode_of
from xla_sweeps.system.text import count_noun

TRACE_SLOWS = 1.5
"""Factor by which a trace may slow a call before what it says is doubtful."""

KERNELS = 10
NAME = 36

_LAYOUT = re.compile(r"nhwc_?to_?nchw|nchw_?to_?nhwc", re.IGNORECASE)

_IN_WORDS = {True: "yes", False: "", None: "?"}


def time_text(explanation: Explanation) -> Iterator[str]:
    """Parts of a call, its kernels, and the layers that lose most, in both modes."""
    assert explanation.time
    time = explanation.time
    yield from _trace(explanation, time)
    before, after = time.modes
    parts = [
        *(
            (str(kind), before.by_kind.get(kind, 0.0), after.by_kind.get(kind, 0.0))
            for kind in Kind
            if kind in before.by_kind or kind in after.by_kind
        ),
        ("gaps between operations", before.gaps_s, after.gaps_s),
        ("host, before the first and after the last operation", before.host_s, after.host_s),
        ("one call", before.call_s, after.call_s),
    ]
    yield from _write_losses(time, parts, "in")
    if before.kernels or after.kernels:
        yield from _kernels(time)
    called = _name_of(after)
    if time.lost:
        yield from finding(f"where {called} loses most:")
        rows = [
            (f"{bare(loss.layer)}: {loss.kind}", loss.graph_s, loss.xla_s) for loss in time.lost
        ]
        yield from _write_losses(time, rows, "layer")
    elif time.layered:
        yield from finding(f"{called} loses time in no layer")


def _trace(explanation: Explanation, time: Time) -> Iterator[str]:
    one, two = (f"{mode.calls} ({_name_of(mode)})" for mode in time.modes)
    number = f"{one} and {two} traced calls"
    if len({mode.calls for mode in time.modes}) == 1:
        number = f"{count_noun(time.modes[0].calls, 'traced call')} of each mode"
    yield from finding(f"the fastest of {number}, ms; tracing makes them slower")
    achieved = explanation.roofline.modes if explanation.roofline else ()
    calls: dict[Role, float] = {mode_of(each.mode).role: each.call_s for each in achieved}
    slower = {
        mode.mode: mode.call_s / calls[role]
        for mode in time.modes
        if (role := mode_of(mode.mode).role) in calls
    }
    if slower:
        times = ", ".join(f"{mode} {factor:.2g}×" for mode, factor in slower.items())
        text = f"a traced call takes, of one without: {times}"
        if max(slower.values()) <= TRACE_SLOWS:
            yield from finding(text)
        else:
            advice = "tracing changes what is slow, so the losses below are no measurement"
            yield from finding(f"! {text}", advice=advice)


def _kernels(time: Time) -> Iterator[str]:
    counts = [
        f"{sum(kernel.launched for kernel in mode.kernels):,} ({_name_of(mode)})"
        for mode in time.modes
    ]
    yield from finding(f"kernels of a call: {', '.join(counts)}")
    for mode in time.modes:
        yield from finding(_tensor_cores(mode, plain=time.plain))
        yield from _layouts(mode)
        yield from finding(f"kernels of {_name_of(mode)} that take most time:")
        rows = [
            (
                decimals(1e3 * kernel.seconds, 3),
                f"{kernel.times:,}",
                _IN_WORDS[kernel.tensor_cores],
                f"{_short(kernel.name).ljust(NAME)}  {_origin(kernel)}".rstrip(),
            )
            for kernel in mode.kernels[:KERNELS]
        ]
        yield from table(("ms", "times", "tensor", "kernel"), rows)


def _layouts(mode: ModeTime) -> Iterator[str]:
    """Time of kernels that only turn NHWC into NCHW or back, for a library's convolutions."""
    turning = [kernel for kernel in mode.kernels if _LAYOUT.search(kernel.name)]
    if turning:
        count = sum(kernel.times for kernel in turning)
        turn = f"{count_noun(count, 'kernel')} of {_name_of(mode)} turn{'s' * (count == 1)}"
        spent = decimals(1e3 * sum(kernel.seconds for kernel in turning))
        whole = decimals(1e3 * mode.call_s)
        yield from finding(f"{turn} the layout around convolutions: {spent} of {whole} ms")


def _tensor_cores(mode: ModeTime, *, plain: bool) -> str:
    """Share of the time of convolutions and products that runs on tensor cores."""
    yes, no, unknown = map(mode.products_s, (True, False, None))
    called, total = _name_of(mode), yes + no + unknown
    if not total:
        return f"{called} runs no convolution or matrix product that tensor cores could compute"
    text = f"tensor cores compute {percent(yes / total)} of {called}'s convolutions and products"
    if unknown:
        text += f", and perhaps {percent(unknown / total)} more whose kernels do not tell"
    if plain and not yes:
        text += ": float32 without TF32 excludes them; tf32=true or another precision allows them"
    return text


def _name_of(mode: ModeTime) -> str:
    execution = mode_of(mode.mode).execution
    return "XLA" if execution is Execution.XLA else str(execution)


def _write_losses(time: Time, rows: Sequence[tuple[str, float, float]], what: str) -> Iterator[str]:
    lines = [
        (decimals(1e3 * one), decimals(1e3 * two), decimals(1e3 * (two - one), sign="+"), name)
        for name, one, two in rows
    ]
    return table((*map(_name_of, time.modes), "lost", what), lines)


def _origin(kernel: Kernel) -> str:
    return ", ".join([*map(bare, kernel.layers[:1]), *kernel.lines[:1]])


def _short(name: str) -> str:
    """A kernel's name without its return type, namespaces and arguments, cut in its middle."""
    plain = re.sub(r"^void |\(.*\)$|\b\w+::|\(anonymous namespace\)::", "", name)
    half = NAME // 2
    return plain if len(plain) <= NAME else f"{plain[: half - 1]}…{plain[-half:]}"
