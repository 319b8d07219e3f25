"""Silent traps that TensorFlow's graph and its runs show, never the words of a message.

Each function gets the `TensorFlowExplainer` of the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.explain import traps
from xla_sweeps.backends.tensorflow.explain.graph import TracedOp, called_functions, named_in
from xla_sweeps.backends.tensorflow.operations import compiled_inside
from xla_sweeps.schema.explanation import Place, State, TrapName
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.trial.failures import error_line, error_text

LOOKS: traps.Looks = {**traps.LOOKS}
"""What looks for a trap in a model of TensorFlow."""

CHECKS = ("Assert", "CheckNumerics", "CheckNumericsV2")

INDICES = {
    "ScatterNd": 0,
    **dict.fromkeys(("Gather", "GatherV2", "GatherNd", "ResourceGather", "ResourceGatherNd"), 1),
    **{f"TensorScatter{way}": 1 for way in ("Update", "Add", "Sub", "Max", "Min")},
    **{f"UnsortedSegment{way}": 1 for way in ("Sum", "Max", "Min", "Prod")},
}
"""Operations that look something up, and which input holds the indices."""

_RANDOM = re.compile(
    r"Random(?!Gammagrad|Shuffle\w*Dataset)|Multinomial|TruncatedNormal|Stateful\w*(?:Normal|Uniform)"
)
_NO_NUMBERS = re.compile(r"Get(?:Key|Counter|Alg)|Dataset")


@traps.looks(LOOKS, TrapName.OTHER_RANDOM_NUMBERS, after=Phase.TRACE)
def find_random_numbers(model: Any) -> traps.Finding:
    """Find random operations, which draw other numbers under XLA from the same seed."""
    return traps.found_at(
        random_places(model.ops),
        "XLA draws other random numbers from the same seed, stateless ones included",
        "draw them outside the compiled call, or compare distributions instead of values",
    )


@traps.looks(LOOKS, TrapName.XLA_IN_EVERY_MODE, after=Phase.TRACE)
def find_compiled_inside(model: Any) -> traps.Finding:
    """Find functions inside the model that XLA compiles whatever is asked for."""
    compiled = compiled_inside(model.baseline.concrete)
    return traps.found_at(
        [one.place for one in model.ops if compiled & {*called_functions(one.definition)}],
        "the model calls functions with jit_compile=True itself: eager and graph mode use XLA too, "
        "and compile in their first calls",
        "compare with a model without them; Keras makes them for grouped convolutions",
    )


@traps.looks(LOOKS, TrapName.RECOMPILES_PER_VALUE, after=Phase.COMPILE)
def find_programs_per_value(model: Any) -> traps.Finding:
    """Find out if XLA compiles another program for other values of equal shape."""
    if not model.lowered:
        return traps.unknown("XLA does not compile the model")
    first, second = (
        {each.SerializeToString(deterministic=True): each for each in module.instructions.values()}
        for module in model.lowered
    )
    if first.keys() == second.keys():
        return traps.none("the program is the same for other values")
    changed = [each for content, each in first.items() if content not in second]
    names = dict.fromkeys(each.metadata.op_name for each in changed)
    by_name = {str(traced.definition.name): traced.place for traced in model.ops}
    return traps.trap_found(
        "XLA compiles again for each new value: a shape or a size follows from the input's values",
        "make that size a constant, pad to a fixed size, or pass it as a Python number",
        [by_name[each] for each in names if each in by_name],
    )


@traps.looks(LOOKS, TrapName.DROPPED_CHECKS, after=Phase.VERIFY)
def find_dropped_checks(model: Any) -> traps.Finding:
    """Find checks and errors that do not arise under XLA."""
    what, where = _find_vanished_error(model)
    fix, checks = "check the inputs before the compiled call", model.places(*CHECKS)
    if what and not any(place.op in INDICES for place in where):
        return traps.trap_found(what, fix, [*where, *checks])
    return traps.found_at(checks, "assertions and checks of numbers do not run under XLA", fix)


@traps.looks(LOOKS, TrapName.CLAMPED_INDICES, after=Phase.VERIFY)
def find_clamped_indices(model: Any) -> traps.Finding:
    """Find look-ups whose indices XLA clamps or drops where they are out of range."""
    fix = "check the indices before the compiled call, or tf.clip_by_value to say what is meant"
    what, where = _find_vanished_error(model)
    if seen := [place for place in where if place.op in INDICES]:
        return traps.trap_found(what, fix, seen)
    places = [
        traced.place
        for traced in model.ops
        if traced.op in INDICES
        and (at := INDICES[traced.op]) < len(traced.known)
        and not traced.known[at]
    ]
    if not places:
        return traps.none()
    otherwise = "fails" if model.on_cpu else "returns zeros or an error"
    what = (
        "if an index is ever out of range, XLA takes the nearest element or drops the update, "
        f"where graph mode {otherwise}"
    )
    return traps.Finding(State.POSSIBLE, what, fix, places)


@traps.looks(LOOKS, TrapName.JIT_COMPILE_IGNORED, after=Phase.MEASURE)
def find_no_jit_compile(model: Any) -> traps.Finding:
    """Find out if `compile(jit_compile=True)` has no effect without an error."""
    if tf.config.functions_run_eagerly():
        what = "tf.config.run_functions_eagerly is on: no tf.function is compiled"
        return traps.trap_found(what, "remove tf.config.run_functions_eagerly(True)")
    return traps.find_ignored_jit_compile(model)


def random_places(ops: Sequence[TracedOp]) -> list[Place]:
    """Places of operations that draw random numbers."""
    return [one.place for one in ops if _RANDOM.search(one.op) and not _NO_NUMBERS.search(one.op)]


def narrows(traced: TracedOp) -> bool:
    """True for a cast to a type that holds fewer numbers."""
    if traced.op != "Cast":
        return False
    source, target = (tf.as_dtype(traced.definition.attr[name].type) for name in ("SrcT", "DstT"))
    return bool(source.is_floating and target.is_integer)


def _find_vanished_error(model: Any) -> tuple[str, Sequence[Place]]:
    """An error of graph mode on inputs on which XLA returns a result, in words, and its places."""
    error = model.plain
    if not isinstance(error, Exception) or isinstance(model.under_xla, Exception):
        return "", ()
    what = f"graph mode fails, and XLA returns a result: {error_line(error)}"
    return what, named_in(error_text(error), model.ops)
