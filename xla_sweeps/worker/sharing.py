"""Weights and expected outputs that workers of several backends share, through a folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.worker.backend import Model

_WEIGHTS, _OUTPUTS = "weights.npz", "outputs.npz"


def write(model: Model, folder: Path) -> None:
    """Write a model's weights, and its eager outputs once it has run."""
    np.savez(folder / _WEIGHTS, *map(np.asarray, model.built.loaded.variables))
    counts = np.array([len(model.eager), model.deterministic, model.draws])
    later = (head for heads in model.later for head in heads)
    np.savez(folder / _OUTPUTS, counts, *model.eager, *later)


def take_weights(model: Model, folder: Path) -> None:
    """Give a model that was not loaded with weights those of another worker, before it runs.

    Raises:
        XlaSweepsError: it has other variables.
    """
    variables = model.built.loaded.variables
    if not variables:
        return
    weights = _read(folder / _WEIGHTS)
    shapes = [tuple(variable.shape) for variable in variables]
    if shapes != [array.shape for array in weights]:
        raise XlaSweepsError("the model has other variables than in the backend before it")
    for variable, array in zip(variables, weights, strict=True):
        variable.assign(array)


def take_outputs(model: Model, folder: Path) -> None:
    """Have a model's modes compared with the eager outputs of the worker that has written them.

    Raises:
        XlaSweepsError: it ran eagerly too, and has other outputs.
    """
    (heads, deterministic, draws), *outputs = _read(folder / _OUTPUTS)
    if model.eager and len(outputs) != len(model.eager) * (1 + len(model.later)):
        raise XlaSweepsError("the model has other outputs than in the backend before it")
    model.deterministic = model.deterministic and bool(deterministic)
    model.draws = model.draws or bool(draws)
    model.eager, rest = outputs[:heads], outputs[heads:]
    model.later = [rest[start : start + heads] for start in range(0, len(rest), heads)]


def _read(path: Path) -> list[np.ndarray]:
    with np.load(path) as arrays:
        return list(arrays.values())
