"""Inputs of the user's own model: as `input_spec` or a batch has them."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from xla_sweeps.config import values
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.trial import InputSpec

DTYPES = (
    *("float32", "float16", "bfloat16", "float64", "bool"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)

TEXT = (
    "text, which XLA does not take; measure what follows TextVectorization or StringLookup: "
    "keras.Model(that layer's output, model.output)"
)

LARGEST_STATE = 2**20
"""Elements of a variable from which on it is taken for weights that no call changes."""

LARGEST = 1e30
"""The largest number that inputs are drawn from, either sign: float32 goes up to 3e38."""

_UNNAMED = "arr_"
"""Beginning of the names that NumPy gives arrays that are saved without one."""


def as_numpy(part: Any) -> Any:
    """An array; of a tensor of PyTorch without its history and device."""
    import numpy as np

    return np.asarray(part.detach().cpu() if hasattr(part, "detach") else part)


def flat(outputs: Any) -> list[Any]:
    """Outputs in one order, whatever their nesting; those of a dict by key."""
    if isinstance(outputs, Mapping):
        return [each for key in sorted(outputs) for each in flat(outputs[key])]
    if isinstance(outputs, (list, tuple)):
        return [each for part in outputs for each in flat(part)]
    return [] if outputs is None else [outputs]


def compute_seeded(
    torch: Any, module: Any, positional: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """Call a PyTorch module on a CPU, with random numbers that are the same in each process.

    What is drawn later does not depend on it.
    """
    with torch.no_grad(), torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(0)
        return flat(module(*positional, **named))


States = Sequence[tuple[Any, Any]]
"""Variables, each with a copy of its value."""


def states_of(model: Any, variables: Iterable[Any] = (), *, limit: float = LARGEST_STATE) -> States:
    """Variables that a call may change: those that are not trained, and the seeds.

    Args:
        model: of Keras 3 or tf_keras, with variables that Keras does not list, which a layer holds;
            None for another, whose variables are given.
        variables: of a model without layers.
        limit: elements from which on a variable is left out.
    """
    listed = list(variables if model is None else model.variables)
    states = [one for one in listed if not one.trainable]
    states += [] if model is None else find_held_variables(model)
    return [(one, as_numpy(one).copy()) for one in states if _count_elements(one) < limit]


def find_held_variables(model: Any) -> list[Any]:
    """Variables that layers of a model hold, alone or in a list, and that Keras does not list."""
    listed = [each for one in model.variables for each in (one, getattr(one, "value", None))]
    places, held = set(map(id, listed)), list[Any]()
    for layer in model._flatten_layers():
        for value in vars(layer).values():
            held += value if isinstance(value, list | tuple) else [value]
    kept = {id(one): one for one in held if hasattr(one, "assign") and hasattr(one, "trainable")}
    return [one for place, one in kept.items() if place not in places]


def _count_elements(variable: Any) -> int:
    """Number of elements; of a variable without a fixed shape that of its value."""
    try:
        return math.prod(variable.shape)
    except (TypeError, ValueError):
        return int(as_numpy(variable).size)


def changed_of(states: States) -> States:
    """Variables among these that have another value now."""
    return [one for one in states if as_numpy(one[0]).tobytes() != one[1].tobytes()]


@contextlib.contextmanager
def kept_state(model: Any) -> Iterator[None]:
    """Put back what calls in a `with` block change: counters and other states of the model."""
    before = states_of(model, limit=math.inf)
    try:
        yield
    finally:
        for variable, value in changed_of(before):
            variable.assign(value)


def is_seed(variable: Any) -> bool:
    """True for the state of a generator of random numbers of Keras 3."""
    return str(getattr(variable, "path", "")).endswith("seed_generator_state")


@dataclass(frozen=True)
class OwnArray:
    """The values of one input for a batch, and its name where it has one."""

    values: Any
    name: str

    @classmethod
    def of(cls, part: Any, name: str, *, where: str) -> OwnArray:
        """An array of numbers with the batch as first dimension; `ConfigError` for any other."""
        import numpy as np

        given = as_numpy(part)
        if given.dtype == np.float64 and not hasattr(part, "dtype"):
            with np.errstate(over="ignore"):
                given = given.astype(np.float32)
        if isinstance(given.flat[0] if given.size else None, (str, bytes)):
            raise ConfigError(f"{where}: {TEXT}")
        if given.dtype.kind not in "fiub" or not given.size or not given.ndim:
            raise ConfigError(
                f"{where}: expected numbers with the batch as first dimension, not "
                f"{given.dtype} of shape {given.shape}"
            )
        if str(given.dtype) not in DTYPES:
            raise unknown_name(f"dtype in {where}", str(given.dtype), DTYPES, listed=len(DTYPES))
        return cls(given, name)

    @property
    def spec(self) -> dict[str, Any]:
        """Shape without the batch, dtype and range: of the finite values, since they are drawn."""
        import numpy as np

        finite = self.values[np.isfinite(self.values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        if self.values.dtype.kind in "iub":  # drawn below `high`
            high += 1
        else:  # another batch of the same data asks for the same trial
            most = min(LARGEST, float(np.finfo(self.values.dtype).max))
            low, high = -_round_up(-low, most), _round_up(high, most)
        high = high if high > low else low + 1
        shape, dtype = list(self.values.shape[1:]), str(self.values.dtype)
        spec = {"shape": shape, "dtype": dtype, "low": low, "high": high}
        return spec | ({"name": self.name} if self.name else {})


def size_of(arrays: Iterable[OwnArray], asked: int | None = None) -> int:
    """The batch size of arrays, and of `batch_size` where it is asked for."""
    sizes = {len(array.values) for array in arrays} | ({asked} if asked else set())
    if len(sizes) > 1:
        raise ConfigError(f"inputs: different batch sizes: {', '.join(map(str, sorted(sizes)))}")
    return sizes.pop()


def arrays_in(path: str) -> list[OwnArray]:
    """The arrays of a .npy or .npz file, by name where they have one; nothing in it is run.

    Raises:
        ConfigError: it is no such file, or holds something else than numbers.
    """
    import numpy as np

    where, place = f"inputs={path}", Path(path).expanduser()
    try:
        with contextlib.ExitStack() as stack:
            content = np.load(place, allow_pickle=False)
            is_one = isinstance(content, np.ndarray)
            named = {"": content} if is_one else dict(stack.enter_context(content))
    except FileNotFoundError as error:
        raise ConfigError(f"{where}: no such file") from error
    except PermissionError as error:
        raise ConfigError(f"{where}: {error.strerror}") from error
    except Exception as error:  # NumPy raises many kinds for what is no such file
        saved = "as numpy.save or numpy.savez write it"
        raise ConfigError(f"{where}: expected a .npy or .npz file of numbers, {saved}") from error
    if not named:
        raise ConfigError(f"{where}: holds no array")
    is_unnamed = all(name.startswith(_UNNAMED) for name in named)
    return [
        OwnArray.of(array, "" if is_unnamed else name, where=where) for name, array in named.items()
    ]


def takes_by_name(call: Callable[..., Any], names: Collection[str]) -> bool:
    """True if inputs are arguments of a call by their names, not in one dictionary."""
    return any(names) and set(names) <= set(inspect.signature(call).parameters)


def call_by_name(model: Any, names: Collection[str]) -> Callable[..., Any]:
    """The model, or a function where several inputs of these names are arguments of its call.

    Keras wants the first of them by its place.
    """
    if len(names) < 2 or not takes_by_name(model.call, names):
        return model  # type: ignore[no-any-return]
    order = list(inspect.signature(model.call).parameters)

    def call(given: Mapping[str, Any], **more: Any) -> Any:
        first, *others = sorted(given, key=order.index)
        return model(given[first], **{name: given[name] for name in others}, **more)

    return call


def takes_alone(model: Any, given: Mapping[str, Any]) -> bool:
    """True for a model of Keras whose call takes its only named input as that argument.

    The argument of that name may be the dictionary, so it is called on one, then on the other.
    """
    if len(given) != 1 or not takes_by_name(model.call, given):
        return False
    is_built = getattr(model, "built", False)  # others have no variables yet
    with kept_state(model) if is_built else contextlib.nullcontext():
        return _can_call(model, *given.values()) or not _can_call(model, dict(given))


def _can_call(model: Any, inputs: Any) -> bool:
    """True if a call succeeds; after another, tf_keras forgets the shape that it had for inputs."""
    is_old = hasattr(model, "_build_input_shape")
    before = (model.built, model._build_input_shape) if is_old else (False, None)
    try:
        model(inputs, training=False)
    except Exception:  # of any kind: the user's own code raises it
        if is_old:
            model.built, model._build_input_shape = before
        return False
    return True


def takes_dictionary(call: Callable[..., Any], names: Collection[str]) -> bool:
    """True for a callable of one argument, whose name is none of these: all in one dictionary."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):
        return False
    by_name = _binds(signature, **dict.fromkeys(names))
    return not by_name and _binds(signature, None) and not _binds(signature, None, None)


