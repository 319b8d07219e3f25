"""Write an explanation, and the operations that TensorFlow compiles, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xla_sweeps.report.terminal.captures import captures_text, compilations_text
from xla_sweeps.report.terminal.explained_lines import (
    NOT_AVAILABLE,
    bare,
    finding,
    listed,
    missing,
    percent,
    scaled,
    seconds,
    table,
    wrapped,
)
from xla_sweeps.report.terminal.explained_time import time_text
from xla_sweeps.report.terminal.trial_progress import STAGES
from xla_sweeps.schema.explanation import (
    Explanation,
    OpList,
    Roofline,
    State,
    Support,
)
from xla_sweeps.schema.modes import baseline_of, headline_pairs, mode_of
from xla_sweeps.system.text import counted, displayable

SEEN = 1.1
"""The smallest factor between two modes that the few calls of `explain` show."""

FEW_OPS = 12
"""Up to this many operations are listed with their types."""

LEFT_OUT = (
    "left out: values between operations that no cache holds, and all arithmetic but "
    "multiply-accumulates. They take time too, so the true bound is higher."
)
"""Limits of the bound."""

_MARKS = {State.FOUND: "!", State.POSSIBLE: "?", State.NONE: "✓", State.UNKNOWN: "–"}


def stage_line(phase: str, subject: str) -> str:
    """A stage in words, as `compiling xla`."""
    return f"{STAGES.get(phase, phase)} {subject}".strip()


def explanation_text(explanation: Explanation) -> str:
    """An explanation in lines of at most 80 columns."""
    facts = [*explanation.inputs, explanation.device, explanation.framework]
    if explanation.operations is not None:
        facts.append(f"{explanation.operations:,} operations traced")
    lines = [explanation.model, *wrapped(" · ".join(filter(None, facts)), 0)]
    lines += wrapped(result(explanation))
    if explanation.others:
        lines += wrapped(
            f"~ contaminated: {explanation.others}. Explain it again on a quiet machine."
        )
    unknown = list[str]()
    for title, parts, section in _SECTIONS:
        values = [getattr(explanation, part) for part in parts]
        written = section(explanation)
        if any(value is not None for value in values) and values != [()]:
            lines += ["", title, *written]
        elif None in values or explanation.missing.keys() & parts:
            unknown += written
    lines += ["", "Not available", *unknown] if unknown else []
    return "\n".join(displayable(line) for line in lines) + "\n"


def ops_text(ops: OpList, chosen: Sequence[Support]) -> str:
    """Operations that a TensorFlow compiles, in lines of at most 80 columns.

    Args:
        ops: the whole list.
        chosen: what was asked for of it.
    """
    compiled = [support for support in chosen if support.devices]
    others = [support for support in chosen if not support.devices]
    lines = [
        f"TensorFlow {ops.tensorflow} lists kernels for {', '.join(ops.devices) or 'no XLA device'}"
    ]
    if len(chosen) <= FEW_OPS:
        for support in chosen:
            what = ", ".join(support.devices) or "no kernel of XLA"
            lines += ["", f"{support.op}: {what}"]
            for name, types in support.types.items():
                lines += wrapped(f"{name}: {', '.join(types)}", 4)
            lines += [] if support.devices else wrapped(f"-> {support.advice}", 4)
        return "\n".join(lines) + "\n"
    for devices in dict.fromkeys(support.devices for support in compiled):
        names = [support.op for support in compiled if support.devices == devices]
        lines += ["", *wrapped(f"{len(names)} compile on {' and '.join(devices)}:", 0)]
        lines += wrapped(" ".join(names), 2)
    lines += ["", f"{len(others)} do not compile:", *wrapped(" ".join(i.op for i in others), 2)]
    return "\n".join(lines) + "\n"


def _refused(explanation: Explanation) -> Iterator[str]:
    if explanation.refusals is None:
        yield from missing(explanation, "refusals", "the registry of kernels")
    elif not explanation.registered:
        yield from finding("– not available: this TensorFlow lists no kernels of XLA")
    else:
        if explanation.device not in explanation.registered:
            yield from finding(f"– this TensorFlow does not list kernels of {explanation.device}")
        for refusal in explanation.refusals:
            what = f"{refusal.op}: {refusal.reason} on {' and '.join(refusal.devices)}"
            yield from finding(f"! {what}", refusal.places, refusal.advice)
        if not explanation.refusals:
            devices = " and ".join(explanation.registered)
            yield from finding(f"✓ no operation lacks a kernel of {devices}")
    compiler = explanation.compiler
    if compiler is None:
        yield from missing(explanation, "compiler", "the compiler")
    elif compiler.compiles:
        yield from finding("✓ the compiler takes the model")
    else:
        advice = "" if explanation.refusals else compiler.advice
        yield from finding(f"! the compiler: {compiler.message}", compiler.places, advice)


def _traps(explanation: Explanation) -> Iterator[str]:
    if "traps" in explanation.missing:
        yield from missing(explanation, "traps", "silent traps of XLA")
    order = list(_MARKS)
    for trap in sorted(explanation.traps, key=lambda trap: order.index(trap.state)):
        what = f": {trap.what}" if trap.what else ""
        state = "" if trap.state in (State.FOUND, State.NONE) else f" {trap.state}"
        text = f"{_MARKS[trap.state]} {trap.name}{state}{what}"
        yield from finding(text, trap.places, trap.fix)


def _clustering(explanation: Explanation) -> Iterator[str]:
    clustering = explanation.clustering
    if clustering is None:
        yield from missing(explanation, "clustering", "auto-clustering")
        return
    outside = sorted({place.op for place in clustering.places})
    yield from finding(
        f"{counted(clustering.clusters, 'cluster')}, about {percent(clustering.share)} of "
        f"{clustering.operations:,} operations"
    )
    if outside:
        yield from finding(f"outside: {', '.join(outside)}")


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
        f"({seconds(after_s)} against {seconds(before_s)} a call)"
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
    called, bound = mode_of(label).called, f"{percent(usual.share)} of the bound set by "
    if usual.share >= 1:
        return (
            f"{called} runs at {bound}{roofline.side}: the peaks measured here are not this "
            "device's best"
        )
    pairs = headline_pairs(tuple(achieved))
    compiled = mode_of(pairs[0][1]).called if pairs else "compiling"
    return (
        f"{called} already runs at {bound}{roofline.side}; {compiled} can gain at most "
        f"{usual.gain:.1f}×"
    )


def _roofline(explanation: Explanation) -> Iterator[str]:
    roofline = explanation.roofline
    if roofline is None:
        yield from missing(explanation, "roofline", "how fast it could be")
        return
    work = roofline.work
    if explanation.others:
        yield from finding("~ other load slowed the peaks too, so this bound is no bound:")
    yield from finding(verdict(roofline))
    yield from finding(
        f"a call: {'at least ' if work.macs_at_least else ''}{scaled(work.macs).rstrip()} "
        f"multiply-accumulates; at least {scaled(work.total_bytes)}B moved: "
        f"{scaled(work.weight_bytes)}B weights, {scaled(work.input_bytes)}B inputs, "
        f"{scaled(work.output_bytes)}B outputs"
    )
    if roofline.compute_s is not None:
        yield from finding(
            f"bound: {seconds(roofline.compute_s)} by compute, {seconds(roofline.memory_s)} by "
            f"memory, so {roofline.side} binds"
        )
    for why in roofline.missing.values():
        yield from finding(f"– bound by compute: {NOT_AVAILABLE}: {why}")
    yield from table(
        ("a call", "of the bound", "compute", "memory", "mode"),
        [
            (
                seconds(achieved.call_s),
                NOT_AVAILABLE if achieved.share is None else percent(achieved.share),
                f"{scaled(achieved.flop_per_s)}FLOP/s",
                f"{scaled(achieved.bytes_per_s)}B/s",
                achieved.mode,
            )
            for achieved in roofline.modes
        ],
    )
    whole = "all cores" if "CPU" in explanation.device else "whole GPU"
    one_core = [peak.one_core_per_s for peak in roofline.peaks]
    rows = [
        (
            scaled(peak.per_s) + peak.unit,
            NOT_AVAILABLE if one_s is None else scaled(one_s) + peak.unit,
            f"{peak.name} ({peak.size})",
        )
        for peak, one_s in zip(roofline.peaks, one_core, strict=True)
    ]
    if any(one_core):
        yield from table((whole, "one core", "peak"), rows)
    else:
        yield from table((whole, "peak"), [(first, last) for first, _, last in rows])
    yield from finding(LEFT_OUT)


def _program(explanation: Explanation) -> Iterator[str]:
    counts = {
        "graph_operations": "operations in the graph that graph mode runs",
        "hlo_operations": "operations in the program before XLA's optimizer",
    }
    for part, words in counts.items():
        count = getattr(explanation, part)
        yield from (
            missing(explanation, part, words) if count is None else finding(f"{count:,} {words}")
        )
    program = explanation.program
    if program is None:
        yield from missing(explanation, "program", "the program after XLA's optimizer")
        return
    unit = "thunks" if "CPU" in explanation.device else "kernels"
    yield from finding(f"{program.operations:,} operations ({unit}) after it:")
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
    if "CPU" in explanation.device and program.convolutions + program.dots:
        yield from finding(
            "– which of the convolutions and dots Eigen computes, and which generated code: "
            "not available: the program does not say"
        )
    yield from finding(
        f"one call must read {_megabytes(program.read_bytes)} MB and write "
        f"{_megabytes(program.written_bytes)} MB, operation by operation"
    )
    if program.largest:
        yield from finding("the fusions that read and write most:")
        yield from table(
            ("read MB", "write MB", "holds", "from"),
            [
                (
                    _megabytes(fusion.read_bytes),
                    _megabytes(fusion.written_bytes),
                    f"{fusion.operations:,}",
                    listed(map(bare, fusion.layers)) or str(fusion.kind),
                )
                for fusion in program.largest
            ],
        )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f}"


_SECTIONS: tuple[tuple[str, tuple[str, ...], Callable[[Explanation], Iterator[str]]], ...] = (
    ("What XLA refuses", ("refusals", "compiler"), _refused),
    ("Silent traps", ("traps",), _traps),
    ("Auto-clustering", ("clustering",), _clustering),
    ("What XLA makes of it", ("graph_operations", "hlo_operations", "program"), _program),
    ("What each call compiles", ("compilations",), compilations_text),
    ("What is captured as graphs", ("captures",), captures_text),
    ("How fast it could be", ("roofline",), _roofline),
    ("Where the time goes", ("time",), time_text),
)
"""Sections by their titles: the parts that they show; one without any is left to the end."""
