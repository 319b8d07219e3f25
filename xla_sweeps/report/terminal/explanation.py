"""Write an explanation, and the operations that TensorFlow compiles, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from xla_sweeps.report.figures import call_time, decimals, percent, scale, times
from xla_sweeps.report.terminal.explained_lines import (
    NOT_AVAILABLE,
    bare,
    finding,
    list_names,
    table,
    wrap,
)
from xla_sweeps.report.terminal.explained_time import time_text
from xla_sweeps.report.terminal.progress import STAGES
from xla_sweeps.schema.comparisons import baseline_of, headline_pairs
from xla_sweeps.schema.explanation import Explanation, OpList, Place, Roofline, State, Support
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.system.text import count_noun, displayable

SEEN = 1.1
"""The smallest factor between two modes that the few calls of `explain` show."""

SMALL = 5_000
"""Fusions that move fewer bytes are not listed, as megabytes do not show them."""

FEW_OPS = 12

LEFT_OUT = (
    "left out: values between operations that no cache holds, and all arithmetic but "
    "multiply-accumulates. They take time too, so the true bound is higher."
)

_MARKS = {State.FOUND: "!", State.POSSIBLE: "?", State.NONE: "✓", State.UNKNOWN: "–"}


def stage_line(phase: str, subject: str) -> str:
    """A stage in words, as `compiling xla`."""
    return f"{STAGES.get(phase, phase)} {subject}".strip()


def explanation_text(explanation: Explanation) -> str:
    """An explanation in lines of at most 80 columns."""
    facts = [*explanation.inputs, explanation.device, explanation.framework]
    if explanation.operations is not None:
        facts.append(f"{count_noun(explanation.operations, 'operation')} traced")
    lines = [explanation.model, *wrap(" · ".join(filter(None, facts)), 0)]
    lines += wrap(result(explanation))
    if explanation.others:
        lines += wrap(f"~ contaminated: {explanation.others}. Explain it again on a quiet machine.")
    if reason := _why_nothing_is_known(explanation):
        lines += ["", *finding(f"{NOT_AVAILABLE}: {reason}; all else needs this")]
        return "\n".join(displayable(line) for line in lines) + "\n"
    unknown = list[str]()
    for title, parts in _SECTIONS.items():
        written, known = list[str](), False
        for part, (words, write) in parts.items():
            if part in explanation.missing or getattr(explanation, part) is None:
                why = explanation.missing.get(part, "not reached")
                written += finding(f"– {words}: {NOT_AVAILABLE}: {why}")
            elif getattr(explanation, part) != () or part == "refusals":
                written, known = [*written, *write(explanation)], True
        if known:
            lines += ["", title, *written]
        else:
            unknown += written
    lines += ["", "Not available", *unknown] if unknown else []
    return "\n".join(displayable(line) for line in lines) + "\n"


def _why_nothing_is_known(explanation: Explanation) -> str:
    """The one reason why no part of an explanation is known; "" where some part is."""
    parts = {part for section in _SECTIONS.values() for part in section} - {"traps"}
    known = any(
        part not in explanation.missing and getattr(explanation, part) not in (None, ())
        for part in parts
    )
    traps = explanation.traps or ()
    reasons = {*explanation.missing.values(), *(trap.what for trap in traps)}
    silent = all(trap.state is State.UNKNOWN for trap in traps)
    return reasons.pop() if silent and not known and len(reasons) == 1 else ""


def ops_text(ops: OpList, chosen: Sequence[Support]) -> str:
    """Operations that a TensorFlow compiles, in lines of at most 80 columns."""
    others = [support.op for support in chosen if not support.devices]
    lines = [
        f"TensorFlow {ops.tensorflow} lists kernels for {', '.join(ops.devices) or 'no XLA device'}"
    ]
    if len(chosen) <= FEW_OPS:
        for support in chosen:
            what = ", ".join(support.devices) or "no kernel of XLA"
            lines += ["", f"{support.op}: {what}"]
            for name, types in support.types.items():
                lines += wrap(f"{name}: {', '.join(types)}", 4)
            lines += [] if support.devices else wrap(f"-> {support.advice}", 4)
        return "\n".join(lines) + "\n"
    for devices in dict.fromkeys(support.devices for support in chosen if support.devices):
        names = [support.op for support in chosen if support.devices == devices]
        lines += ["", *wrap(f"{len(names)} compile on {' and '.join(devices)}:", 0)]
        lines += wrap(" ".join(names), 2)
    lines += ["", f"{len(others)} do not compile:", *wrap(" ".join(others), 2)]
    return "\n".join(lines) + "\n"


def _write_refusals(explanation: Explanation) -> Iterator[str]:
    devices = explanation.registered
    if not devices:
        yield from finding("– not available: this TensorFlow lists no kernels of XLA")
        return
    if explanation.device not in devices:
        yield from finding(f"– this TensorFlow does not list kernels of {explanation.device}")
    for refusal in explanation.refusals or ():
        what = f"{refusal.op}: {refusal.reason} on {' and '.join(refusal.devices)}"
        yield from finding(f"! {what}", refusal.places, refusal.advice)
    if not explanation.refusals:
        yield from finding(f"✓ no operation lacks a kernel of {' and '.join(devices)}")


def _compiler(explanation: Explanation) -> Iterator[str]:
    assert explanation.compiler
    compiler = explanation.compiler
    if compiler.compiles:
        return finding("✓ the compiler takes the model")
    advice = "" if explanation.refusals else compiler.advice
    return finding(f"! the compiler: {compiler.message}", compiler.places, advice)


def _traps(explanation: Explanation) -> Iterator[str]:
    order = list(_MARKS)
    for trap in sorted(explanation.traps, key=lambda trap: order.index(trap.state)):
        what = f": {trap.what}" if trap.what else ""
        state = "" if trap.state in (State.FOUND, State.NONE) else f" {trap.state}"
        text = f"{_MARKS[trap.state]} {trap.name}{state}{what}"
        yield from finding(text, trap.places, trap.fix)


def _compilations(explanation: Explanation) -> Iterator[str]:
    rows = [
        (f"{row.programs:,}", *map(call_time, (row.trace_s, row.lower_s, row.compile_s)), row.call)
        for row in explanation.compilations or ()
    ]
    return table(("programs", "trace", "lower", "compile", "call"), rows)


def _captures(explanation: Explanation) -> Iterator[str]:
    for capture in explanation.captures or ():
        if capture.graphs is None:
            yield from finding(f"! {capture.way}: {capture.refusal}", _at(capture.place))
            continue
        breaks = sum(each.times for each in capture.breaks)
        whole = capture.graphs == 1 and not breaks
        yield from finding(
            f"{'✓' if whole else '!'} {capture.way}: {count_noun(capture.graphs, 'graph')} with "
            f"{count_noun(capture.calls, 'operation')}, {count_noun(breaks, 'break')}"
        )
        for each in capture.breaks:
            reason = f"! {count_noun(each.times, 'break')}: {each.reason}"
            yield from finding(reason, _at(each.line))
        limit = f"reached the limit of {capture.limit} recompilations: it runs uncompiled"
        for name in capture.gave_up:
            yield from finding(f"! {name} {limit}")
        again = [f"{graphs:,} for {call}" for call, graphs in capture.recompilations.items()]
        if again:
            yield from finding(f"further graphs: {', '.join(again)}")
        for call, why in capture.refused.items():
            yield from finding(f"– further graphs for {call}: {NOT_AVAILABLE}: {why}")


def _at(line: str) -> tuple[Place, ...]:
    return (Place(op="", node="", line=line),)


def result(explanation: Explanation) -> str:
    """Gain or loss by compiling, and what costs most; "" without timed calls."""
    achieved = explanation.roofline.modes if explanation.roofline else ()
    calls = {mode.mode: mode.call_s for mode in achieved}
    if len(calls) < 2:
        return ""
    usual, compiled = headline_pairs(tuple(calls))[0]
    before_s, after_s = calls[usual], calls[compiled]
    factor = max(before_s / after_s, after_s / before_s)
    word = "faster" if after_s < before_s else "slower"
    differs = f"{factor:.2g}× {word} than" if factor >= SEEN else "about as fast as"
    text = (
        f"Here {mode_of(compiled).called} is {differs} {mode_of(usual).called} "
        f"({call_time(after_s)} against {call_time(before_s)} a call)"
    )
    if explanation.time and after_s >= SEEN * before_s and len(explanation.time.modes) > 1:
        first, second = explanation.time.modes[:2]
        lost = {
            kind: second.by_kind[kind] - first.by_kind.get(kind, 0.0) for kind in second.by_kind
        }
        kind = max(lost, key=lambda each: lost[each], default=None)
        half = (second.call_s - first.call_s) / 2
        text += f"; most is lost in {kind}" if kind and lost[kind] > half > 0 else ""
    return f"{text}."


def verdict(roofline: Roofline) -> str:
    """The distance of the baseline from the bound, which compiling can gain; "" if unknown."""
    achieved = {mode.mode: mode for mode in roofline.modes}
    if not achieved:
        return ""
    label = baseline_of(tuple(achieved))
    usual = achieved[label]
    if usual.share is None or usual.gain is None:
        return ""
    bound = f"{percent(usual.share)} of the bound set by {roofline.side}"
    called, pairs = mode_of(label).called, headline_pairs(tuple(achieved))
    if usual.share >= 1:
        return f"{called} runs at {bound}: the peaks measured here are not this device's best"
    compiled = mode_of(pairs[0][1]).called if pairs else "compiling"
    return f"{called} already runs at {bound}; {compiled} can gain at most {times(usual.gain)}"


def _roofline(explanation: Explanation) -> Iterator[str]:
    assert explanation.roofline
    roofline, work = explanation.roofline, explanation.roofline.work
    if explanation.others:
        yield from finding("~ other load slowed the peaks too, so this bound is no bound:")
    yield from finding(verdict(roofline))
    yield from finding(
        f"a call: {'at least ' if work.macs_at_least else ''}{scale(work.macs).rstrip()} "
        f"multiply-accumulates; at least {scale(work.total_bytes)}B moved: "
        f"{scale(work.weight_bytes)}B weights, {scale(work.input_bytes)}B inputs, "
        f"{scale(work.output_bytes)}B outputs"
    )
    if roofline.compute_s is not None:
        yield from finding(
            f"bound: {call_time(roofline.compute_s)} by compute, "
            f"{call_time(roofline.memory_s)} by memory, so {roofline.side} binds"
        )
    for why in roofline.missing.values():
        yield from finding(f"– bound by compute: {NOT_AVAILABLE}: {why}")
    achieved = [
        (
            call_time(mode.call_s),
            NOT_AVAILABLE if mode.share is None else percent(mode.share),
            f"{scale(mode.flop_per_s)}FLOP/s",
            f"{scale(mode.bytes_per_s)}B/s",
            mode.mode,
        )
        for mode in roofline.modes
    ]
    yield from table(("a call", "of the bound", "compute", "memory", "mode"), achieved)
    peaks = [
        ("all cores" if "CPU" in explanation.device else "whole GPU", "one core", "peak"),
        *(
            (
                scale(peak.per_s) + peak.unit,
                scale(peak.one_core_per_s) + peak.unit if peak.one_core_per_s else NOT_AVAILABLE,
                f"{peak.name} ({peak.size})",
            )
            for peak in roofline.peaks
        ),
    ]
    has_cores = any(peak.one_core_per_s for peak in roofline.peaks)
    head, *rows = peaks if has_cores else [(whole, name) for whole, _, name in peaks]
    yield from table(head, rows)
    yield from finding(LEFT_OUT)


def _program(explanation: Explanation) -> Iterator[str]:
    assert explanation.program
    program, on_cpu = explanation.program, "CPU" in explanation.device
    unit = "thunks" if on_cpu else "kernels"
    yield from finding(f"{count_noun(program.operations, 'operation')} ({unit}) after it:")
    calls = ", ".join(f"{name} {count:,}" for name, count in program.library.items())
    parts = {
        "fusions": program.fusions,
        f"library calls{f': {calls}' if calls else ''}": sum(program.library.values()),
        "convolutions": program.convolutions,
        "dots": program.dots,
        "copies": program.copies,
        "transposes": program.transposes,
        "converts": program.converts,
    }
    yield from table(("", "of them"), [(f"{count:,}", name) for name, count in parts.items()])
    if on_cpu and program.convolutions + program.dots:
        yield from finding(
            "– which of the convolutions and dots Eigen computes, and which generated code: "
            "not available: the program does not say"
        )
    yield from finding(
        f"one call must read {scale(program.read_bytes)}B and write "
        f"{scale(program.written_bytes)}B, operation by operation"
    )
    largest = [each for each in program.largest if each.read_bytes + each.written_bytes >= SMALL]
    if largest:
        yield from finding("the fusions that read and write most:")
        rows = [
            (
                *(decimals(count / 1e6) for count in (fusion.read_bytes, fusion.written_bytes)),
                f"{fusion.operations:,}",
                list_names(map(bare, fusion.layers)) or str(fusion.kind),
            )
            for fusion in largest
        ]
        yield from table(("read MB", "write MB", "holds", "from"), rows)


_GRAPH = "operations in the graph that graph mode runs"

_LOWERED = "operations in the program before XLA's optimizer"

_SECTIONS: Mapping[str, Mapping[str, tuple[str, Callable[[Explanation], Iterator[str]]]]] = {
    "What XLA refuses": {
        "refusals": ("the registry of kernels", _write_refusals),
        "compiler": ("the compiler", _compiler),
    },
    "Silent traps": {"traps": ("silent traps of XLA", _traps)},
    "What XLA makes of it": {
        "graph_operations": (_GRAPH, lambda known: finding(f"{known.graph_operations:,} {_GRAPH}")),
        "hlo_operations": (_LOWERED, lambda known: finding(f"{known.hlo_operations:,} {_LOWERED}")),
        "program": ("the program after XLA's optimizer", _program),
    },
    "What each call compiles": {"compilations": ("what each call compiles", _compilations)},
    "What is captured as graphs": {"captures": ("what is captured as graphs", _captures)},
    "How fast it could be": {"roofline": ("how fast it could be", _roofline)},
    "Where the time goes": {"time": ("where the time goes", time_text)},
}
"""Sections by their titles, each with its parts: their names in words, and what writes them."""
