"""Show an explanation, and what TensorFlow compiles, as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from xla_sweeps.report.roofline import LEFT_OUT, roofline_figures, roofline_lines
from xla_sweeps.report.terminal.trial_progress import STAGES
from xla_sweeps.schema.explanation import (
    Explanation,
    Kind,
    OpList,
    Place,
    Refusal,
    State,
    Support,
)
from xla_sweeps.system.text import counted, displayable

WIDTH = 80

PLACES = 3
"""Places that are listed; JSON has all."""

FEW_OPS = 12
"""Up to this many operations are listed with their types."""

_MARKS = {State.FOUND: "!", State.POSSIBLE: "?", State.NONE: "✓", State.UNKNOWN: "–"}


def stage_line(phase: str, subject: str) -> str:
    """A stage in words, as `compiling xla`."""
    return f"{STAGES.get(phase, phase)} {subject}".strip()


def explanation_text(known: Explanation) -> str:
    """What is known of a model, in lines of at most 80 columns."""
    lines = [known.model, *_wrapped(_facts(known), 0)]
    for title, found in _sections(known):
        lines += ["", title, *found]
    return "\n".join(displayable(line) for line in lines) + "\n"


def ops_text(ops: OpList, chosen: Sequence[Support]) -> str:
    """What a TensorFlow compiles, in lines of at most 80 columns.

    Args:
        ops: the whole list.
        chosen: what was asked for of it.
    """
    compiled = [item for item in chosen if item.devices]
    others = [item for item in chosen if not item.devices]
    lines = [
        f"TensorFlow {ops.tensorflow} lists kernels for {', '.join(ops.devices) or 'no XLA device'}"
    ]
    if len(chosen) <= FEW_OPS:
        for item in chosen:
            lines += ["", *_support(item)]
        return "\n".join(lines) + "\n"
    for devices in dict.fromkeys(item.devices for item in compiled):
        names = [item.op for item in compiled if item.devices == devices]
        lines += ["", *_wrapped(f"{len(names)} compile on {' and '.join(devices)}:", 0)]
        lines += _wrapped(" ".join(names), 2)
    lines += ["", f"{len(others)} do not compile:", *_wrapped(" ".join(i.op for i in others), 2)]
    return "\n".join(lines) + "\n"


def _facts(known: Explanation) -> str:
    """What was explained, beside the model's name."""
    found = [known.device, f"TensorFlow {known.tensorflow}" if known.tensorflow else ""]
    if known.operations is not None:
        found.append(f"{known.operations:,} operations traced")
    return " · ".join([*known.inputs, *filter(None, found)])


def _sections(known: Explanation) -> Iterator[tuple[str, Iterator[str]]]:
    """The title of each section with its lines."""
    yield "What XLA refuses", _refused(known)
    yield "Silent traps", _traps(known)
    yield "Auto-clustering", _clustering(known)
    yield "What XLA makes of it", _program(known)
    yield "How fast it could be", _roofline(known)
    yield "Where the time goes", _time(known)


def _refused(known: Explanation) -> Iterator[str]:
    if known.refusals is None:
        yield from _missing(known, "refusals", "the registry of kernels")
    elif not known.registered:
        yield from _line("– not available: this TensorFlow lists no kernels of XLA")
    else:
        if known.device not in known.registered:
            yield from _line(f"– this TensorFlow does not list kernels of {known.device}")
        for item in known.refusals:
            yield from _refusal(item)
        if not known.refusals:
            yield from _line(f"✓ no operation lacks a kernel of {_and(known.registered)}")
    verdict = known.compiler
    if verdict is None:
        yield from _missing(known, "compiler", "the compiler")
    elif verdict.compiles:
        yield from _line("✓ the compiler takes the model")
    else:
        advice = () if known.refusals else _advice(verdict.advice)
        yield from _line(f"! the compiler: {verdict.message}", *_where(verdict.places), *advice)


def _refusal(item: Refusal) -> Iterator[str]:
    return _line(
        f"! {item.op}: {item.reason} on {_and(item.devices)}",
        *_where(item.places),
        *_advice(item.advice),
    )


def _traps(known: Explanation) -> Iterator[str]:
    order = list(_MARKS)
    for trap in sorted(known.traps, key=lambda item: order.index(item.state)):
        what = f": {trap.what}" if trap.what else ""
        state = "" if trap.state in (State.FOUND, State.NONE) else f" {trap.state}"
        text = f"{_MARKS[trap.state]} {trap.name}{state}{what}"
        yield from _line(text, *_where(trap.places), *_advice(trap.fix))


def _clustering(known: Explanation) -> Iterator[str]:
    found = known.clustering
    if found is None:
        yield from _missing(known, "clustering", "what it finds")
        return
    outside = sorted({place.op for place in found.places})
    count = f"{found.clusters} cluster{'' if found.clusters == 1 else 's'}"
    yield from _line(f"{count}, about {100 * found.share:.0f} % of {found.operations:,} operations")
    if outside:
        yield from _line(f"outside: {', '.join(outside)}")


