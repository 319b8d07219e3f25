"""Show what XLA refuses of a model, its silent traps, and what TensorFlow compiles."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from xla_sweeps.report.terminal.roofline import roofline_lines
from xla_sweeps.report.terminal.trial_progress import STAGES
from xla_sweeps.schema.explanation import (
    Explanation,
    OpList,
    Place,
    Refusal,
    State,
    Support,
    Trap,
)
from xla_sweeps.system.text import displayable

WIDTH = 80

PLACES = 3
"""Places that are listed; JSON has all."""

FEW_OPS = 12
"""Up to this many operations are listed with their types."""

_MARKS = {State.FOUND: "!", State.POSSIBLE: "?", State.NONE: "✓", State.UNKNOWN: "–"}


def stage_line(phase: str, mode: str) -> str:
    """A stage in words, as `compiling xla`."""
    return f"{STAGES.get(phase, phase)} {mode}".strip()


def explanation_text(known: Explanation) -> str:
    """What is known of a model, in lines of at most 80 columns."""
    lines = [*_title(known), "", "What XLA refuses", *_refused(known), "", "Silent traps"]
    order = list(_MARKS)
    for trap in sorted(known.traps, key=lambda item: order.index(item.state)):
        lines += _trap(trap)
    lines += ["", "Auto-clustering", *_clustering(known)]
    lines += ["", "How fast it could be", *_roofline(known)]
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


def _support(item: Support) -> Iterator[str]:
    if not item.devices:
        yield f"{item.op}: no kernel of XLA"
        yield from _wrapped(f"-> {item.advice}", 4)
        return
    yield f"{item.op}: {', '.join(item.devices)}"
    for name, types in item.types.items():
        yield from _wrapped(f"{name}: {', '.join(types)}", 4)


def _title(known: Explanation) -> Iterator[str]:
    yield known.model
    facts = [known.device, f"TensorFlow {known.tensorflow}" if known.tensorflow else ""]
    if known.operations is not None:
        facts.append(f"{known.operations:,} operations traced")
    yield from _wrapped(" · ".join([*known.inputs, *filter(None, facts)]), 0)


def _refused(known: Explanation) -> Iterator[str]:
    if known.refusals is None:
        yield from _missing(known, "refusals", "the registry of kernels")
    elif not known.registered:
        yield from _wrapped("– not available: this TensorFlow lists no kernels of XLA", 2)
    else:
        if known.device not in known.registered:
            yield from _wrapped(f"– this TensorFlow does not list kernels of {known.device}", 2)
        for item in known.refusals:
            yield from _refusal(item)
        if not known.refusals:
            yield from _wrapped(f"✓ no operation lacks a kernel of {_and(known.registered)}", 2)
    verdict = known.compiler
    if verdict is None:
        yield from _missing(known, "compiler", "the compiler")
    elif verdict.compiles:
        yield "  ✓ the compiler takes the model"
    else:
        yield from _wrapped(f"! the compiler: {verdict.message}", 2)
        yield from _where(verdict.places)
        if verdict.advice and not known.refusals:
            yield from _wrapped(f"-> {verdict.advice}", 6)


def _refusal(item: Refusal) -> Iterator[str]:
    yield from _wrapped(f"! {item.op}: {item.reason} on {_and(item.devices)}", 2)
    yield from _where(item.places)
    yield from _wrapped(f"-> {item.advice}", 6)


def _trap(trap: Trap) -> Iterator[str]:
    what = f": {trap.what}" if trap.what else ""
    state = "" if trap.state in (State.FOUND, State.NONE) else f" {trap.state}"
    yield from _wrapped(f"{_MARKS[trap.state]} {trap.name}{state}{what}", 2)
    yield from _where(trap.places)
    if trap.fix:
        yield from _wrapped(f"-> {trap.fix}", 6)


def _clustering(known: Explanation) -> Iterator[str]:
    found = known.clustering
    if found is None:
        yield from _missing(known, "clustering", "what it finds")
        return
    outside = sorted({place.op for place in found.places})
    count = f"{found.clusters} cluster{'' if found.clusters == 1 else 's'}"
    share = f"about {found.share:.0%} of {found.operations:,} operations"
    yield from _wrapped(f"{count}, {share}", 2)
    if outside:
        yield from _wrapped(f"outside: {', '.join(outside)}", 2)


def _roofline(known: Explanation) -> Iterator[str]:
    if known.roofline is None:
        yield from _missing(known, "roofline", "its bound")
        return
    for line in roofline_lines(known.roofline):
        yield from _wrapped(line, 2)


def _missing(known: Explanation, part: str, words: str) -> Iterator[str]:
    yield from _wrapped(f"– {words}: not available: {known.missing.get(part, 'not reached')}", 2)


def _where(places: Iterable[Place]) -> Iterator[str]:
    """The first few distinct places, in words."""
    found = list(dict.fromkeys(filter(None, map(_in_words, places))))
    for place in found[:PLACES]:
        yield from _wrapped(place, 6)
    if len(found) > PLACES:
        yield f"      and {len(found) - PLACES} more places"


def _in_words(place: Place) -> str:
    where = [f"in {place.layer}" if place.layer else "", place.line]
    return ", ".join(filter(None, where)) or (f"at {place.node}" if place.node else "")


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )
