"""What an explanation says, section by section; the terminal and the page only lay it out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xla_sweeps.report.roofline import roofline_lines
from xla_sweeps.schema.explanation import Explanation, Place, Refusal, State, Trap

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
class Section:
    """A title and what is found under it."""

    title: str
    items: tuple[Line, ...]


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
        Section("How fast it could be", tuple(_roofline(known))),
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
    yield Line(f"{count}, about {found.share:.0%} of {found.operations:,} operations")
    if outside:
        yield Line(f"outside: {', '.join(outside)}")


def _roofline(known: Explanation) -> Iterator[Line]:
    if known.roofline is None:
        yield _missing(known, "roofline", "its bound")
        return
    yield from map(Line, roofline_lines(known.roofline))


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
