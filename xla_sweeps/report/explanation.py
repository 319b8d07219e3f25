"""What an explanation says, section by section; the terminal only lays it out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xla_sweeps.report.roofline import LEFT_OUT, roofline_figures, roofline_lines
from xla_sweeps.schema.explanation import Explanation, Kind, Place, Refusal, State, Trap
from xla_sweeps.system.text import counted

PLACES = 3
"""Places that are listed; JSON has all."""

_MARKS = {State.FOUND: "!", State.POSSIBLE: "?", State.NONE: "✓", State.UNKNOWN: "–"}


@dataclass(frozen=True, slots=True)
class Line:
    """One finding.

    Attributes:
        text: with its mark.
        more: where it is, and what to do.
    """

    text: str
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Figures, with what they are of in the last column."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Aligned:
    """Lines of figures whose columns blanks align."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A title and what is found under it."""

    title: str
    items: tuple[Line | Table | Aligned, ...]


def facts(known: Explanation) -> str:
    """What was explained, beside the model's name."""
    found = [known.device, f"TensorFlow {known.tensorflow}" if known.tensorflow else ""]
    if known.operations is not None:
        found.append(f"{known.operations:,} operations traced")
    return " · ".join([*known.inputs, *filter(None, found)])


def sections(known: Explanation) -> tuple[Section, ...]:
    """All that is known of a model."""
    order = list(_MARKS)
    traps = sorted(known.traps, key=lambda item: order.index(item.state))
    return (
        Section("What XLA refuses", tuple(_refused(known))),
        Section("Silent traps", tuple(map(_trap, traps))),
        Section("Auto-clustering", tuple(_clustering(known))),
        Section("What XLA makes of it", tuple(_program(known))),
        Section("How fast it could be", tuple(_roofline(known))),
        Section("Where the time goes", tuple(_time(known))),
    )


def _refused(known: Explanation) -> Iterator[Line]:
    if known.refusals is None:
        yield _missing(known, "refusals", "the registry of kernels")
    elif not known.registered:
        yield Line("– not available: this TensorFlow lists no kernels of XLA")
    else:
        if known.device not in known.registered:
            yield Line(f"– this TensorFlow does not list kernels of {known.device}")
        yield from map(_refusal, known.refusals)
        if not known.refusals:
            yield Line(f"✓ no operation lacks a kernel of {_and(known.registered)}")
    verdict = known.compiler
    if verdict is None:
        yield _missing(known, "compiler", "the compiler")
    elif verdict.compiles:
        yield Line("✓ the compiler takes the model")
    else:
        advice = () if known.refusals else _advice(verdict.advice)
        yield Line(f"! the compiler: {verdict.message}", (*_where(verdict.places), *advice))


def _refusal(item: Refusal) -> Line:
    return Line(
        f"! {item.op}: {item.reason} on {_and(item.devices)}",
        (*_where(item.places), *_advice(item.advice)),
    )


def _trap(trap: Trap) -> Line:
    what = f": {trap.what}" if trap.what else ""
    state = "" if trap.state in (State.FOUND, State.NONE) else f" {trap.state}"
    return Line(
        f"{_MARKS[trap.state]} {trap.name}{state}{what}", (*_where(trap.places), *_advice(trap.fix))
    )


def _clustering(known: Explanation) -> Iterator[Line]:
    found = known.clustering
    if found is None:
        yield _missing(known, "clustering", "what it finds")
        return
    outside = sorted({place.op for place in found.places})
    count = f"{found.clusters} cluster{'' if found.clusters == 1 else 's'}"
    yield Line(f"{count}, about {100 * found.share:.0f} % of {found.operations:,} operations")
    if outside:
        yield Line(f"outside: {', '.join(outside)}")


def _roofline(known: Explanation) -> Iterator[Line | Aligned]:
    if known.roofline is None:
        yield _missing(known, "roofline", "its bound")
        return
    yield from map(Line, roofline_lines(known.roofline))
    yield Aligned(tuple(roofline_figures(known.roofline)))
    yield Line(LEFT_OUT)


