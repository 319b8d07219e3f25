"""What training minimizes: the loss that a model was compiled with, or that of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np

from xla_sweeps.backends.keras.sources import OWN
from xla_sweeps.backends.keras.sources.inputs import is_floating
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.trial import Trial
from xla_sweeps.trial.failures import error_line, is_out_of_memory, root_cause


class _Reduced(keras.losses.Loss):  # type: ignore[misc]
    """A loss in a type of its own, reduced as Keras does: masked positions do not count.

    Targets that are integers stay so for tf_keras, as `whole`; Keras 3 makes them floating.
    """

    def __init__(self, loss: Any, dtype: str, whole: Any = None) -> None:
        is_sum = str(getattr(loss, "reduction", "")) == "sum"
        super().__init__("loss", "sum" if is_sum else "sum_over_batch_size", dtype)
        self._each, self._whole = getattr(loss, "call", loss), whole

    def call(self, targets: Any, outputs: Any) -> Any:
        return self._each(targets if self._whole is None else self._whole, outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLoss:
    """The loss of one output.

    Attributes:
        loss: a function or `Loss` of Keras's of (targets, outputs), or of one's own.
        shape: of its targets, for a batch.
        classes: number of classes where targets are their numbers; 0 where they are values.
        legacy: whether it is a loss of tf_keras, which takes those numbers as integers, those of
            one per sample in a column.
    """

    loss: Any
    shape: tuple[int, ...]
    classes: int = 0
    weight: float = 1.0
    legacy: bool = False

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Targets of a batch: numbers of classes, or values from 0 to 1."""
        if self.classes:
            return rng.integers(0, self.classes, self.shape).astype(np.int32)
        return rng.uniform(0.0, 1.0, self.shape).astype(np.float32)

    def value(self, targets: Any, output: Any) -> Any:
        """The loss, a scalar; in float32 but for outputs in float64."""
        is_wide = keras.backend.standardize_dtype(output.dtype) == "float64"
        whole = None
        if self.legacy and self.classes:
            whole = keras.ops.convert_to_tensor(targets)
            whole = whole[:, None] if (len(whole.shape), len(output.shape)) == (1, 2) else whole
        loss = _Reduced(self.loss, "float64" if is_wide else "float32", whole)
        return self.weight * loss(targets, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The losses of a model's outputs.

    Attributes:
        heads: of each output, in order; None for one without a loss.
        structure: what the model returns, which nests its outputs.
    """

    heads: Sequence[HeadLoss | None]
    structure: Any

    @property
    def classes_shape(self) -> tuple[int, ...]:
        """Shape of the scores, (batch, ..., classes), where labels are classes; else ()."""
        (*_, last) = self.heads
        return (*last.shape, last.classes) if len(self.heads) == 1 and last and last.classes else ()

    def draw(self, rng: np.random.Generator) -> Any:
        """Targets of a batch, nested like the outputs; in a tuple, which tf.data keeps."""
        drawn = self._nest([head.draw(rng) if head else np.zeros(()) for head in self.heads])
        return tuple(drawn) if isinstance(drawn, list) else drawn

    def value(self, outputs: Any, targets: Any) -> Any:
        """The loss of a batch, without those that layers add; 0 if there are no others.

        Outputs that a model returns in training only, after the others, have none.
        """
        given = zip(
            self.heads, keras.tree.flatten(targets), keras.tree.flatten(outputs), strict=False
        )
        values = [head.value(target, output) for head, target, output in given if head]
        return sum(values[1:], values[0]) if values else keras.ops.zeros(())

    def compiled_with(self) -> dict[str, Any]:
        """What Keras's `compile` takes, of a model that returns the same nest."""
        if not any(self.heads):
            return {"loss": None}
        weights = [head.weight if head else 0.0 for head in self.heads]
        return {
            "loss": self._nest([head.loss if head else None for head in self.heads]),
            "loss_weights": self._nest(weights) if set(weights) != {1.0} else None,
        }

    def _nest(self, values: Sequence[Any]) -> Any:
        if not keras.tree.is_nested(self.structure):
            return values[0]
        if isinstance(self.structure, Mapping):
            return dict(zip(sorted(self.structure), values, strict=True))
        return list(values)


def objective_of(model: Any, outputs: Any, trial: Trial, library: Any) -> Objective:
    """The objective of a model, by what it returned for a batch; `library` is its Keras.

    Raises:
        ConfigError: no model of the user's that is compiled with a loss, or whose layers add one,
            and its outputs are no scores of classes.
    """
    heads = keras.tree.flatten(outputs)
    given = getattr(model, "loss", None) if trial.model.library == OWN else None
    if given is not None:
        own = getattr(model, "output_names", None) or []
        names = sorted(outputs) if isinstance(outputs, Mapping) else list(own)
        losses = _by_head(given, names, len(heads))
        if len(losses) != len(heads):
            raise ConfigError(
                f"{trial.model.name} was compiled with {len(losses)} losses, and has {len(heads)} "
                "outputs outside of training"
            )
        weights = _by_head(_weights_of(model), names, len(heads))
        made = [
            _head_loss(library, loss, weight, head)
            for loss, weight, head in zip(losses, weights, heads, strict=True)
        ]
        if any(made):
            return Objective(heads=made, structure=outputs)
    try:
        head = scores_of(heads, trial)
    except ConfigError:
        if not _adds_losses(model, trial):
            raise
        return Objective(heads=[None] * len(heads), structure=outputs)
    loss = library.losses.SparseCategoricalCrossentropy(from_logits=not adds_up_to_one(head))
    scores = HeadLoss(loss=loss, shape=tuple(head.shape[:-1]), classes=head.shape[-1])
    return Objective(heads=[scores], structure=outputs)


def _adds_losses(model: Any, trial: Trial) -> bool:
    """True if an own model is compiled, and its layers add losses in a call.

    A penalty of weights is none: tf_keras keeps those of a layer in private.
    """
    if trial.model.library != OWN or getattr(model, "optimizer", None) is None:
        return False
    weights = model.trainable_variables
    penalties = sum(getattr(each, "regularizer", None) is not None for each in weights)
    penalties += sum(len(getattr(each, "_callable_losses", ())) for each in model._flatten_layers())
    return len(model.losses) > penalties


def scores_of(heads: Sequence[Any], trial: Trial) -> Any:
    """The class scores of a batch, shape (batch, ..., classes).

    Raises:
        ConfigError: there are none, so there is no loss.
    """
    scores = [head for head in heads if is_floating(head) and len(head.shape) > 1]
    if len(heads) != 1 or not scores or scores[0].shape[-1] < 2:
        shapes = ", ".join(str(tuple(head.shape)) for head in heads)
        values = [keras.ops.convert_to_numpy(head) for head in heads if is_floating(head)]
        are_chances = bool(values) and all(np.all((each >= 0) & (each <= 1)) for each in values)
        loss = "binary_crossentropy" if are_chances else "mse"
        raise ConfigError(
            f"scenario={trial.scenario}: labels do not fit the outputs of {trial.model.name}: "
            f"expected scores of at least 2 classes, (batch, classes), found {shapes}; for another "
            f"loss, compile the model with it: model.compile(loss='{loss}')"
        )
    return scores[0]


def adds_up_to_one(head: Any) -> bool:
    """True if scores are probabilities and not logits."""
    values = keras.ops.convert_to_numpy(head).astype(np.float64)
    return bool(values.min() >= 0 and np.allclose(values.sum(axis=-1), 1, atol=0.02))


def _head_loss(library: Any, given: Any, weight: Any, head: Any) -> HeadLoss | None:
    if given is None:
        return None
    try:
        loss = library.losses.get(given)
    except ValueError as error:
        raise ConfigError(f"the model's loss {given!r} is unknown to Keras") from error
    name = str(getattr(loss, "name", "") or getattr(loss, "__name__", ""))
    make = partial(
        HeadLoss,
        loss=loss,
        weight=1.0 if weight is None else float(weight),
        legacy=library is not keras,
    )
    whole = tuple(head.shape)
    *positions, last = whole or (1,)
    numbers = make(shape=tuple(positions), classes=last)
    if name == "ctc" and positions:
        return make(shape=(whole[0], max(1, whole[1] // 4)), classes=last)
    usual = numbers if "sparse" in name else make(shape=whole)
    others = [numbers, make(shape=(*positions, 1))] if positions and last > 1 else []
    return _first_that_runs([usual, *(each for each in others if each is not usual)], head, name)


def _first_that_runs(candidates: Sequence[HeadLoss], output: Any, name: str) -> HeadLoss:
    """The first of some losses that takes its own targets: one's own may want any shape.

    Raises:
        ConfigError: none does.
    """
    rng, errors = np.random.default_rng(0), list[Exception]()
    for head in candidates:
        try:
            head.value(keras.ops.convert_to_tensor(head.draw(rng)), output)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            errors.append(error)
        else:
            return head
    shapes = " or ".join(str(head.shape) for head in candidates)
    raise ConfigError(
        f"the model's loss {name} fails on targets of shape {shapes}: "
        f"{error_line(root_cause(errors[0]))}; compile the model with one that takes such targets"
    ) from errors[0]


def _by_head(given: Any, names: Sequence[str], count: int) -> list[Any]:
    """What was given to `compile` for each output: by name, in order, or one for all."""
    if isinstance(given, Mapping):
        return [given.get(name) for name in names]
    return list(given) if isinstance(given, list | tuple) else [given] * count


def _weights_of(model: Any) -> Any:
    """`loss_weights` of `compile`: private in Keras 3.15.1 and tf_keras 2.21.0."""
    compiled = getattr(model, "_compile_loss", None) or getattr(model, "compiled_loss", None)
    return getattr(compiled, "_user_loss_weights", None)
