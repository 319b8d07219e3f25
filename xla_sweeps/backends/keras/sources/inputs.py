"""Read the inputs that a model declares, draw values for them, and nest them as it takes them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from xla_sweeps.config.own_files import IMAGE_SIZES, as_input_spec
from xla_sweeps.config.own_inputs import TEXT
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.trial import InputSpec, Precision
from xla_sweeps.worker.agreement import NUDGE

_CHOSEN = 1_000_003
"""Values of an input of which one or the other is chosen by chance; no usual size divides it."""

_MADE_UP = re.compile(r"((inputs?|input_layer|keras_tensor|args)(_\d+)*)?")
"""Names that a library gives an input which has none."""


def from_specs(
    specs: Mapping[str, Any], *, resolution: int | None, where: str, free: int | None = None
) -> tuple[InputSpec, ...]:
    """Inputs from declared shapes, batch first; a free height and width become the resolution.

    Any other free size becomes `free`; `ConfigError` where that is not given.
    """
    names = list(specs) if len(specs) > 1 else [""]
    whole = [
        as_input_spec(name, _sizes(spec) or [224, 224, 3], _dtype(spec))
        for name, spec in zip(names, specs.values(), strict=True)
    ]
    fix = f"give every input, with your sizes: 'input_spec=[{','.join(whole)}]'"
    return tuple(
        _from_spec(name, spec, resolution, free, where=f"{where}: the input {shown}", fix=fix)
        for name, (shown, spec) in zip(names, specs.items(), strict=True)
    )


def _from_spec(
    name: str, spec: Any, resolution: int | None, free: int | None, *, where: str, fix: str
) -> InputSpec:
    sizes = _sizes(spec)
    if _dtype(spec) == "string":
        raise ConfigError(f"{where} is {TEXT}")
    type_name = type(getattr(spec, "type_spec", spec)).__name__.lower()  # tells it in tf_keras
    for kind in ("sparse", "ragged"):
        if getattr(spec, kind, False) or kind in type_name:
            raise ConfigError(f"{where} is {kind}; to measure dense values in its place, {fix}")
    if sizes is None:
        raise ConfigError(f"{where} has no known shape; {fix}")
    is_image = len(sizes) == IMAGE_SIZES
    if is_image and resolution is not None:
        if any(size not in (None, resolution) for size in sizes[:2]):
            raise ConfigError(
                f"{where} is fixed at {sizes[0]} x {sizes[1]} px; omit resolution={resolution}"
            )
        sizes[:2] = resolution, resolution
    sizes = [free if size is None else size for size in sizes]
    if None in sizes:
        shown = ", ".join("free" if size is None else str(size) for size in sizes)
        fix = f"give resolution=224, or {fix}" if is_image else fix
        raise ConfigError(f"{where} ({shown}) has free sizes; {fix}")
    dtype = _dtype(spec)
    high = 2.0 if dtype in ("bool", "int8") else 255.0
    return InputSpec(shape=tuple(sizes), dtype=dtype, high=high, name=name)


def _sizes(spec: Any) -> list[Any] | None:
    """Sizes without the batch, None for a free one; None if there is no known shape."""
    shape = spec.shape
    if shape is None or getattr(shape, "rank", 1) is None:
        return None
    return list(shape)[1:] if len(shape) else None


def _dtype(spec: Any) -> str:
    """The name of a dtype, which Keras writes as a text and an engine as an object."""
    return str(getattr(spec.dtype, "name", spec.dtype))


def bind(batch: Any, structure: Any, places: Sequence[int] = ()) -> Any:
    """A batch nested like `structure`, its tensors in the order of `places` or as they are."""
    tensors = keras.tree.flatten(batch)
    tensors = [tensors[place] for place in places] or tensors
    if not keras.tree.is_nested(structure):
        return tensors[0]
    return keras.tree.pack_sequence_as(structure, tensors)


def name_leaves(leaves: Iterable[tuple[Sequence[Any], Any]]) -> dict[str, Any]:
    """Declared inputs, each given after its path in a structure, by their keys or else names."""
    every = list(leaves)
    names = [path[-1] if path and isinstance(path[-1], str) else leaf.name for path, leaf in every]
    if not all(names) or len(set(names)) < len(names):
        names = [f"input_{place}" for place in range(len(names))]
    return dict(zip(names, (leaf for _, leaf in every), strict=True))


def place_inputs(inputs: Sequence[InputSpec], declared: Sequence[str], where: str) -> list[int]:
    """Places of the declared inputs in a batch: by name, and in turn where either has no names.

    A made-up name binds nothing, as another build of the model has another one.

    Raises:
        ConfigError: a batch has more or fewer, or a name that is not declared.
    """
    given = [one.name for one in inputs]
    if len(given) != len(declared):
        raise ConfigError(
            f"{where}: takes {len(declared)} inputs, {', '.join(declared)}; input_spec or inputs "
            f"has {len(given)}"
        )
    shared = {name for name in given if name in declared and not _MADE_UP.fullmatch(name)}
    turn = [place for place, name in enumerate(given) if name not in shared]
    left = [given[place] for place in turn], [name for name in declared if name not in shared]
    has_names = [not all(map(_MADE_UP.fullmatch, names)) for names in left]
    if len(given) > 1 and all(has_names):
        other = next(name for name in left[0] if not _MADE_UP.fullmatch(name))
        raise unknown_name(f"input of {where}", other, declared)
    return [given.index(name) if name in shared else turn.pop(0) for name in declared]


def draw_samples(given: InputSpec, count: int, rng: np.random.Generator) -> np.ndarray:
    """Samples of an input, `count` of them, in float32 or int64."""
    shape = (count, *given.shape)
    if "float" in given.dtype:
        return rng.uniform(given.low, given.high, shape).astype(np.float32)
    return rng.integers(math.floor(given.low), math.ceil(given.high), shape)


def draw(inputs: Sequence[InputSpec], count: int, rng: np.random.Generator) -> Any:
    """A batch of `count` random samples: a tensor, or a tuple if the model has several inputs."""
    return as_batch([draw_samples(given, count, rng) for given in inputs], inputs)


def as_batch(values: Sequence[np.ndarray], inputs: Sequence[InputSpec]) -> Any:
    """The values of each input as a batch of tensors, in the types of the inputs."""
    tensors = tuple(
        keras.ops.cast(keras.ops.convert_to_tensor(array), given.dtype)
        for array, given in zip(values, inputs, strict=True)
    )
    return tensors[0] if len(tensors) == 1 else tensors


def mix_inputs(
    inputs: Sequence[Any], *, select: Callable[[np.ndarray, Any, Any], Any]
) -> list[Any]:
    """New inputs, each with values of one batch and of the one after it, chosen by chance.

    In a large one the choice repeats itself: to choose again takes longer than all the rest.
    `select` takes values of one tensor where the choice is true, else of the other.
    """
    rng = np.random.default_rng()

    def choose(one: Any, other: Any) -> Any:
        shape = tuple(one.shape)
        chosen = np.resize(rng.random(min(math.prod(shape), _CHOSEN)) < 0.5, shape)
        in_numpy = isinstance(one, np.ndarray)
        return np.where(chosen, one, other) if in_numpy else select(chosen, one, other)

    pairs = zip(inputs, [*inputs[1:], inputs[0]], strict=True)
    return [keras.tree.map_structure(choose, *pair) for pair in pairs]


def is_floating(tensor: Any) -> bool:
    """True if a tensor or variable has a floating dtype."""
    return "float" in keras.backend.standardize_dtype(tensor.dtype)


def widen(tensor: Any) -> Any:
    """The same on the present device, in float64 where it is floating."""
    values = keras.ops.convert_to_numpy(tensor)
    return keras.ops.convert_to_tensor(values.astype(np.float64) if is_floating(tensor) else values)


def nudge_batch(batch: Any, precision: Precision, rng: np.random.Generator) -> Any:
    """A batch of which each number is changed, up or down, by about as little as rounding does."""

    def move(tensor: Any) -> Any:
        if not is_floating(tensor):
            return tensor
        signs = rng.choice((-1.0, 1.0), tuple(tensor.shape)) * NUDGE[precision]
        return tensor * keras.ops.cast(1 + signs, keras.backend.standardize_dtype(tensor.dtype))

    return keras.tree.map_structure(move, batch)
