"""A PyTorch module of the user's own: its weights by name, as those of a Keras model are."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import torch

from xla_sweeps.errors import ConfigError


@dataclass(frozen=True)
class Weight:
    """A parameter or buffer of a module, like a variable of Keras."""

    path: str
    value: torch.Tensor

    @property
    def trainable(self) -> bool:
        """False for a buffer, and for a parameter that is frozen."""
        return bool(self.value.requires_grad)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""
        return self.value.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values: np.ndarray = keras.ops.convert_to_numpy(self.value)
        return np.array(values, dtype, copy=copy)

    def assign(self, values: Any) -> None:
        """Give it other values."""
        with torch.no_grad():
            self.value.copy_(torch.as_tensor(values))


def place(module: torch.nn.Module, where: str) -> None:
    """Move a module to the device of this scope.

    Raises:
        ConfigError: another precision is asked for, which only Keras's layers take.
    """
    if (precision := keras.config.dtype_policy().name) != "float32":
        raise ConfigError(
            f"precision={precision}: {where} is a PyTorch module, which computes in its own types; "
            "leave precision out, and build it with .half() or .bfloat16()"
        )
    module.to(keras.ops.zeros(()).device)
    for kind in {base for each in module.modules() for base in type(each).__mro__}:
        for function in filter(inspect.isfunction, vars(kind).values()):
            _let_be_compiled(function.__globals__)


def _let_be_compiled(names: dict[str, Any]) -> None:
    """Hide the name of a module from code of a notebook, whose names are not in that module here.

    `torch.compile` would look them up there: tried on PyTorch 2.13.0.
    """
    there = sys.modules.get(str(names.get("__name__")))
    if there is None or vars(there) is not names:
        names.pop("__name__", None)


no_gradients = torch.no_grad
"""Context of a call that keeps nothing for a backward pass, as the modes make it."""


def weights_of(module: torch.nn.Module) -> list[Weight]:
    """All parameters and buffers."""
    return [Weight(*named) for named in (*module.named_parameters(), *module.named_buffers())]
