"""Draw a model's random weights with NumPy: equal in every engine, and nothing to compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import keras
import numpy as np
from keras.src.initializers import random_initializers

_BOUND = 2.0
"""A truncated normal distribution ends at so many standard deviations."""


@contextmanager
def drawn_by_numpy() -> Iterator[None]:
    """Let the random initializers of Keras 3 draw with NumPy meanwhile, from the same seeds.

    An engine draws other values from a seed than another, and JAX compiles a program for each
    shape. Uses a private module, tried on Keras 3.15.1.
    """
    engine = vars(random_initializers.random)
    random = SimpleNamespace(
        **{**engine, **{name: _drawing(draw, engine[name]) for name, draw in _DRAWS.items()}}
    )
    with mock.patch.object(random_initializers, "random", random):
        yield


def _drawing(draw: Callable[..., np.ndarray], by_engine: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Keras that draws: with NumPy, unless its seed has a state in the engine."""

    def draw_by_seed(
        shape: Sequence[int], *args: Any, seed: Any = None, dtype: Any = None, **more: Any
    ) -> Any:
        if not isinstance(seed, int):
            return by_engine(shape, *args, seed=seed, dtype=dtype, **more)
        values = draw(np.random.default_rng(seed % 2**64), tuple(shape), *args, **more)
        return values.astype(keras.backend.standardize_dtype(dtype))

    return draw_by_seed


def _uniform(
    rng: np.random.Generator, shape: tuple[int, ...], minval: float = 0.0, maxval: float = 1.0
) -> np.ndarray:
    return rng.random(shape, np.float32) * np.float32(maxval - minval) + np.float32(minval)


def _normal(
    rng: np.random.Generator, shape: tuple[int, ...], mean: float = 0.0, stddev: float = 1.0
) -> np.ndarray:
    return rng.standard_normal(shape, np.float32) * np.float32(stddev) + np.float32(mean)


def _draw_truncated(
    rng: np.random.Generator, shape: tuple[int, ...], mean: float = 0.0, stddev: float = 1.0
) -> np.ndarray:
    values = rng.standard_normal(shape, np.float32)
    while (beyond := np.abs(values) > _BOUND).any():
        values[beyond] = rng.standard_normal(np.count_nonzero(beyond), np.float32)
    return values * np.float32(stddev) + np.float32(mean)


_DRAWS = {"uniform": _uniform, "normal": _normal, "truncated_normal": _draw_truncated}
