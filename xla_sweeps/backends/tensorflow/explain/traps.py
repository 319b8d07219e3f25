"""Silent traps: differences under XLA in this model that raise no error.

Each is found by what the graph holds or by what its runs do, never by the words of a message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.explain import traps
from xla_sweeps.backends.keras.explain.traps import each_place, found, none
from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.backends.tensorflow.explain.graph import TracedOp, called_functions, named_in
from xla_sweeps.backends.tensorflow.operations import clusters, compiled_inside, computes
from xla_sweeps.schema.explanation import Clustering, Place, State, Trap, TrapName
from xla_sweeps.trial.failures import error_line, error_text

FEW = 0.5
"""Below this share of clustered operations auto-clustering finds little."""

CHECKS = frozenset({"Assert", "CheckNumerics", "CheckNumericsV2"})

INDICES = {
    "Gather": 1,
    "GatherV2": 1,
    "GatherNd": 1,
    "ResourceGather": 1,
    "ResourceGatherNd": 1,
    "ScatterNd": 0,
    "TensorScatterUpdate": 1,
    "TensorScatterAdd": 1,
    "TensorScatterSub": 1,
    "TensorScatterMax": 1,
    "TensorScatterMin": 1,
    "UnsortedSegmentSum": 1,
    "UnsortedSegmentMax": 1,
    "UnsortedSegmentMin": 1,
    "UnsortedSegmentProd": 1,
}
"""Operations that look something up, and which input holds the indices."""

_RANDOM = re.compile(
    r"Random(?!Gammagrad|Shuffle\w*Dataset)|Multinomial|TruncatedNormal|Stateful\w*(?:Normal|Uniform)"
)
_NO_NUMBERS = re.compile(r"Get(?:Key|Counter|Alg)|Dataset")

_LOOPS = frozenset({"While", "StatelessWhile"})


def vanished_errors(
    ops: Sequence[TracedOp], vanished: Exception | None, *, device: str
) -> tuple[Trap, Trap]:
    """Errors that do not arise under XLA: of assertions, and of indices out of range.

    Args:
        ops: of the traced graph.
        vanished: an error of graph mode on inputs on which XLA returns a result, or None.
        device: TensorFlow's name of it.
    """
    what, where = "", tuple[Place, ...]()
    if vanished is not None:
        what = f"graph mode fails, and XLA returns a result: {error_line(vanished)}"
        where = named_in(error_text(vanished), ops)
    at_indices = [place for place in where if place.op in INDICES]
    name, fix = TrapName.DROPPED_CHECKS, "check the inputs before the compiled call"
    checks = [traced.place for traced in ops if traced.op in CHECKS]
    if what and not at_indices:
        dropped = found(name, what, fix, (*where, *checks))
    elif checks:
        dropped = found(name, "assertions and checks of numbers do not run under XLA", fix, checks)
    else:
        dropped = none(name)
    return dropped, _clamped_indices(ops, what, at_indices, device=device)


def _clamped_indices(
    ops: Sequence[TracedOp], vanished: str, seen: Sequence[Place], *, device: str
) -> Trap:
    """Look-ups whose indices XLA clamps or drops where they are out of range."""
    name = TrapName.CLAMPED_INDICES
    fix = "check the indices before the compiled call, or tf.clip_by_value to say what is meant"
    if seen:
        return found(name, vanished, fix, seen)
    places = [
        traced.place
        for traced in ops
        if traced.op in INDICES
        and (at := INDICES[traced.op]) < len(traced.known)
        and not traced.known[at]
    ]
    if not places:
        return none(name)
    otherwise = "returns zeros or an error" if "GPU" in device else "fails"
    what = (
        "if an index is ever out of range, XLA takes the nearest element or drops the update, "
        f"where graph mode {otherwise}"
    )
    return Trap(name=name, state=State.POSSIBLE, what=what, fix=fix, places=each_place(places))


def random_numbers(ops: Sequence[TracedOp]) -> Trap:
    """Random operations, which draw other numbers under XLA from the same seed."""
    name = TrapName.OTHER_RANDOM_NUMBERS
    places = [
        traced.place
        for traced in ops
        if _RANDOM.search(traced.op) and not _NO_NUMBERS.search(traced.op)
    ]
    if not places:
        return none(name)
    return found(
        name,
        "XLA draws other random numbers from the same seed, stateless ones included",
        "draw them outside the compiled call, or compare distributions instead of values",
        places,
    )


def recompiles_per_value(modules: Sequence[Module], ops: Sequence[TracedOp]) -> Trap:
    """Find out if XLA compiles another program for other values of equal shape.

    Args:
        modules: HLO for two batches of different values.
        ops: of the traced graph.
    """
    name = TrapName.RECOMPILES_PER_VALUE
    first, second = (
        {each.SerializeToString(deterministic=True): each for each in module.instructions.values()}
        for module in modules
    )
    if first.keys() == second.keys():
        return none(name, "the program is the same for other values")
    changed = [each for content, each in first.items() if content not in second]
    names = dict.fromkeys(each.metadata.op_name for each in changed)
    by_name = {str(traced.definition.name): traced.place for traced in ops}
    return found(
        name,
        "XLA compiles again for each new value: a shape or a size follows from the input's values",
        "make that size a constant, pad to a fixed size, or pass it as a Python number",
        [by_name[each] for each in names if each in by_name],
    )


def little_clustered(clustering: Clustering) -> Trap:
    """Find out if auto-clustering leaves most of the model outside its clusters."""
    name = TrapName.LITTLE_CLUSTERED
    if clustering.share >= FEW:
        return none(name)
    return found(
        name,
        "auto-clustering leaves most operations as they are",
        "use jit_compile=True; a cluster needs several neighbours that XLA compiles",
        clustering.places,
    )


def clustering_of(ops: Sequence[TracedOp], graphs: Sequence[Any]) -> Clustering:
    """Clusters that auto-clustering made of a graph.

    Args:
        ops: of the traced graph.
        graphs: the graphs that ran.
    """
    nodes = [node for graph in graphs for node in graph.node]
    number = clusters(graphs)
    by_name = {str(traced.definition.name): traced.place for traced in ops}
    outside = [node for node in nodes if computes(str(node.op))]
    functions = {traced.function for traced in ops}
    total = sum(computes(traced.op) and traced.op not in functions for traced in ops)
    return Clustering(
        operations=total,
        outside=total if not number else min(total, len(outside)),
        clusters=number,
        places=each_place(
            by_name.get(str(node.name), Place(op=str(node.op), node=str(node.name)))
            for node in outside
        ),
    )


def jit_compile_ignored(model: Any, layers: Sequence[Any]) -> Trap:
    """Find out if `compile(jit_compile=True)` has no effect without an error; see `traps`."""
    if tf.config.functions_run_eagerly():
        what = "tf.config.run_functions_eagerly is on: no tf.function is compiled"
        fix = "remove tf.config.run_functions_eagerly(True)"
        return found(TrapName.JIT_COMPILE_IGNORED, what, fix)
    return traps.jit_compile_ignored(model, layers)


def changed_sizes(ops: Sequence[TracedOp]) -> list[Place]:
    """Operations from which an output of another shape may come."""
    sizes = [
        traced.place for traced in ops if traced.op in _LOOPS or traced.op == "TensorListReserve"
    ]
    return sizes or [traced.place for traced in ops if traced.op in ("Reshape", "EnsureShape")]


def narrowing(ops: Sequence[TracedOp]) -> list[Place]:
    """Casts to a type that holds fewer numbers."""
    return [traced.place for traced in ops if traced.op == "Cast" and _narrows(traced)]


def xla_in_every_mode(concrete: Any, ops: Sequence[TracedOp]) -> Trap:
    """Functions inside the model that XLA compiles whatever is asked for."""
    name = TrapName.XLA_IN_EVERY_MODE
    compiled = compiled_inside(concrete)
    places = [
        traced.place for traced in ops if compiled.intersection(called_functions(traced.definition))
    ]
    if not places:
        return none(name)
    return found(
        name,
        "the model calls functions with jit_compile=True itself: eager and graph mode use XLA too, "
        "and compile in their first calls",
        "compare with a model without them; Keras makes them for grouped convolutions",
        places,
    )


def _narrows(traced: TracedOp) -> bool:
    source, target = (tf.as_dtype(traced.definition.attr[name].type) for name in ("SrcT", "DstT"))
    return bool(source.is_floating and target.is_integer)
