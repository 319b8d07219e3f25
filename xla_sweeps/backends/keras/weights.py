"""Find weights that a call never reads, such as of a function that was traced before they existed.

Found by what runs do: weights are changed, and a call must then compute what its code computes,
operation by operation.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np

from xla_sweeps.schema.trial import Precision
from xla_sweeps.worker import agreement

Outputs = Sequence[np.ndarray]

Call = Callable[[], Outputs]

SHIFT = 0.5
"""Largest relative change of a weight."""

FROM_ZERO = 0.1
"""Largest value of what was all zero."""

STILL = 1e-3
"""Below this share of the change that a weight should make, a call does not read it."""

MOST = 2
"""Weights that are named."""

FIX = (
    "remove the decorator (@tf.function, @jax.jit) from `call`, and compile the whole model "
    "instead; or create the weights in build()"
)


@dataclass
class Weights:
    """The weights of a model, and what its code makes of them."""

    variables: Sequence[Any]
    eagerly: Call
    op_by_op: Callable[[], AbstractContextManager[object]]
    """Within it functions of the model run operation by operation."""
    precision: Precision
    """Sets the tolerance, with whether a GPU computes."""
    gpu: bool

    def unread_by(self, call: Call) -> list[str]:
        """Names of the weights that a call does not read, although the model's code does."""
        if not self._floating:
            return []
        expected = self._expected_outputs
        with perturb(self._floating):
            outputs = call()
        if self._agree(outputs, expected):
            return []
        outputs, plain = call(), self._call_plainly()
        return [
            name_of(each) for each in self._floating if self._misses(each, call, outputs, plain)
        ]

    @cached_property
    def _floating(self) -> list[Any]:
        return [each for each in self.variables if "float" in str(each.dtype)]

    @cached_property
    def _expected_outputs(self) -> Outputs:
        with perturb(self._floating):
            return self._call_plainly()

    def _call_plainly(self) -> Outputs:
        """Outputs of an eager call, the model's functions operation by operation where they can."""
        try:
            with self.op_by_op():
                return self.eagerly()
        except Exception:
            traceback.print_exc()
            return self.eagerly()

    def _agree(self, outputs: Outputs, expected: Outputs) -> bool:
        """True if outputs are these, or if that cannot be told."""
        agreed = agreement.compare(
            outputs, expected, precision=self.precision, classes=False, gpu=self.gpu
        )
        return agreed.ok or agreed.refused

    def _misses(self, variable: Any, call: Call, outputs: Outputs, plain: Outputs) -> bool:
        with perturb([variable]):
            moved = call()
            if not self._agree(moved, outputs):
                return False
            expected = self._call_plainly()
        return not self._agree(expected, plain) and (
            _distance(moved, outputs) <= STILL * _distance(expected, plain)
        )


@contextmanager
def perturb(variables: Sequence[Any]) -> Iterator[None]:
    """Give weights other values of the same size within a `with` block, always the same ones."""
    rng = np.random.default_rng(0)
    kept = [keras.ops.copy(variable) for variable in variables]
    try:
        for variable, values in zip(variables, kept, strict=True):
            variable.assign(_shift(keras.ops.convert_to_numpy(values), rng))
        yield
    finally:
        for variable, values in zip(variables, kept, strict=True):
            variable.assign(values)


def describe(names: Sequence[str]) -> str:
    """A line about weights that a call does not read."""
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return (
        f"the call never reads {', '.join(names[:MOST])}{more}: a function in it holds values from "
        "when it was traced, so training or loading weights changes nothing"
    )


def _shift(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Values of another pattern; variances stay positive."""
    shift = rng.random(values.shape, np.float32)
    if not values.any():
        return (FROM_ZERO * shift).astype(values.dtype)
    moved: np.ndarray = values * (1 + SHIFT * (2 * shift - 1))
    return moved.astype(values.dtype)


def _distance(one: Outputs, other: Outputs) -> float:
    return max(float(np.abs(a - b).max(initial=0)) for a, b in zip(one, other, strict=True))


def name_of(variable: Any) -> str:
    """The path of a variable, or its name."""
    return str(getattr(variable, "path", variable.name))
