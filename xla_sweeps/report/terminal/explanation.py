"""Write an explanation, and the operations that TensorFlow compiles, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from xla_sweeps.report.terminal.trial_progress import STAGES
from xla_sweeps.schema.explanation import (
    Explanation,
    Kind,
    OpList,
    Place,
    Roofline,
    State,
    Support,
)
from xla_sweeps.schema.modes import Mode, Role, mode_of
from xla_sweeps.system.text import counted, displayable

WIDTH = 80

PLACES = 3
"""Places that are listed; JSON has all."""

TRACE_SLOWS = 1.5
"""Factor by which a trace may slow a call before what it says is doubtful."""

FEW_OPS = 12
"""Up to this many operations are listed with their types."""

LEFT_OUT = (
    "left out: values between operations that no cache holds, and all arithmetic but "
    "multiply-accumulates. They take time too, so the true bound is higher."
)
"""Limits of the bound."""

NOT_AVAILABLE = "not available"

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

_MARKS = {State.FOUND: "!", State.POSSIBLE: "?", State.NONE: "✓", State.UNKNOWN: "–"}


def stage_line(phase: str, subject: str) -> str:
    """A stage in words, as `compiling xla`."""
    return f"{STAGES.get(phase, phase)} {subject}".strip()


def explanation_text(explanation: Explanation) -> str:
    """An explanation in lines of at most 80 columns."""
    facts = [*explanation.inputs, explanation.device]
    facts += [f"TensorFlow {explanation.tensorflow}"] if explanation.tensorflow else []
    if explanation.operations is not None:
        facts.append(f"{explanation.operations:,} operations traced")
    lines = [explanation.model, *wrapped(" · ".join(filter(None, facts)), 0)]
    lines += wrapped(result(explanation))
    if explanation.others:
        lines += wrapped(
            f"~ contaminated: {explanation.others}. Explain it again on a quiet machine."
        )
    sections = {
        "What XLA refuses": _refused,
        "Silent traps": _traps,
        "Auto-clustering": _clustering,
        "What XLA makes of it": _program,
        "How fast it could be": _roofline,
        "Where the time goes": _time,
    }
    for title, section in sections.items():
        lines += ["", title, *section(explanation)]
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
        yield from _missing(explanation, "refusals", "the registry of kernels")
    elif not explanation.registered:
        yield from _line("– not available: this TensorFlow lists no kernels of XLA")
    else:
        if explanation.device not in explanation.registered:
            yield from _line(f"– this TensorFlow does not list kernels of {explanation.device}")
        for refusal in explanation.refusals:
            what = f"{refusal.op}: {refusal.reason} on {' and '.join(refusal.devices)}"
            yield from _line(f"! {what}", refusal.places, refusal.advice)
        if not explanation.refusals:
            devices = " and ".join(explanation.registered)
            yield from _line(f"✓ no operation lacks a kernel of {devices}")
    compiler = explanation.compiler
    if compiler is None:
        yield from _missing(explanation, "compiler", "the compiler")
    elif compiler.compiles:
        yield from _line("✓ the compiler takes the model")
    else:
        advice = "" if explanation.refusals else compiler.advice
        yield from _line(f"! the compiler: {compiler.message}", compiler.places, advice)


def _traps(explanation: Explanation) -> Iterator[str]:
    order = list(_MARKS)
    for trap in sorted(explanation.traps, key=lambda trap: order.index(trap.state)):
        what = f": {trap.what}" if trap.what else ""
        state = "" if trap.state in (State.FOUND, State.NONE) else f" {trap.state}"
        text = f"{_MARKS[trap.state]} {trap.name}{state}{what}"
        yield from _line(text, trap.places, trap.fix)


def _clustering(explanation: Explanation) -> Iterator[str]:
    clustering = explanation.clustering
    if clustering is None:
        yield from _missing(explanation, "clustering", "what it finds")
        return
    outside = sorted({place.op for place in clustering.places})
    yield from _line(
        f"{counted(clustering.clusters, 'cluster')}, about {_percent(clustering.share)} of "
        f"{clustering.operations:,} operations"
    )
    if outside:
        yield from _line(f"outside: {', '.join(outside)}")


def result(explanation: Explanation) -> str:
    """How much faster or slower XLA is, and what costs most; "" where no calls were timed."""
    calls = _call_s(explanation)
    if Mode.GRAPH.role not in calls or Mode.XLA.role not in calls:
        return ""
    graph, xla = calls[Mode.GRAPH.role], calls[Mode.XLA.role]
    word = "faster" if xla < graph else "slower"
    text = (
        f"Here XLA is {max(graph / xla, xla / graph):.2g}× {word} than graph ({_seconds(xla)} "
        f"against {_seconds(graph)} a call)"
    )
    if explanation.time and xla > graph and len(explanation.time.modes) > 1:
        first, second = explanation.time.modes[:2]
        lost = {
            kind: second.by_kind[kind] - first.by_kind.get(kind, 0.0) for kind in second.by_kind
        }
        kind = max(lost, key=lambda each: lost[each], default=None)
        half = (second.call_s - first.call_s) / 2
        text += f"; most is lost in {kind}" if kind and lost[kind] > half > 0 else ""
    return f"{text}."


def _call_s(explanation: Explanation) -> dict[Role, float]:
    """Seconds of a call of each mode without a trace."""
    modes = explanation.roofline.modes if explanation.roofline else ()
    return {mode_of(achieved.mode).role: achieved.call_s for achieved in modes}


def verdict(roofline: Roofline) -> str:
    """The distance of graph mode from the bound, which XLA can gain; "" if it is not known."""
    roles = {mode_of(achieved.mode).role: achieved for achieved in roofline.modes}
    graph = roles.get(Mode.GRAPH.role)
    if graph is None or graph.share is None or graph.gain is None:
        return ""
    bound = f"{_percent(graph.share)} of the bound set by {roofline.side}"
    if graph.share >= 1:
        return f"graph runs at {bound}: the peaks measured here are not this device's best"
    return f"graph already runs at {bound}; XLA can gain at most {graph.gain:.1f}×"


def _roofline(explanation: Explanation) -> Iterator[str]:
    roofline = explanation.roofline
    if roofline is None:
        yield from _missing(explanation, "roofline", "its bound")
        return
    work = roofline.work
    if explanation.others:
        yield from _line("~ other load slowed the peaks too, so this bound is no bound:")
    yield from _line(verdict(roofline))
    yield from _line(
        f"a call: {'at least ' if work.macs_at_least else ''}{scaled(work.macs).rstrip()} "
        f"multiply-accumulates; at least {scaled(work.total_bytes)}B moved: "
        f"{scaled(work.weight_bytes)}B weights, {scaled(work.input_bytes)}B inputs, "
        f"{scaled(work.output_bytes)}B outputs"
    )
    if roofline.compute_s is not None:
        yield from _line(
            f"bound: {_seconds(roofline.compute_s)} by compute, {_seconds(roofline.memory_s)} by "
            f"memory, so {roofline.side} binds"
        )
    for why in roofline.missing.values():
        yield from _line(f"– bound by compute: {NOT_AVAILABLE}: {why}")
    yield from _table(
        ("a call", "of the bound", "compute", "memory", "mode"),
        [
            (
                _seconds(achieved.call_s),
                NOT_AVAILABLE if achieved.share is None else _percent(achieved.share),
                f"{scaled(achieved.flop_per_s)}FLOP/s",
                f"{scaled(achieved.bytes_per_s)}B/s",
                achieved.mode,
            )
            for achieved in roofline.modes
        ],
    )
    yield from _table(
        ("all cores", "one core", "peak"),
        [
            (
                scaled(peak.per_s) + peak.unit,
                NOT_AVAILABLE
                if peak.one_core_per_s is None
                else scaled(peak.one_core_per_s) + peak.unit,
                f"{peak.name} ({peak.size})",
            )
            for peak in roofline.peaks
        ],
    )
    yield from _line(LEFT_OUT)


def scaled(number: float) -> str:
    """Three digits with a decimal prefix, to be followed by a unit: `8.37 G`."""
    for scale, prefix in _SCALES:
        if number >= scale:
            return f"{number / scale:.3g} {prefix}"
    return f"{number:.3g} "


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _program(explanation: Explanation) -> Iterator[str]:
    counts = {
        "graph_operations": "operations in the graph that graph mode runs",
        "hlo_operations": "operations in the program before XLA's optimizer",
    }
    for part, words in counts.items():
        count = getattr(explanation, part)
        yield from (
            _missing(explanation, part, words) if count is None else _line(f"{count:,} {words}")
        )
    program = explanation.program
    if program is None:
        yield from _missing(explanation, "program", "the program after XLA's optimizer")
        return
    unit = "thunks" if "CPU" in explanation.device else "kernels"
    yield from _line(f"{program.operations:,} operations ({unit}) after it:")
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
    yield from _table(("", "of them"), [(f"{count:,}", name) for name, count in parts.items()])
    if "CPU" in explanation.device and program.convolutions + program.dots:
        yield from _line(
            "– which of the convolutions and dots Eigen computes, and which generated code: "
            "not available: the program does not say"
        )
    yield from _line(
        f"one call must read {_megabytes(program.read_bytes)} MB and write "
        f"{_megabytes(program.written_bytes)} MB, operation by operation"
    )
    if program.largest:
        yield from _line("the fusions that read and write most:")
        yield from _table(
            ("read MB", "write MB", "holds", "from"),
            [
                (
                    _megabytes(fusion.read_bytes),
                    _megabytes(fusion.written_bytes),
                    f"{fusion.operations:,}",
                    _listed([_bare(layer) for layer in fusion.layers]) or str(fusion.kind),
                )
                for fusion in program.largest
            ],
        )


def _time(explanation: Explanation) -> Iterator[str]:
    time = explanation.time
    if time is None:
        yield from _missing(explanation, "time", "a trace")
        return
    graph, xla = time.modes
    number = f"{counted(graph.calls, 'traced call')} of each mode"
    if graph.calls != xla.calls:
        number = f"{graph.calls} (graph) and {xla.calls} (XLA) traced calls"
    yield from _line(f"the fastest of {number}, ms; tracing makes them slower")
    calls = _call_s(explanation)
    slower = {
        mode.mode: mode.call_s / calls[role]
        for mode in (graph, xla)
        if (role := mode_of(mode.mode).role) in calls
    }
    if slower:
        times = ", ".join(f"{mode} {factor:.2g}×" for mode, factor in slower.items())
        far = max(slower.values()) > TRACE_SLOWS
        advice = (
            "tracing changes what is slow, so the losses below are no measurement" if far else ""
        )
        yield from _line(
            f"{'! ' if far else ''}a traced call takes, of one without: {times}", (), advice
        )
    kinds = [kind for kind in Kind if kind in graph.by_kind or kind in xla.by_kind]
    parts = [
        *((str(kind), graph.by_kind.get(kind, 0.0), xla.by_kind.get(kind, 0.0)) for kind in kinds),
        ("gaps between operations", graph.gaps_s, xla.gaps_s),
        ("host, before the first and after the last operation", graph.host_s, xla.host_s),
        ("one call", graph.call_s, xla.call_s),
    ]
    yield from _lost(parts, "in")
    if time.lost:
        yield from _line("where XLA loses most:")
        yield from _lost(
            [(f"{_bare(loss.layer)}: {loss.kind}", loss.graph_s, loss.xla_s) for loss in time.lost],
            "layer",
        )
    else:
        yield from _line("XLA loses time in no layer")


def _lost(rows: Sequence[tuple[str, float, float]], what: str) -> Iterator[str]:
    """Seconds of graph mode and of XLA as a table, with what XLA loses."""
    return _table(
        ("graph", "XLA", "lost", what),
        [
            (f"{1e3 * graph:,.2f}", f"{1e3 * xla:,.2f}", f"{1e3 * (xla - graph):+,.2f}", name)
            for name, graph, xla in rows
        ],
    )


def _listed(layers: Sequence[str]) -> str:
    rest = len(layers) - PLACES
    return ", ".join(layers[:PLACES]) + (f" and {rest} more" if rest > 0 else "")


def _bare(layer: str) -> str:
    """A layer without its class, which JSON has."""
    return layer.partition(" (")[0]


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f}"


def _missing(explanation: Explanation, part: str, words: str) -> Iterator[str]:
    return _line(f"– {words}: not available: {explanation.missing.get(part, 'not reached')}")


def _in_words(place: Place) -> str:
    where = [f"in {place.layer}" if place.layer else "", place.line]
    return ", ".join(filter(None, where)) or (f"at {place.node}" if place.node else "")


def _line(text: str, places: Iterable[Place] = (), advice: str = "") -> Iterator[str]:
    """A finding, and below it where it is and what to do."""
    yield from wrapped(text, 2)
    distinct = list(dict.fromkeys(filter(None, map(_in_words, places))))
    for place in distinct[:PLACES]:
        yield from wrapped(place, 6)
    if len(distinct) > PLACES:
        yield from wrapped(f"and {len(distinct) - PLACES} more places", 6)
    if advice:
        yield from wrapped(f"-> {advice}", 6)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Figures to the right, and what they are of behind them, cut where the line ends."""
    for row in aligned((head, *rows), names=len(head) - 1):
        line = f"    {row}"
        yield line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def aligned(rows: Sequence[Sequence[str]], *, names: int) -> list[str]:
    """Lines in columns: that of the names to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index == names else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def wrapped(text: str, indent: int = 0) -> list[str]:
    """A text in lines of at most 80 columns, the later ones indented further."""
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )
