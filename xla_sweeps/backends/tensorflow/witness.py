"""A second witness of XLA's outputs: a new model of the user's own that was never called eagerly.

The line that users write is `tf.function(model, jit_compile=True)(x)`. A layer that keeps something
of its first call may compute something else there than in a model that was called eagerly before.
"""

from __future__ import annotations

import gc
import traceback
from functools import partial
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.building import all_layers
from xla_sweeps.backends.keras.sources import Wrap
from xla_sweeps.schema.measurement import Agreement, Failure, Flag, Flagged, Phase
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker.backend import Tell
from xla_sweeps.worker.replicate import FIRST_CALL

HINT = "a layer keeps something of its first call; make it in __init__ or build() instead"

_LIBRARIES = ("keras", "tf_keras", "keras_hub", "keras_cv")

_compiled: Wrap = partial(tf.function, jit_compile=True, autograph=False)
"""The line that a user writes."""


def flaw_of(bench: KerasBench[Any], tell: Tell) -> Failure | None:
    """The failure of XLA on a model that was never called before; None if it has none.

    Where that call itself fails, an eager one before it is needed: a caveat. A new model that is
    unlike without XLA too, or cannot be built, shows nothing.
    """
    loaded = bench.built.loaded
    if not (loaded.rebuildable and loaded.keras_model and _has_own_code(loaded.keras_model)):
        return None
    reason, is_error = _trouble(bench, _compiled, tell)
    if not reason or _trouble(bench, lambda call: call, tell)[0]:
        return None
    if is_error:
        tell(protocol.Caveat(Flagged(Flag.FIRST_CALL, note=reason)))
        return None
    message = f"in a new model, whose first call XLA compiles: {reason}"
    return Failure(phase=Phase.VERIFY, kind=FIRST_CALL, message=message, hint=HINT)


def _trouble(bench: KerasBench[Any], first: Wrap, tell: Tell) -> tuple[str, bool]:
    """Trouble of a new model that is called in what `first` makes of a call, and if it is an error.

    It is "" where there is none.
    """
    try:
        agreed = _compare_fresh(bench, first, tell)
    except tf.errors.ResourceExhaustedError:  # two models at once
        return "", False
    except Exception as error:
        traceback.print_exc()
        return error_line(error), True
    finally:
        gc.collect()
    return "" if agreed.ok or agreed.refused else agreed.reason, False


def _compare_fresh(bench: KerasBench[Any], first: Wrap, tell: Tell) -> Agreement:
    """Compare the outputs of a new model with equal weights with eager's on the first inputs."""
    fresh = bench.build_model(bench.trial, first)
    pairs = zip(fresh.loaded.variables, bench.built.loaded.variables, strict=True)
    for variable, other in pairs:
        variable.assign(other)
    outputs = bench.engine.executables.read(first(fresh.call)(bench.inputs[0]))
    return bench.verify_outputs(outputs, tell)


def _has_own_code(model: Any) -> bool:
    """True if the model or a layer of it is not Keras's own, or has a function of the user's."""
    kinds = [type(each) for each in (model, *all_layers(model))]
    return any(
        kind.__module__.partition(".")[0] not in _LIBRARIES or kind.__name__ == "Lambda"
        for kind in kinds
    )
