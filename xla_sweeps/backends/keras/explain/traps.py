"""Silent traps: what differs under XLA without an error, found by what a model does.

`@looks(LOOKS, NAME, after=STAGE)` makes a function what looks for a trap on every engine under XLA.
A table of an engine has what only it can look for, or looks for in another way. The function gets
the `XlaExplainer` of the model.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from xla_sweeps.backends.keras import building, weights
from xla_sweeps.schema.explanation import Place, State, Trap, TrapName
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker import agreement

Ran = list[Any] | Exception
"""The outputs of a run, float64 arrays, or why it ended."""


class Finding(NamedTuple):
    """A trap as it was found in a model, and what to do."""

    state: State
    what: str = ""
    fix: str = ""
    places: Sequence[Place] = ()


def trap_found(what: str, fix: str, places: Sequence[Place] = ()) -> Finding:
    """A trap that the model has."""
    return Finding(State.FOUND, what, fix, places)


def found_at(places: Sequence[Place], what: str, fix: str) -> Finding:
    """A trap that the model has if it has such places."""
    return trap_found(what, fix, places) if places else none()


def none(what: str = "") -> Finding:
    """A trap that the model does not have."""
    return Finding(State.NONE, what)


def unknown(why: str) -> Finding:
    """A trap that could not be looked for."""
    return Finding(State.UNKNOWN, why)


class Look(NamedTuple):
    """A function that looks for a trap, and the stage after which that shows.

    What it raises is why the trap is not known.
    """

    after: Phase
    find: Callable[[Any], Finding]


Looks = dict[TrapName, Look]

F = TypeVar("F", bound=Callable[[Any], Finding])


def looks(table: Looks, name: TrapName, *, after: Phase) -> Callable[[F], F]:
    """Enter a function into a table as what looks for a trap."""

    def enter(find: F) -> F:
        table[name] = Look(after, find)
        return find

    return enter


def look_for(table: Mapping[TrapName, Look], model: Any, after: Phase) -> Iterator[Trap]:
    """The traps that show after a stage."""
    for name, look in table.items():
        if look.after is not after:
            continue
        try:
            finding = look.find(model)
        except Exception as error:
            traceback.print_exc()
            finding = unknown(error_line(error))
        places = tuple(dict.fromkeys(finding.places))
        yield Trap(name=name, **finding._replace(places=places)._asdict())


LOOKS: Looks = {}
"""What looks for a trap on every engine under XLA."""

_NO_OUTPUTS = unknown("no outputs both with and without XLA")

_RANDOM = unknown("two runs without XLA differ, or random numbers are drawn")


@looks(LOOKS, TrapName.RECOMPILES_PER_SHAPE, after=Phase.TRACE)
def find_open_sizes(model: Any) -> Finding:
    """Find sizes that the model leaves open; XLA compiles again for each."""
    free = sorted(
        f"{given.name} {list(given.shape)}"
        for given in getattr(model.bench.built.loaded.keras_model, "inputs", None) or []
        if None in tuple(given.shape)[1:]
    )
    if free:
        what = f"XLA compiles again for each new size of {', '.join(free)}"
        return trap_found(what, "give the inputs a fixed size, or pad to a few sizes")
    if model.batch is not None:
        return none(f"the batch size is always {model.batch}")
    return Finding(
        State.POSSIBLE,
        "XLA compiles again for each new batch size, as for the last batch of a data set",
        "dataset.batch(n, drop_remainder=True), or pad the last batch",
    )


@looks(LOOKS, TrapName.OTHER_SHAPE, after=Phase.VERIFY)
def find_other_shapes(model: Any) -> Finding:
    """Find outputs under XLA of other shapes than without it."""
    plain, compiled = model.plain, model.under_xla
    if isinstance(plain, Exception) or isinstance(compiled, Exception):
        return _NO_OUTPUTS
    pairs = [(one.shape, two.shape) for one, two in zip(plain, compiled, strict=True)]
    different = [f"{list(two)} instead of {list(one)}" for one, two in pairs if one != two]
    if not different:
        return none()
    return trap_found(
        f"XLA returns an output of shape {', '.join(different)}",
        "give loops and tf.TensorArray a fixed size; return a mask instead of fewer elements",
        model.resizing(),
    )


@looks(LOOKS, TrapName.OTHER_VALUES, after=Phase.VERIFY)
def find_other_values(model: Any) -> Finding:
    """Find outputs under XLA that differ by more than rounding."""
    plain, again, compiled = model.plain, model.again, model.under_xla
    seen = {trap.name for trap in model.explanation.traps if trap.state is State.FOUND}
    if TrapName.OTHER_RANDOM_NUMBERS in seen:
        return _RANDOM
    if any(isinstance(ran, Exception) for ran in (plain, again, compiled)):
        return _NO_OUTPUTS
    if not agreement.deterministic(plain, again):
        return _RANDOM
    if [output.shape for output in plain] != [output.shape for output in compiled]:
        return unknown("the outputs have other shapes")
    result = model.compare()
    if result.ok:
        return none()
    if result.refused:
        return unknown(result.reason)
    return trap_found(
        f"XLA computes something else: {result.reason}",
        "keep numbers within the range of their type before a cast, and finite",
        model.narrowing(),
    )


@looks(LOOKS, TrapName.WEIGHTS_NOT_READ, after=Phase.VERIFY)
def find_unread_weights(model: Any) -> Finding:
    """Find weights that a call never reads."""
    if isinstance(model.plain, Exception) or isinstance(model.again, Exception):
        return unknown("it fails without XLA")
    if not agreement.deterministic(model.plain, model.again):
        return unknown("two runs differ")
    names = model.bench.unread_names(list(model.ran.values())[-1])
    return trap_found(weights.describe(names), weights.FIX) if names else none()


@looks(LOOKS, TrapName.JIT_COMPILE_IGNORED, after=Phase.MEASURE)
def find_ignored_jit_compile(model: Any) -> Finding:
    """Find out if Keras lowers `compile(jit_compile=True)` without an error."""
    keras_model = model.bench.built.loaded.keras_model
    if not hasattr(keras_model, "compile"):
        return none("not a Keras model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras_model.compile(jit_compile=True)
    if keras_model.jit_compile:
        return none("Keras keeps jit_compile=True")
    without = building.layers_without_xla(model.layers)
    return trap_found(
        "compile(jit_compile=True) becomes False: a layer has supports_jit=False, so fit, evaluate "
        "and predict run without XLA",
        "replace the layer, or compile the call of the model yourself",
        [Place(op="", node="", layer=layer) for layer in without],
    )