def _binds(signature: inspect.Signature, *positional: Any, **named: Any) -> bool:
    try:
        signature.bind(*positional, **named)
    except TypeError:
        return False
    return True


def needs_inputs(code: Callable[..., Any]) -> bool:
    """True for a function or an object that is the model's own call, and builds none.

    One that builds it takes nothing that has no default, but `resolution`; of an object, a call
    with `*args` builds none either.
    """
    if inspect.isclass(code):
        return False
    code = getattr(code, "python_function", code)
    try:
        taken = list(inspect.signature(code).parameters.values())
    except (TypeError, ValueError):
        return False
    unfit: set[Any] = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
    if inspect.isroutine(code) or isinstance(code, partial):
        unfit.add(inspect.Parameter.VAR_POSITIONAL)
    needed = [one for one in taken if one.default is one.empty and one.kind not in unfit]
    return any(one.name != "resolution" for one in needed)


def apply(document: Mapping[str, Any], explicit: Collection[str]) -> Mapping[str, Any]:
    """A configuration with the batch size of `inputs`, and their specification unless one is given.

    Raises:
        ConfigError: they do not fit what is given.
    """
    path = values.optional(values.text, document, "inputs")
    if not path:
        return document
    arrays = arrays_in(path)
    asked = values.integer(document, "batch_size", at_least=1) if "batch_size" in explicit else None
    specs = document["input_spec"] or [array.spec for array in arrays]
    _values_for(read_specs(specs), arrays, path)
    return {**document, "input_spec": specs, "batch_size": size_of(arrays, asked)}