def _program(known: Explanation) -> Iterator[Line | Table]:
    counts = {
        "graph_operations": "operations in the graph that graph mode runs",
        "hlo_operations": "operations in the program before XLA's optimizer",
    }
    for part, words in counts.items():
        count = getattr(known, part)
        yield _missing(known, part, words) if count is None else Line(f"{count:,} {words}")
    found = known.program
    if found is None:
        yield _missing(known, "program", "the program after XLA's optimizer")
        return
    unit = "thunks" if "CPU" in known.device else "kernels"
    yield Line(f"{found.operations:,} operations ({unit}) after it:")
    calls = ", ".join(f"{name} {count:,}" for name, count in found.library.items())
    counted = {
        "fusions": found.fusions,
        f"library calls{f': {calls}' if calls else ''}": sum(found.library.values()),
        "convolutions": found.convolutions,
        "dots": found.dots,
        "copies": found.copies,
        "transposes": found.transposes,
        "converts": found.converts,
    }
    yield Table(("", "of them"), tuple((f"{count:,}", name) for name, count in counted.items()))
    if "CPU" in known.device and found.convolutions + found.dots:
        yield Line(
            "– which of the convolutions and dots Eigen computes, and which generated code: "
            "not available: the program does not say"
        )
    yield Line(
        f"one call must read {_megabytes(found.read_bytes)} MB and write "
        f"{_megabytes(found.written_bytes)} MB, operation by operation"
    )
    if found.largest:
        yield Line("the fusions that read and write most:")
        yield Table(
            ("read MB", "write MB", "holds", "from"),
            tuple(
                (
                    _megabytes(item.read_bytes),
                    _megabytes(item.written_bytes),
                    f"{item.operations:,}",
                    _listed([_bare(layer) for layer in item.layers]) or str(item.kind),
                )
                for item in found.largest
            ),
        )


def _time(known: Explanation) -> Iterator[Line | Table]:
    found = known.time
    if found is None:
        yield _missing(known, "time", "a trace")
        return
    graph, xla = found.modes
    number = f"{counted(graph.calls, 'traced call')} of each mode"
    if graph.calls != xla.calls:
        number = f"{graph.calls} (graph) and {xla.calls} (XLA) traced calls"
    yield Line(f"the fastest of {number}, ms; tracing makes them slower")
    kinds = [kind for kind in Kind if kind in graph.by_kind or kind in xla.by_kind]
    parts = [
        *((str(kind), graph.by_kind.get(kind, 0.0), xla.by_kind.get(kind, 0.0)) for kind in kinds),
        ("gaps between operations", graph.gaps_s, xla.gaps_s),
        ("host, before the first and after the last operation", graph.host_s, xla.host_s),
        ("one call", graph.call_s, xla.call_s),
    ]
    yield _lost(parts, "in")
    if found.lost:
        yield Line("where XLA loses most:")
        yield _lost(
            [
                (f"{_bare(item.layer)}: {item.kind}", item.graph_s, item.xla_s)
                for item in found.lost
            ],
            "layer",
        )
    else:
        yield Line("XLA loses time in no layer")


def _lost(rows: Sequence[tuple[str, float, float]], what: str) -> Table:
    """Seconds of graph mode and of XLA as a table, with what XLA loses."""
    return Table(
        ("graph", "XLA", "lost", what),
        tuple(
            (f"{1e3 * graph:,.2f}", f"{1e3 * xla:,.2f}", f"{1e3 * (xla - graph):+,.2f}", name)
            for name, graph, xla in rows
        ),
    )


def _listed(layers: Sequence[str]) -> str:
    rest = len(layers) - PLACES
    return ", ".join(layers[:PLACES]) + (f" and {rest} more" if rest > 0 else "")


def _bare(layer: str) -> str:
    """A layer without its class, which JSON has."""
    return layer.partition(" (")[0]


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.2f}"


def _missing(known: Explanation, part: str, words: str) -> Line:
    return Line(f"– {words}: not available: {known.missing.get(part, 'not reached')}")


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