def _roofline(known: Explanation) -> Iterator[str]:
    if known.roofline is None:
        yield from _missing(known, "roofline", "its bound")
        return
    for sentence in roofline_lines(known.roofline):
        yield from _line(sentence)
    yield from (f"  {figures}" for figures in roofline_figures(known.roofline))
    yield from _line(LEFT_OUT)


def _program(known: Explanation) -> Iterator[str]:
    counts = {
        "graph_operations": "operations in the graph that graph mode runs",
        "hlo_operations": "operations in the program before XLA's optimizer",
    }
    for part, words in counts.items():
        count = getattr(known, part)
        yield from _missing(known, part, words) if count is None else _line(f"{count:,} {words}")
    found = known.program
    if found is None:
        yield from _missing(known, "program", "the program after XLA's optimizer")
        return
    unit = "thunks" if "CPU" in known.device else "kernels"
    yield from _line(f"{found.operations:,} operations ({unit}) after it:")
    calls = ", ".join(f"{name} {count:,}" for name, count in found.library.items())
    parts = {
        "fusions": found.fusions,
        f"library calls{f': {calls}' if calls else ''}": sum(found.library.values()),
        "convolutions": found.convolutions,
        "dots": found.dots,
        "copies": found.copies,
        "transposes": found.transposes,
        "converts": found.converts,
    }
    yield from _table(("", "of them"), [(f"{count:,}", name) for name, count in parts.items()])
    if "CPU" in known.device and found.convolutions + found.dots:
        yield from _line(
            "– which of the convolutions and dots Eigen computes, and which generated code: "
            "not available: the program does not say"
        )
    yield from _line(
        f"one call must read {_megabytes(found.read_bytes)} MB and write "
        f"{_megabytes(found.written_bytes)} MB, operation by operation"
    )
    if found.largest:
        yield from _line("the fusions that read and write most:")
        yield from _table(
            ("read MB", "write MB", "holds", "from"),
            [
                (
                    _megabytes(item.read_bytes),
                    _megabytes(item.written_bytes),
                    f"{item.operations:,}",
                    _listed([_bare(layer) for layer in item.layers]) or str(item.kind),
                )
                for item in found.largest
            ],
        )


def _time(known: Explanation) -> Iterator[str]:
    found = known.time
    if found is None:
        yield from _missing(known, "time", "a trace")
        return
    graph, xla = found.modes
    number = f"{counted(graph.calls, 'traced call')} of each mode"
    if graph.calls != xla.calls:
        number = f"{graph.calls} (graph) and {xla.calls} (XLA) traced calls"
    yield from _line(f"the fastest of {number}, ms; tracing makes them slower")
    kinds = [kind for kind in Kind if kind in graph.by_kind or kind in xla.by_kind]
    parts = [
        *((str(kind), graph.by_kind.get(kind, 0.0), xla.by_kind.get(kind, 0.0)) for kind in kinds),
        ("gaps between operations", graph.gaps_s, xla.gaps_s),
        ("host, before the first and after the last operation", graph.host_s, xla.host_s),
        ("one call", graph.call_s, xla.call_s),
    ]
    yield from _lost(parts, "in")
    if found.lost:
        yield from _line("where XLA loses most:")
        yield from _lost(
            [
                (f"{_bare(item.layer)}: {item.kind}", item.graph_s, item.xla_s)
                for item in found.lost
            ],
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


def _missing(known: Explanation, part: str, words: str) -> Iterator[str]:
    return _line(f"– {words}: not available: {known.missing.get(part, 'not reached')}")


def _advice(text: str) -> tuple[str, ...]:
    return (f"-> {text}",) if text else ()


def _where(places: Iterable[Place]) -> Iterator[str]:
    """The first few distinct places, in words."""
    found = list(dict.fromkeys(filter(None, map(_in_words, places))))
    yield from found[:PLACES]
    if len(found) > PLACES:
        yield f"and {len(found) - PLACES} more places"


def _in_words(place: Place) -> str:
    where = [f"in {place.layer}" if place.layer else "", place.line]
    return ", ".join(filter(None, where)) or (f"at {place.node}" if place.node else "")


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def _support(item: Support) -> Iterator[str]:
    if not item.devices:
        yield f"{item.op}: no kernel of XLA"
        yield from _wrapped(f"-> {item.advice}", 4)
        return
    yield f"{item.op}: {', '.join(item.devices)}"
    for name, types in item.types.items():
        yield from _wrapped(f"{name}: {', '.join(types)}", 4)


def _line(text: str, *more: str) -> Iterator[str]:
    """A finding, and below it where it is and what to do."""
    yield from _wrapped(text, 2)
    for each in more:
        yield from _wrapped(each, 6)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Figures to the right, and what they are of behind them, cut where the line ends."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head) - 1)]
    for row in (head, *rows):
        figures = "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False))
        line = f"    {figures}  {row[-1]}"
        yield line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )
