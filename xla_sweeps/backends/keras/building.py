"""Build a trial's Keras model, and give it meaningful activations."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from typing import Any
from unittest import mock

import keras
import numpy as np

from xla_sweeps.backends.keras import sources
from xla_sweeps.backends.keras.initial import drawn_by_numpy
from xla_sweeps.backends.keras.sources import LoadedModel, Wrap, applications, local
from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.trial import InputSpec, ModelSpec, Precision

Step = Callable[[LoadedModel, ModelSpec], Callable[[Any], Any]]
"""Makes one call on a batch from a loaded model."""


def forward_of(loaded: LoadedModel, spec: ModelSpec) -> Callable[[Any], Any]:
    """A forward pass."""
    return loaded.forward


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltModel:
    """A model on its device.

    Attributes:
        call: one timed call on a batch as `inputs` describes it; floating outputs are float32.
        precision: that it computes in: the trial's, or one that its own code chose.
    """

    loaded: LoadedModel
    call: Callable[[Any], Any]
    precision: Precision = Precision.FLOAT32
    step: Step = forward_of

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        """The inputs of one sample."""
        return self.loaded.inputs

    @property
    def params(self) -> int:
        """Elements of all variables, including moving statistics."""
        return _elements(self.loaded.variables)

    @property
    def trainable_params(self) -> int:
        """Elements of the trainable variables."""
        return _elements(each for each in self.loaded.variables if each.trainable)


def build(
    spec: ModelSpec,
    *,
    precision: str,
    seed: int,
    step: Step = forward_of,
    batch_size: int = 1,
    narrowed: Callable[[Any], Any] = lambda outputs: outputs,
    first: Wrap = lambda call: call,
) -> BuiltModel:
    """Build a model.

    A user's own is built as his program builds it: with Keras's initializers, and first called on a
    batch of the size that is measured, in what `first` makes of the call. What is traced in it may
    hold both for good.

    Raises:
        ConfigError: the constructor does not exist, or the model does not support the scenario.
        XlaSweepsError: the model or its pretrained weights cannot be loaded.
    """
    library = applications.library_of(spec)
    library.utils.set_random_seed(seed)
    drawn = nullcontext() if spec.library == sources.OWN else drawn_by_numpy()
    if spec.library != sources.OWN:  # whatever ~/.keras/keras.json says
        library.backend.set_floatx("float32")
        library.backend.set_image_data_format("channels_last")
    with _dtype_policy(library, str(precision)), drawn:  # Keras refuses an enum
        loaded = sources.load(spec, batch_size=batch_size, first=first)
    return BuiltModel(
        loaded=loaded,
        call=call_of(step(loaded, spec), narrowed),
        precision=computed_in(loaded, precision),
        step=step,
    )


_HALF = {"bfloat16": Precision.MIXED_BFLOAT16, "float16": Precision.MIXED_FLOAT16}


def computed_in(loaded: LoadedModel, asked: str) -> Precision:
    """The precision that a model computes in: half where it is asked for, or its code sets it.

    Its code may be a policy in a function or a file, or `module.half()`.

    Raises:
        ConfigError: half is asked for, and the layers of a Keras model have other types, as those
            of a file have.
    """
    types = float_types(loaded)
    if asked in set(_HALF.values()):
        if not types or asked in {_HALF.get(name) for name in types}:  # none: nothing is known
            return Precision(asked)
        raise ConfigError(
            f"precision={asked}: no layer of the model computes in it, since its code or file sets "
            "the types; leave precision out, or give a function that builds a Keras model and sets "
            "none"
        )
    types |= {keras.backend.standardize_dtype(each.dtype) for each in loaded.variables}
    return next((_HALF[name] for name in _HALF if name in types), Precision.FLOAT32)


_WITHOUT_TYPE = {"InputLayer", "Functional", "Sequential"}
"""Classes of layers that compute nothing themselves."""


def float_types(loaded: LoadedModel) -> set[str]:
    """The floating types that the layers of a Keras model compute in.

    Some compute nothing, and have the policy that was in force when the model was loaded.
    """
    layers = all_layers(loaded.keras_model) or [loaded.keras_model]
    kinds = [{base.__name__ for base in type(each).__mro__} for each in layers]
    types = {
        str(getattr(each, "compute_dtype", ""))
        for each, names in zip(layers, kinds, strict=True)
        if not names & _WITHOUT_TYPE
    }
    return {name for name in types if "float" in name}


def call_of(
    forward: Callable[[Any], Any], narrowed: Callable[[Any], Any] = lambda outputs: outputs
) -> Callable[[Any], Any]:
    """One timed call: what `forward` returns, as `BuiltModel` says."""

    def call(batch: Any) -> Any:
        return narrowed(_present(forward(batch)))

    return call


def _present(outputs: Any) -> Any:
    """Outputs without those that are None, such as the attention that a model gives on request.

    Numbers and text of Python beside tensors are left out too, such as a length, but not in
    PyTorch, whose compiled calls may compute them. Dictionaries and data classes of the model's own
    become dictionaries, as Hugging Face's outputs.
    `XlaSweepsError` if none is left.
    """
    heads = keras.tree.flatten(outputs)
    if any(isinstance(head, Mapping) or is_dataclass(head) for head in heads):
        outputs = keras.tree.map_structure(_as_dictionary, outputs)
        heads = keras.tree.flatten(outputs)
    present = [output for output in heads if output is not None]
    if not present:
        raise XlaSweepsError("the model returns None; there is no output to compare")
    plain = () if keras.backend.backend() == "torch" else _PLAIN
    tensors = [output for output in present if not isinstance(output, plain)] or present
    return outputs if len(tensors) == len(heads) else tensors


_PLAIN = (int, float, complex, str, bytes, np.generic)


def _as_dictionary(output: Any) -> Any:
    """The content of such an output; any other one as it is."""
    if isinstance(output, Mapping):
        held = dict(output)
    elif is_dataclass(output) and not isinstance(output, type):
        held = {field.name: getattr(output, field.name) for field in fields(output)}
    else:
        return output
    return keras.tree.map_structure(_as_dictionary, held)


_VALUES = 192
"""Values of each channel from which statistics are taken, as of four images of 7 x 7 positions.

From 36 of them, four images of 96 pixels in EfficientNetB5, come variances so small that the model
multiplies rounding by 1e5 on other images; from 216 it does not.
"""

_LARGEST = 2**25
"""Values of the largest normalized batch (128 MiB in float32), unless the first batch has more."""


def calibrate(
    built: BuiltModel,
    count: int,
    rng: np.random.Generator,
    *,
    call: Callable[[LoadedModel, Any], object] = lambda loaded, batch: loaded.forward(batch),
) -> None:
    """Give an untrained Keras model activations of order 1, so that its outputs can be compared.

    Untrained models give logits from 1e-10 to 3e3, or exactly 0 if a library initializes heads with
    zeros. Matrices of zeros are drawn again, and batch-normalization statistics are set from one
    batch, those of frozen layers too. Speed depends on neither. The batch has `count` samples, or
    more where a layer sees few values of each.
    """
    model = built.loaded.keras_model
    if model is None:
        return
    _fill_zero_matrices(built.loaded)
    layers = [
        layer
        for layer in all_layers(model)
        if type(layer).__name__ == "BatchNormalization" and layer.built
    ]
    if not layers:
        return
    first = draw(built.inputs, count, rng)
    with _taking_statistics(layers) as seen:
        call(built.loaded, first)
        if (times := _times_more(seen)) > 1:
            try:
                call(built.loaded, draw(built.inputs, count * times, rng))
            except Exception:  # it takes no other batch size, or memory is short
                call(built.loaded, first)
    for layer in layers:
        # 1 / sqrt(epsilon) would blow up a channel that is constant over the batch.
        variance = np.asarray(layer.moving_variance, dtype=np.float64)
        layer.moving_variance.assign(
            np.maximum(variance, 1e-2 * max(variance.mean(), 1e-12)).astype(np.float32)
        )


def _times_more(seen: Sequence[tuple[int, int]]) -> int:
    """Times the batch for statistics of enough values, from what each layer saw of this one."""
    fewest = min((values // channels for values, channels in seen), default=_VALUES)
    largest = max((values for values, _ in seen), default=0)
    return min(math.ceil(_VALUES / max(fewest, 1)), _LARGEST // max(largest, 1))


@contextmanager
def _taking_statistics(layers: Sequence[Any]) -> Iterator[list[tuple[int, int]]]:
    """Let batch normalization keep the statistics of its batch, whatever it is told.

    Yields the values and the channels of each batch that was normalized, filled as it is called.
    """
    seen = list[tuple[int, int]]()

    def taking(usual: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(usual)
        def call(layer: Any, inputs: Any, training: Any = None, **named: Any) -> Any:
            if None not in inputs.shape:
                seen.append((math.prod(inputs.shape), math.prod(layer.moving_variance.shape)))
            return usual(layer, inputs, training=True, **named)

        return call

    settings = [(layer, layer.momentum, layer.trainable) for layer in layers]
    try:
        with ExitStack() as stack:
            for kind in {type(layer) for layer in layers}:
                stack.enter_context(mock.patch.object(kind, "call", taking(kind.call)))
            for layer in layers:
                layer.momentum, layer.trainable = 0.0, True
            yield seen
    finally:
        for layer, momentum, trainable in settings:
            layer.momentum, layer.trainable = momentum, trainable


def all_layers(model: Any) -> list[Any]:
    """All layers of a Keras model, including layers of layers, which `model.layers` leaves out.

    None has none. Uses a private method, tried on Keras 3.15.1 and tf_keras 2.21.0.
    """
    return [] if model is None else list(model._flatten_layers(include_self=False, recursive=True))


def title(layer: Any) -> str:
    """A layer as `name (Class)`."""
    return f"{layer.name} ({type(layer).__name__})"


def layers_without_xla(layers: Sequence[Any]) -> list[str]:
    """The titles of layers for which Keras does not use XLA."""
    return [title(layer) for layer in layers if not getattr(layer, "supports_jit", True)]


def keras_library_of(model: Any) -> Any:
    """Keras 3, or tf_keras if the model is one of its."""
    legacy = any(base.__module__.startswith("tf_keras.") for base in type(model).__mro__)
    return applications.library_named("tf_keras" if legacy else "keras")


def wrap_model(
    model: Any, call: Callable[[Any], Any], *, train_step: Callable[[Any], Any] | None = None
) -> Any:
    """A model with the layers of another, so that what it compiles is its own.

    It is trained by `train_step` where one is given.
    """
    library = keras_library_of(model)

    class Wrapper(library.Model):  # type: ignore[misc, name-defined]
        """Call the model; Keras finds its layers below it."""

        def __init__(self) -> None:
            super().__init__()
            self.wrapped = model

        def call(self, batch: Any) -> Any:
            return call(batch)

        def get_metrics_result(self) -> Any:
            # An own step's logs, not a loss of Keras's that it does not update.
            return {} if train_step else super().get_metrics_result()

        def train_step(self, data: Any) -> Any:
            if train_step is None:
                return super().train_step(data)
            utils = library.utils  # train_on_batch adds a None for each part that is not given
            return train_step(utils.pack_x_y_sample_weight(*utils.unpack_x_y_sample_weight(data)))

    return Wrapper()


def float64_twin(spec: ModelSpec, built: BuiltModel, precision: str = "float64") -> BuiltModel:
    """The same model with the same weights and the same call in float64, or in float32.

    It is built again, or where its types are fixed, as in a file, has the same layers.

    Raises:
        XlaSweepsError: the model's types cannot be changed.
    """
    if built.loaded.module is not None:
        module = copy.deepcopy(built.loaded.module)
        module = module.cpu().double() if precision == "float64" else module.float()
        call = call_of(local.caller(module, built.inputs))
        return replace(built, call=call, precision=Precision.FLOAT32)
    if built.loaded.keras_model is None:
        raise XlaSweepsError(f"the model's dtypes are fixed, so it cannot be built in {precision}")
    if not built.loaded.rebuildable:
        return _in_other_types(spec, built, precision)
    again = replace(spec, weights="own" if spec.weights == "own" else "random")
    twin = build(again, precision=precision, seed=0, step=built.step)
    is_own = spec.library == sources.OWN
    if is_own and float_types(twin.loaded) - {precision}:  # set by its code
        return _in_other_types(spec, built, precision)
    twin.loaded.keras_model.set_weights(
        [np.asarray(weight, dtype=precision) for weight in built.loaded.keras_model.get_weights()]
    )
    return twin


def _in_other_types(spec: ModelSpec, built: BuiltModel, precision: str) -> BuiltModel:
    """The model itself, whose layers compute in another type within each call.

    Uses private attributes of Keras 3, tried on 3.15.1: a layer casts its variables, as with mixed
    precision, where it computes in another type than they are said to have.
    """
    model, usual = built.loaded.keras_model, built.loaded.forward
    usual = getattr(usual, "of_usual_types", usual)
    layers = [model, *all_layers(model)]
    given = [getattr(layer, "dtype_policy", None) for layer in layers]
    if any(getattr(policy, "quantization_mode", True) for policy in given):  # True: of tf_keras
        raise XlaSweepsError(f"the model's dtypes are fixed, so it cannot be built in {precision}")
    other = keras.DTypePolicy("mixed_bfloat16")
    other._compute_dtype, other._variable_dtype = precision, "bfloat16"

    def forward(batch: Any, **more: Any) -> Any:
        try:
            for layer in layers:
                layer.dtype_policy = other
            return usual(batch, **more)
        finally:
            for layer, policy in zip(layers, given, strict=True):
                layer.dtype_policy = policy

    vars(forward)["of_usual_types"] = usual  # for a twin of the twin
    loaded = replace(built.loaded, forward=forward)
    call = call_of(built.step(loaded, spec))
    return replace(built, loaded=loaded, call=call, precision=Precision.FLOAT32)


def _fill_zero_matrices(loaded: LoadedModel) -> None:
    """Draw matrices of zeros again, uniformly as Glorot and Bengio do."""
    for variable in loaded.variables:
        shape = tuple(variable.shape)
        if len(shape) < 2 or not variable.trainable or np.asarray(variable).any():
            continue
        limit = math.sqrt(6 / (math.prod(shape[:-1]) + shape[-1]))
        rng = np.random.default_rng((len(shape), shape[-1]))
        variable.assign(rng.uniform(-limit, limit, shape).astype(np.float32))


@contextmanager
def _dtype_policy(library: Any, policy: str) -> Iterator[None]:
    """Set the library's global dtype policy for a `with` block, for float64 also its float type."""
    policies = library.mixed_precision
    earlier, floatx = policies.global_policy(), library.backend.floatx()
    try:
        if policy == "float64":
            library.backend.set_floatx("float64")
        policies.set_global_policy(policy)
        yield
    finally:
        library.backend.set_floatx(floatx)
        policies.set_global_policy(earlier)


def _elements(variables: Any) -> int:
    """Elements of the model's variables, without the state of random generators."""
    return sum(
        math.prod(variable.shape)
        for variable in variables
        if "seed_generator" not in getattr(variable, "path", "")
    )
