"""Sources of models, one module each; a source imports its library when it loads a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import InputSpec, ModelSpec
from xla_sweeps.trial.failures import error_line

OWN = "local"
"""The library of a user's own models."""

_LOADERS = {
    "keras": "applications",
    "tf_keras": "applications",
    "keras_cv": "recipes",
    "keras_hub": "recipes",
    "tensorflow_hub": "xla_sweeps.backends.tensorflow.sources.hub",
    "examples": "examples",
    OWN: "local",
}
"""The module that loads each library's models: one of these, or an engine's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A model in memory.

    Attributes:
        forward: one forward pass: takes a batch (a tensor, or a tuple of tensors for several
            inputs) and returns tensors, nested as the model nests them. A Keras model's also takes
            `training`.
        inputs: the inputs of one sample.
        variables: all variables, including moving statistics.
        keras_model: the Keras model, or None if it is not one.
        module: the PyTorch module, or None if it is not one, or is a Keras model.
        rebuildable: whether the same spec under another dtype policy gives the same model in
            another precision.
        decode: (outputs of `forward`, images) to boxes after non-max suppression, or None: boxes
            (batch, n, 4), confidences (batch, n), classes (batch, n), number of valid boxes
            (batch).
        batch: the only batch size that the model takes, or None.
        eager_is_graph: whether an eager call runs a saved graph.
        replica_of: the Hub handle of which this is a copy with random weights, or "".
        pack: nests a batch as the Keras model takes it.
    """

    forward: Callable[..., Any]
    inputs: tuple[InputSpec, ...]
    variables: Sequence[Any]
    keras_model: Any = None
    module: Any = None
    rebuildable: bool = True
    decode: Callable[[Any, Any], Any] | None = None
    batch: int | None = None
    eager_is_graph: bool = False
    replica_of: str = ""
    pack: Callable[[Any], Any] = lambda batch: batch

    @classmethod
    def of_keras(
        cls,
        model: Any,
        inputs: tuple[InputSpec, ...],
        *,
        pack: Callable[[Any], Any] = lambda batch: batch,
        call: Callable[..., Any] | None = None,
        **more: Any,
    ) -> LoadedModel:
        """A Keras model that takes batches as `pack` nests them, with further fields.

        `call` is what calls it, where that is not the model itself.

        It is called with `training=False`, unless that would overrule a layer that was called with
        `training=True`.
        """
        inference = None if trains_always(model) else False
        return cls(
            forward=lambda batch, training=inference: (call or model)(
                pack(batch), training=training
            ),
            inputs=inputs,
            variables=model.variables,
            keras_model=model,
            pack=pack,
            **more,
        )


def trains_always(model: Any) -> bool:
    """True if a layer of a functional model was called with `training=True`.

    Keras records a default of the layer's `call` like an argument, so a layer whose default it is,
    as of those that augment images, does not count. Uses private attributes of Keras 3, tried on
    3.15.1. In tf_keras such a call wins anyway.
    """
    return any(
        getattr(getattr(node, "arguments", None), "kwargs", {}).get("training") is True
        for layer in model._flatten_layers(include_self=False, recursive=True)
        if not _trains_by_default(layer)
        for node in getattr(layer, "_inbound_nodes", ())
    )


def _trains_by_default(layer: Any) -> bool:
    training = inspect.signature(layer.call).parameters.get("training")
    return training is not None and training.default is True


def stateful_resets(model: Any) -> list[Callable[[], None]]:
    """What resets the layers of a Keras model that keep a state from call to call.

    Keras 3 names it `reset_state`, tf_keras `reset_states`; None has no layers.
    """
    layers = model._flatten_layers(include_self=False, recursive=True) if model else ()
    resets = [
        getattr(layer, "reset_state", None) or getattr(layer, "reset_states", None)
        for layer in layers
        if getattr(layer, "stateful", False) is True
    ]
    return [reset for reset in resets if reset]


def not_loaded(
    spec: ModelSpec, weights: str, error: Exception, *, check: str = "the network"
) -> XlaSweepsError:
    """The error where weights could not be loaded, or downloaded."""
    return XlaSweepsError(
        f"weights={spec.weights}: {weights} could not be loaded ({type(error).__name__}); check "
        f"the name and {check}, or use weights=random (it runs the same operations)"
    )


Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes another function of a function, such as a compiled one, or leaves it alone."""


def load(spec: ModelSpec, *, batch_size: int = 1, first: Wrap = lambda call: call) -> LoadedModel:
    """Load a model from its source, with the weights of its spec.

    The first call of a user's own is made by what `first` makes of it. `XlaSweepsError`, whose
    message is one line, if it cannot be loaded.
    """
    try:
        if spec.library in ("keras_cv", "keras_hub"):
            import_module(spec.library)
        place = _LOADERS[spec.library]
        loader = import_module(place if "." in place else f"{__name__}.{place}")
    except Exception as error:  # a library may raise anything with an unknown Keras or TensorFlow
        raise XlaSweepsError(
            f"source={spec.source}: {spec.library} cannot be imported: {error_line(error)}"
        ) from error
    more = {"batch_size": batch_size, "first": first} if spec.library == OWN else {}
    loaded = loader.load(spec, **more)
    assert isinstance(loaded, LoadedModel)
    return loaded
