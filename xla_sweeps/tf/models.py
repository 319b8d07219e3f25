"""Builds the model a trial asks for, gives it meaningful activations, and counts what was really built."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.macs import count_macs
from xla_sweeps.trial import ModelSpec, Precision

CHANNELS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """A model on its device.

    Attributes:
        call: one forward pass, images of shape (batch, *input_shape), float32 in [0, 255], to float32 logits.
        input_shape: of one image: (height, width, channels).
        params: elements of all variables, moving statistics included.
    """

    model: Any
    library: str
    call: Callable[[Any], Any]
    input_shape: tuple[int, ...]
    params: int
    trainable_params: int


def build(spec: ModelSpec, *, precision: Precision, seed: int) -> BuiltModel:
    """Build a model with its classification head and logits for output (a softmax would hide differences).

    Args:
        spec: which model, at which resolution.
        precision: Keras dtype policy; logits are float32 under every policy.
        seed: of the random weights.

    Raises:
        ConfigError: no such constructor.
        XlaSweepsError: pretrained weights cannot be had.
    """
    return _build(spec, policy=str(precision), seed=seed)


def calibrate(built: BuiltModel, images: np.ndarray) -> None:
    """Set batch-normalization statistics of an untrained model from one batch, so that activations are of order 1.

    Untrained models give logits from 1e-10 to 3e3, on which no comparison means anything. Speed does not depend on it.

    Args:
        built: a model with random weights.
        images: shape (n, *input_shape), n > 1.
    """
    layers = [layer for layer in _all_layers(built.model) if type(layer).__name__ == "BatchNormalization"]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            layer.momentum = 0.0
        built.model(tf.constant(images), training=True)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
    for layer in layers:
        # A channel that is constant over the batch (dead, or one pixel) would be blown up by 1 / sqrt(epsilon).
        variance = np.asarray(layer.moving_variance, dtype=np.float64)
        layer.moving_variance.assign(np.maximum(variance, 1e-2 * max(variance.mean(), 1e-12)).astype(np.float32))


def float64_reference(spec: ModelSpec, built: BuiltModel, images: np.ndarray) -> list[np.ndarray]:
    """Outputs of the same architecture with the same weights in float64 on the CPU, one array a head.

    Args:
        spec: what `built` was built from.
        built: the model whose weights are taken.
        images: shape (n, *input_shape).
    """
    with tf.device("/device:CPU:0"):
        twin = _build(replace(spec, weights="random"), policy="float64", seed=0)
        twin.model.set_weights([np.asarray(weight, dtype=np.float64) for weight in built.model.get_weights()])
        forward = tf.function(lambda batch: twin.model(batch, training=False), jit_compile=False, autograph=False)
        outputs = forward(tf.constant(images, dtype=tf.float64))
        return [np.asarray(output, dtype=np.float64) for output in tf.nest.flatten(outputs)]


def macs(built: BuiltModel, *, resolution: int) -> tuple[int, str]:
    """Multiply-accumulates of one image, from the HLO of a batch of one; lowered on the CPU, not compiled.

    Returns:
        The count, and "" or what to know about it.
    """
    signature = tf.TensorSpec((1, resolution, resolution, CHANNELS), tf.float32)
    with tf.device("/device:CPU:0"):
        function = tf.function(built.call, jit_compile=True, autograph=False)
        text = function.experimental_get_compiler_ir(signature)(stage="hlo_no_metadata")
    count = count_macs(str(text))
    return count.total, "loop bodies are counted once" if count.loops else ""


def library_functions_with_xla(concrete: Any) -> int:
    """How many functions inside a traced function are compiled by XLA whatever its own mode is."""
    library = concrete.graph.as_graph_def().library.function
    return sum(function.attr["_XlaMustCompile"].b for function in library if "_XlaMustCompile" in function.attr)


def _build(spec: ModelSpec, *, policy: str, seed: int) -> BuiltModel:
    library = _library(spec.library)
    constructor = getattr(library.applications, spec.constructor, None)
    if constructor is None or not callable(constructor):
        raise ConfigError(f"{spec.library}.applications has no '{spec.constructor}' in the installed version")
    library.utils.set_random_seed(seed)
    shape = (spec.resolution_px, spec.resolution_px, CHANNELS)
    arguments: dict[str, Any] = {"weights": None, "input_shape": shape, "classifier_activation": None, **spec.arguments}
    if spec.weights == "imagenet":
        arguments["weights"] = "imagenet"
    with _dtype_policy(library, policy), _download_errors(spec):
        model = constructor(**arguments)
    if spec.weights not in ("random", "imagenet"):
        model.load_weights(spec.weights)
    keep = policy == "float64"

    def call(images: Any) -> Any:
        logits = model(images, training=False)
        return logits if keep or logits.dtype == tf.float32 else tf.cast(logits, tf.float32)

    trainable = _elements(model.trainable_variables)
    return BuiltModel(
        model=model, library=spec.library, call=call, input_shape=shape, trainable_params=trainable,
        params=trainable + _elements(model.non_trainable_variables),
    )  # fmt: skip


def _library(name: str) -> Any:
    if name == "tf_keras":
        import tf_keras  # only the families that Keras 3 dropped pay for its import

        return tf_keras
    return keras


@contextmanager
def _dtype_policy(library: Any, policy: str) -> Iterator[None]:
    """The library's global dtype policy, put back afterwards. Float64 needs the default float type as well."""
    getter = library.mixed_precision.dtype_policy if library is keras else library.mixed_precision.global_policy
    setter = library.mixed_precision.set_dtype_policy if library is keras else library.mixed_precision.set_global_policy
    earlier, floatx = getter(), library.backend.floatx()
    try:
        if policy == "float64":
            library.backend.set_floatx("float64")
        setter(policy)
        yield
    finally:
        library.backend.set_floatx(floatx)
        setter(earlier)


@contextmanager
def _download_errors(spec: ModelSpec) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if spec.weights == "imagenet" and ("URL fetch" in str(error) or isinstance(error, OSError)):
            raise XlaSweepsError(
                f"weights=imagenet: {spec.name}'s weights could not be downloaded; check the network, or use "
                "weights=random (speed does not depend on the values)"
            ) from error
        raise


def _all_layers(model: Any) -> list[Any]:
    """Every layer, nested models' included."""
    layers = []
    for layer in getattr(model, "layers", []):
        layers.append(layer)
        layers += _all_layers(layer)
    return layers


def _elements(variables: Any) -> int:
    """Elements of the model's variables; the state of random generators is no parameter."""
    return sum(
        math.prod(variable.shape) for variable in variables if "seed_generator" not in getattr(variable, "path", "")
    )