def values_of(path: str, inputs: Sequence[InputSpec]) -> list[Any]:
    """The values that a file has for each input, by name where both have one.

    Raises:
        ConfigError: it cannot be read, or holds more or fewer, or other shapes.
    """
    return _values_for(inputs, arrays_in(path), path)


def _values_for(inputs: Sequence[InputSpec], arrays: Sequence[OwnArray], path: str) -> list[Any]:
    by_name = {array.name: array for array in arrays if array.name}
    pairs = zip(inputs, arrays, strict=False)
    chosen = [by_name.get(given.name, array).values for given, array in pairs]
    wanted = [given.shape for given in inputs]
    if [one.shape[1:] for one in chosen] != wanted or len(arrays) != len(inputs):
        has = ", ".join(str(list(array.values.shape[1:])) for array in arrays)
        needs = ", ".join(str(list(shape)) for shape in wanted)
        raise ConfigError(f"inputs={path}: samples of shape {has}; input_spec asks for {needs}")
    return chosen


def read_specs(given: Any) -> tuple[InputSpec, ...]:
    """The inputs that `input_spec` describes; `ConfigError` where it cannot be read."""
    if given is None:
        return ()
    entries = [given] if isinstance(given, Mapping) else given
    if not isinstance(entries, list) or not entries:
        why = "give one mapping for each input, as in input_spec=[{shape:[224,224,3]}]"
        raise ConfigError(f"input_spec={given}: {why}")
    inputs = tuple(_input(one, where=f"input_spec[{place}]") for place, one in enumerate(entries))
    names = [spec.name for spec in inputs]
    if len(inputs) > 1 and any(names) and (not all(names) or len(set(names)) < len(names)):
        raise ConfigError(f"input_spec: name every input, each differently, or none: {names}")
    return inputs


def _input(entry: Any, *, where: str) -> InputSpec:
    keys = ("shape", "dtype", "low", "high", "name")
    if not isinstance(entry, Mapping) or "shape" not in entry:
        example = "{shape:[224,224,3]}, or {shape:[3,224,224]} for PyTorch"
        raise ConfigError(f"{where}={entry}: give a shape without the batch, as in {example}")
    for key in entry:
        if key not in keys:
            raise unknown_name(f"key of {where}", str(key), keys)
    shape = entry["shape"]
    given = {"high": 2 if entry.get("dtype") == "bool" else 255, **entry}
    given["shape"] = shape if isinstance(shape, list) else [shape]
    made = values.convert(given, InputSpec, where=where)
    if any(size < 1 for size in made.shape):
        raise ConfigError(f"{where}.shape={shape}: expected integers of at least 1")
    if made.dtype not in DTYPES:
        raise unknown_name(f"dtype in {where}", made.dtype, DTYPES, listed=len(DTYPES))
    for key, value in (("low", made.low), ("high", made.high)):
        if not abs(value) <= LARGEST:
            raise ConfigError(f"{where}.{key}={value}: expected a number up to ±{LARGEST:g}")
    if not made.low < made.high:
        raise ConfigError(f"{where}: low={made.low:g} must be below high={made.high:g}")
    return made


def _round_up(bound: float, most: float) -> float:
    """Zero, 255, the power of two at or above, or the most that is allowed."""
    if bound <= 0 or bound >= most:
        return most if bound > 0 else 0.0
    return 255.0 if 128 < bound <= 255 else min(most, 2.0 ** math.ceil(math.log2(bound)))
