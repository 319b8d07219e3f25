"""Silent traps: differences under XLA in this model that raise no error.

Each is found by what the graph holds or by what its runs do, never by the words of a message.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.tensorflow.explain.graph import TracedOp, called_functions, named_in
from xla_sweeps.backends.tensorflow.hlo import Module
from xla_sweeps.backends.tensorflow.operations import clusters, compiled_inside, computes
from xla_sweeps.measure import agreement
from xla_sweeps.measure.failures import error_line, error_text
from xla_sweeps.schema.explanation import Clustering, Place, State, Trap, TrapName
from xla_sweeps.schema.trial import Precision

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

Ran = list[Any] | Exception
"""The outputs of a run, float64 arrays, or why it ended."""


def found(name: TrapName, what: str, fix: str, places: Sequence[Place] = ()) -> Trap:
    """A trap that the model has."""
    return Trap(name=name, state=State.FOUND, what=what, fix=fix, places=_each(places))


def none(name: TrapName, what: str = "") -> Trap:
    """A trap that the model does not have."""
    return Trap(name=name, state=State.NONE, what=what)


def unknown(name: TrapName, why: str) -> Trap:
    """A trap that could not be looked for."""
    return Trap(name=name, state=State.UNKNOWN, what=why)


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
    return Trap(name=name, state=State.POSSIBLE, what=what, fix=fix, places=_each(places))


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


def recompiles_per_shape(model: Any, batch: int | None) -> Trap:
    """Find sizes that the model leaves open; XLA compiles again for each.

    Args:
        model: the Keras model, or None.
        batch: the only batch size that the model takes, or None.
    """
    name = TrapName.RECOMPILES_PER_SHAPE
    free = sorted(
        f"{given.name} {list(given.shape)}"
        for given in getattr(model, "inputs", None) or []
        if None in tuple(given.shape)[1:]
    )
    if free:
        what = f"XLA compiles again for each new size of {', '.join(free)}"
        return found(name, what, "give the inputs a fixed size, or pad to a few sizes")
    if batch is not None:
        return none(name, f"the batch size is always {batch}")
    return Trap(
        name=name,
        state=State.POSSIBLE,
        what="XLA compiles again for each new batch size, as for the last batch of a data set",
        fix="dataset.batch(n, drop_remainder=True), or pad the last batch",
    )


def other_shape(graph: Ran, compiled: Ran, ops: Sequence[TracedOp]) -> Trap:
    """Find outputs under XLA of other shapes than in graph mode."""
    name = TrapName.OTHER_SHAPE
    if isinstance(graph, Exception) or isinstance(compiled, Exception):
        return unknown(name, "no outputs of both graph mode and XLA")
    pairs = [(one.shape, two.shape) for one, two in zip(graph, compiled, strict=True)]
    different = [f"{list(two)} instead of {list(one)}" for one, two in pairs if one != two]
    if not different:
        return none(name)
    sizes = [
        traced.place for traced in ops if traced.op in _LOOPS or traced.op == "TensorListReserve"
    ]
    return found(
        name,
        f"XLA returns an output of shape {', '.join(different)}",
        "give loops and tf.TensorArray a fixed size; return a mask instead of fewer elements",
        sizes or [traced.place for traced in ops if traced.op in ("Reshape", "EnsureShape")],
    )


def other_values(
    graph: Ran,
    again: Ran,
    compiled: Ran,
    nudged: Callable[[], Ran],
    ops: Sequence[TracedOp],
    *,
    precision: Precision,
) -> Trap:
    """Find outputs under XLA that differ by more than rounding.

    Args:
        graph: outputs in graph mode.
        again: the same, of a second run.
        compiled: outputs under XLA.
        nudged: runs graph mode on inputs changed by rounding.
        ops: of the traced graph.
        precision: sets the tolerance.
    """
    name = TrapName.OTHER_VALUES
    if (
        isinstance(graph, Exception)
        or isinstance(again, Exception)
        or isinstance(compiled, Exception)
    ):
        return unknown(name, "no outputs of both graph mode and XLA")
    if random_numbers(ops).state is State.FOUND or not agreement.deterministic(graph, again):
        return unknown(name, "two runs of graph mode differ, or random numbers are drawn")
    if [output.shape for output in graph] != [output.shape for output in compiled]:
        return unknown(name, "the outputs have other shapes")
    result = agreement.compare(compiled, graph, precision=precision, classes=False)
    if result.ok:
        return none(name)
    if result.rmse_rel is None and not _differ(graph, compiled):
        return unknown(name, result.reason)
    moved = nudged()
    if isinstance(moved, Exception) or _moves(moved, graph, precision):
        why = "the model amplifies rounding: graph mode alone moves as much"
        return unknown(name, why)
    casts = [traced.place for traced in ops if traced.op == "Cast" and _narrows(traced)]
    return found(
        name,
        f"XLA computes something else: {result.reason}",
        "keep numbers within the range of their type before a cast, and finite",
        casts,
    )


def _moves(outputs: Sequence[Any], graph: Sequence[Any], precision: Precision) -> bool:
    result = agreement.compare(outputs, graph, precision=precision, classes=False)
    return not result.ok and result.rmse_rel is not None


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
        places=_each(
            by_name.get(str(node.name), Place(op=str(node.op), node=str(node.name)))
            for node in outside
        ),
    )


def jit_compile_ignored(model: Any, layers: Sequence[Any]) -> Trap:
    """Find out if Keras lowers `compile(jit_compile=True)` without an error.

    Args:
        model: the Keras model, or None.
        layers: all layers, those of layers included.
    """
    name = TrapName.JIT_COMPILE_IGNORED
    if tf.config.functions_run_eagerly():
        what = "tf.config.run_functions_eagerly is on: no tf.function is compiled"
        return found(name, what, "remove tf.config.run_functions_eagerly(True)")
    if model is None or not hasattr(model, "compile"):
        return none(name, "not a Keras model")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.compile(jit_compile=True)
        kept = model.jit_compile
    except Exception as error:
        return unknown(name, error_line(error))
    if kept:
        return none(name, "Keras keeps jit_compile=True")
    places = [Place(op="", node="", layer=layer) for layer in building.layers_without_xla(layers)]
    return found(
        name,
        "compile(jit_compile=True) becomes False: a layer has supports_jit=False, so fit, evaluate "
        "and predict run without XLA",
        "replace the layer, or call tf.function(model, jit_compile=True) yourself",
        places,
    )


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


def _each(places: Any) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(places))


def _narrows(traced: TracedOp) -> bool:
    source, target = (tf.as_dtype(traced.definition.attr[name].type) for name in ("SrcT", "DstT"))
    return bool(source.is_floating and target.is_integer)


def _differ(graph: Sequence[Any], compiled: Sequence[Any]) -> bool:
    return any((one != two).any() for one, two in zip(graph, compiled, strict=True))
