"""Silent traps that any engine under XLA may have, found by what its runs do."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xla_sweeps.backends.keras import building, weights
from xla_sweeps.schema.explanation import Place, State, Trap, TrapName
from xla_sweeps.schema.trial import Precision
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker import agreement

NO_OUTPUTS = "no outputs both with and without XLA"

RANDOM = "two runs without XLA differ, or random numbers are drawn"

Ran = list[Any] | Exception
"""The outputs of a run, float64 arrays, or why it ended."""


def found(name: TrapName, what: str, fix: str, places: Sequence[Place] = ()) -> Trap:
    """A trap that the model has."""
    return Trap(name=name, state=State.FOUND, what=what, fix=fix, places=each_place(places))


def none(name: TrapName, what: str = "") -> Trap:
    """A trap that the model does not have."""
    return Trap(name=name, state=State.NONE, what=what)


def unknown(name: TrapName, why: str) -> Trap:
    """A trap that could not be looked for."""
    return Trap(name=name, state=State.UNKNOWN, what=why)


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


def other_shape(plain: Ran, compiled: Ran, places: Sequence[Place] = ()) -> Trap:
    """Find outputs under XLA of other shapes than without it.

    Args:
        plain: outputs without XLA.
        compiled: outputs under XLA.
        places: operations from which another shape may come.
    """
    name = TrapName.OTHER_SHAPE
    if isinstance(plain, Exception) or isinstance(compiled, Exception):
        return unknown(name, NO_OUTPUTS)
    pairs = [(one.shape, two.shape) for one, two in zip(plain, compiled, strict=True)]
    different = [f"{list(two)} instead of {list(one)}" for one, two in pairs if one != two]
    if not different:
        return none(name)
    return found(
        name,
        f"XLA returns an output of shape {', '.join(different)}",
        "give loops and tf.TensorArray a fixed size; return a mask instead of fewer elements",
        places,
    )


def other_values(
    plain: Ran,
    again: Ran,
    compiled: Ran,
    nudged: Callable[[], Ran],
    *,
    precision: Precision,
    places: Sequence[Place] = (),
) -> Trap:
    """Find outputs under XLA that differ by more than rounding.

    Args:
        plain: outputs without XLA.
        again: the same, of a second run.
        compiled: outputs under XLA.
        nudged: runs the model without XLA on inputs changed by rounding.
        precision: sets the tolerance.
        places: casts that narrow a type.
    """
    name = TrapName.OTHER_VALUES
    if (
        isinstance(plain, Exception)
        or isinstance(again, Exception)
        or isinstance(compiled, Exception)
    ):
        return unknown(name, NO_OUTPUTS)
    if not agreement.deterministic(plain, again):
        return unknown(name, RANDOM)
    if [output.shape for output in plain] != [output.shape for output in compiled]:
        return unknown(name, "the outputs have other shapes")
    result = agreement.compare(compiled, plain, precision=precision, classes=False)
    if result.ok:
        return none(name)
    if result.refused:
        return unknown(name, result.reason)
    moved = nudged()
    if isinstance(moved, Exception) or _moves(moved, plain, precision):
        why = "the model amplifies rounding: without XLA it moves as much"
        return unknown(name, why)
    return found(
        name,
        f"XLA computes something else: {result.reason}",
        "keep numbers within the range of their type before a cast, and finite",
        places,
    )


def weights_not_read(names: Sequence[str]) -> Trap:
    """Weights that a call never reads, if there are such."""
    name = TrapName.WEIGHTS_NOT_READ
    return found(name, weights.describe(names), weights.FIX) if names else none(name)


def jit_compile_ignored(model: Any, layers: Sequence[Any]) -> Trap:
    """Find out if Keras lowers `compile(jit_compile=True)` without an error.

    Args:
        model: the Keras model, or None.
        layers: all layers, those of layers included.
    """
    name = TrapName.JIT_COMPILE_IGNORED
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
        "replace the layer, or compile the call of the model yourself",
        places,
    )


def each_place(places: Iterable[Place]) -> tuple[Place, ...]:
    """The places without repetitions."""
    return tuple(dict.fromkeys(places))


def _moves(outputs: Sequence[Any], plain: Sequence[Any], precision: Precision) -> bool:
    result = agreement.compare(outputs, plain, precision=precision, classes=False)
    return not result.ok and result.rmse_rel is not None
