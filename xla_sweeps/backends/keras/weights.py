"""Find weights that a call never reads, such as of a function that was traced before they existed.

Found by what runs do: weights are changed, and a call must then compute what its code computes,
operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np

Outputs = Sequence[np.ndarray]

Call = Callable[[], Outputs]

SHIFT = 0.5
"""Largest relative change of a weight."""

FROM_ZERO = 0.1
"""Largest value of what was all zero."""

STILL = 1e-3
"""Below this share of the change that a weight should make, a call does not read it."""

FIX = (
    "remove the decorator (@tf.function, @jax.jit) from `call`, and compile the whole model "
    "instead; or create the weights in build()"
)


@dataclass
class Weights:
    """The weights of a model, and what its code makes of them.

    Attributes:
        variables: of the model.
        plainly: computes the outputs operation by operation, with no function in between.
        agree: true if outputs are these, or if that cannot be told.
    """

    variables: Sequence[Any]
    plainly: Call
    agree: Callable[[Outputs, Outputs], bool]

    def unread_by(self, call: Call) -> list[str]:
        """Names of the weights that a call does not read, although the model's code does."""
        if not self._floating:
            return []
        expected = self._expected
        with changed(self._floating):
            outputs = call()
        if self.agree(outputs, expected):
            return []
        outputs, plain = call(), self.plainly()
        return [_name(each) for each in self._floating if self._misses(each, call, outputs, plain)]

    @cached_property
    def _floating(self) -> list[Any]:
        return [each for each in self.variables if "float" in str(each.dtype)]

    @cached_property
    def _expected(self) -> Outputs:
        with changed(self._floating):
            return self.plainly()

    def _misses(self, variable: Any, call: Call, outputs: Outputs, plain: Outputs) -> bool:
        with changed([variable]):
            moved = call()
            if not self.agree(moved, outputs):
                return False
            expected = self.plainly()
        return not self.agree(expected, plain) and (
            _distance(moved, outputs) <= STILL * _distance(expected, plain)
        )


@contextmanager
def changed(variables: Sequence[Any]) -> Iterator[None]:
    """Give weights other values of the same size within a `with` block, always the same ones."""
    rng = np.random.default_rng(0)
    kept = [keras.ops.copy(variable) for variable in variables]
    try:
        for variable, values in zip(variables, kept, strict=True):
            variable.assign(_shifted(keras.ops.convert_to_numpy(values), rng))
        yield
    finally:
        for variable, values in zip(variables, kept, strict=True):
            variable.assign(values)


def named(names: Sequence[str], *, most: int = 4) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _shifted(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Values of another pattern; variances stay positive."""
    shift = rng.random(values.shape, np.float32)
    if not values.any():
        return (FROM_ZERO * shift).astype(values.dtype)
    return (values * (1 + SHIFT * (2 * shift - 1))).astype(values.dtype)


def _distance(one: Outputs, other: Outputs) -> float:
    return max(float(np.abs(a - b).max(initial=0)) for a, b in zip(one, other, strict=True))


def _name(variable: Any) -> str:
    return str(getattr(variable, "path", variable.name))
