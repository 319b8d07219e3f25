"""Load the user's own model: a Keras file, a SavedModel, or a function that builds a callable."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np

from xla_sweeps.backends.keras.sources import LoadedModel, Wrap
from xla_sweeps.backends.keras.sources.applications import library_named
from xla_sweeps.backends.keras.sources.inputs import (
    bind,
    draw,
    from_specs,
    name_leaves,
    place_inputs,
)
from xla_sweeps.backends.keras.sources.own_code import ENDS, describe_error, import_named
from xla_sweeps.config.own_files import as_input_spec
from xla_sweeps.config.own_inputs import (
    call_by_name,
    needs_inputs,
    takes_alone,
    takes_by_name,
    takes_dictionary,
)
from xla_sweeps.config.own_modules import (
    is_keras_model,
    is_module,
    require_inference,
    require_uncompiled,
)
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.trial import InputSpec, ModelSpec
from xla_sweeps.system.text import a_noun
from xla_sweeps.trial.failures import error_line, root_cause

_SAVED_MODEL = "xla_sweeps.backends.tensorflow.sources.saved_model"
"""Loads a SavedModel, which is TensorFlow's own."""

_MODULE = "xla_sweeps.backends.torch.module"
"""Knows the weights of a module, which is PyTorch's own."""


def load(spec: ModelSpec, *, batch_size: int, first: Wrap) -> LoadedModel:
    """Load or build the model; its weights stay as they are.

    Raises:
        ConfigError: it cannot be loaded or cannot be called.
    """
    path = spec.recipe["path"]
    if spec.recipe["kind"] == "saved_model":
        return cast(LoadedModel, importlib.import_module(_SAVED_MODEL).load(spec))
    if spec.recipe["kind"] == "keras":
        model = _load_keras(path, spec.recipe.get("import"))
        return _from_keras(model, spec, batch_size, first, rebuildable=False)
    built = _call_function(path, spec)
    if is_keras_model(built):
        return _from_keras(built, spec, batch_size, first, rebuildable=True)
    if isinstance(built, type):
        raise ConfigError(f"path={path} returned the class {built.__name__}; return an instance")
    if not callable(built):
        kind = a_noun(type(built).__name__)
        raise ConfigError(f"path={path} returned {kind}, which cannot be called on a batch")
    return _from_callable(built, spec, batch_size)


_MISSING_CLASS = re.compile(r"Could not locate (?:class|function) '(?P<name>[^']+)'")

_IMPORT = "if it has custom layers, give the module or file that has them: import=my_layers"

_BY_CODE = "measure it where its code is: path=net.py:build, or xs.measure(model, batch) in Python"


def _load_keras(path: str, module: str | None) -> Any:
    own = vars(import_named(module, f"import={module}")) if module else {}
    custom = {name: value for name, value in own.items() if callable(value) and name[0] != "_"}
    library = _library_of(path)
    how = {"safe_mode": False} if library is keras else {}
    try:
        return load_file(library, path, custom_objects=custom, **how)
    except MemoryError:
        raise
    except Exception as error:
        missing, cause = _MISSING_CLASS.search(str(error)), root_cause(error)
        reason, fix = error_line(error), _IMPORT
        if missing:
            reason = f"unknown layer '{missing['name']}'"
        elif isinstance(cause, NameError):  # of a Lambda, whose module is not in the file
            reason, fix = f"{cause}, in a Lambda layer of the file", _BY_CODE
        name = f"{'Keras' if library is keras else library.__name__} {library.__version__}"
        raise ConfigError(f"{reason}: path={path}: {name} cannot load it; {fix}") from error


def load_file(library: Any, path: str | Path, **how: Any) -> Any:
    """A model of a file, compiled as it was where what it was compiled with is known here."""
    try:
        return library.models.load_model(path, compile=True, **how)
    except Exception:  # a loss or metric of one's own, or a model that cannot be loaded at all
        return library.models.load_model(path, compile=False, **how)


def _library_of(path: str) -> Any:
    """The Keras that wrote a file: tf_keras for Keras 1 or 2, by the version in a file in HDF5.

    Raises:
        ConfigError: Keras 2 wrote it, and the engine is not TensorFlow.
    """
    if not path.endswith((".h5", ".hdf5")):
        return keras
    h5py = importlib.import_module("h5py")  # which both Keras need for such a file; no types
    with h5py.File(path) as file:
        version = str(file.attrs.get("keras_version", ""))
    if not version.startswith(("1.", "2.")):
        return keras
    if keras.backend.backend() != "tensorflow":
        raise ConfigError(
            f"path={path}: a file of Keras 2, which runs on TensorFlow only: backend=tensorflow"
        )
    return library_named("tf_keras")


def _find_function(path: str) -> Any:
    """Import the module and find what is named in it, or in a class of it."""
    module_name, _, function_name = path.rpartition(":")
    found = import_named(module_name, f"path={path}")
    for name in function_name.split("."):
        owner, found = found, getattr(found, name, None)
        if found is None:
            raise ConfigError(f"path={path}: {module_name} has no '{function_name}'")
        is_of_class = inspect.isclass(owner)
        needs_self = is_of_class and inspect.isfunction(inspect.getattr_static(owner, name, None))
        if needs_self or not (is_of_class or inspect.ismodule(owner)):
            raise ConfigError(
                f"path={path}: {name} is called on an instance; write a function that builds the "
                "model"
            )
    return found


def _call_function(path: str, spec: ModelSpec) -> Any:
    """Call the function, with the resolution if it takes one."""
    function = _find_function(path)
    if not _may_build(function) or needs_inputs(function):
        needed, inputs = _list_needed(function), len(spec.inputs) or 1
        if len(needed) > inputs:
            raise ConfigError(_tell_rule(f"path={path}", needed, inputs))
        return function
    takes_size = "resolution" in inspect.signature(function).parameters
    sized = {"resolution": spec.resolution_px} if takes_size and spec.resolution_px else {}
    try:
        return function(**sized)
    except MemoryError:
        raise
    except ENDS as error:
        raise ConfigError(f"path={path} failed: {describe_error(error)}") from error


def _may_build(function: Any) -> bool:
    """True for a function or class, also one that caches or has some arguments bound.

    One with `*args` after those is the model itself, as the `apply` of a module of Flax.
    """
    if isinstance(function, partial):
        if not _may_build(function.func):
            return False  # such as a builtin, which may have no signature
        kinds = [one.kind for one in inspect.signature(function).parameters.values()]
        return inspect.Parameter.VAR_POSITIONAL not in kinds
    code = inspect.unwrap(function) if hasattr(function, "cache_info") else function
    return inspect.isfunction(code) or inspect.ismethod(code) or inspect.isclass(code)


def _list_needed(function: Any) -> list[str]:
    """Required arguments of a function; none of any other callable."""
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        return []
    return [
        name
        for name, one in inspect.signature(function).parameters.items()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    ]


def _tell_rule(subject: str, needed: Sequence[str], inputs: int) -> str:
    """A sentence on the arguments of a function, and those that it may have."""
    return (
        f"{subject} takes {', '.join(needed)}; a function that builds a model takes nothing but "
        f"resolution, and one that is the model takes its inputs, {inputs} here"
    )


def _from_keras(
    model: Any, spec: ModelSpec, batch_size: int, first: Wrap, *, rebuildable: bool
) -> LoadedModel:
    declared = getattr(model, "inputs", None) or []
    structure = _nesting(model, declared)
    by_name = name_leaves(keras.tree.flatten_with_path(structure)) if declared else {}
    inputs = spec.inputs
    if not inputs and declared:
        free = spec.recipe.get("free_size")
        drawn = from_specs(by_name, resolution=spec.resolution_px, where=_where(spec), free=free)
        ranges = map(_index_ranges(model).get, map(id, by_name.values()))
        inputs = tuple(
            replace(given, low=bounds[0], high=bounds[1]) if bounds else given
            for given, bounds in zip(drawn, ranges, strict=True)
        )
    inputs = inputs or _one_image(spec, built_for=_built_inputs(model))
    call: Any = model
    if declared:
        places = place_inputs(inputs, list(by_name), _where(spec))
        pack: Callable[[Any], Any] = partial(bind, structure=structure, places=places)
    else:
        pack, call = _bind_undeclared(model, inputs, batch_size)
    batch = declared[0].shape[0] if declared else None
    make = partial(LoadedModel.of_keras, model, inputs, pack=pack, call=call)
    if _has_call(model) and not (getattr(model, "built", True) and declared):
        # A subclassed model creates its variables in its first call.
        forward = first(partial(make().forward, training=False))
        _refuse_callables(forward(_first_batch(inputs, batch or batch_size)), _where(spec))
    return make(rebuildable=rebuildable, batch=batch)


def _has_call(model: Any) -> bool:
    """True unless a model has a `train_step` alone, as of a GAN, and Keras's own empty `call`."""
    usual = [vars(base).get("call") for base in type(model).__mro__ if base.__name__ == "Model"]
    return type(model).call not in usual


def _bind_undeclared(
    model: Any, inputs: Sequence[InputSpec], batch_size: int
) -> tuple[Callable[..., Any], Any]:
    """Functions that nest a batch for a model which declares no inputs, and that call it.

    Inputs without names are given in turn, named ones as arguments or in one dictionary.
    """
    names = [given.name for given in inputs]
    is_one = len(names) == 1 and takes_by_name(model.call, names)
    if not all(names) or (
        is_one and takes_alone(model, {names[0]: _first_batch(inputs, batch_size)})
    ):
        return partial(bind, structure=inputs if len(inputs) > 1 else inputs[0]), model
    return (
        lambda batch: dict(zip(names, keras.tree.flatten(batch), strict=True)),
        call_by_name(model, names),
    )


def _index_ranges(model: Any) -> dict[int, tuple[int, int]]:
    """The values that layers which look them up take, by the id of a declared input they read."""
    ranges: dict[int, tuple[int, int]] = {}
    for layer in model.layers:
        words = []
        if type(layer).__name__ == "Embedding":
            words = [0, layer.input_dim - 1]
        elif type(layer).__name__ == "IntegerLookup":
            words = [int(word) for word in layer.get_vocabulary(include_special_tokens=False)]
        for node in layer._inbound_nodes if words else ():
            read = map(id, keras.tree.flatten(node.input_tensors))
            ranges |= dict.fromkeys(read, (min(words), max(words) + 1))
    return ranges


def _nesting(model: Any, declared: Sequence[Any]) -> Any:
    """The declared inputs, nested as the model takes them.

    Uses private attributes of Keras 3, tried on 3.15.1, and of tf_keras: `model.inputs` is flat.
    Without them, several inputs are passed by name.
    """
    for name in ("_inputs_struct", "_nested_inputs"):
        if (structure := getattr(model, name, None)) is not None:
            return structure
    return {given.name: given for given in declared} if len(declared) > 1 else [*declared, None][0]


def _from_callable(built: Callable[..., Any], spec: ModelSpec, batch_size: int) -> LoadedModel:
    require_uncompiled(built, _where(spec))
    own = _module_loader(built, _where(spec)) if is_module(built) else None
    needed = _list_needed(built)
    rule = f"; {_tell_rule(built.__name__, needed, len(spec.inputs) or 1)}" if needed else ""
    inputs = spec.inputs or _one_image(spec, rule, channels_first=bool(own))
    if own:
        own.place(built, _where(spec))
    forward = caller(built, inputs)
    # Variables that the first call creates must exist before anything is traced.
    with own.no_gradients() if own else nullcontext():
        batch = _first_batch(inputs, batch_size)
        _call_first(forward, batch, _where(spec), rule if len(needed) <= len(inputs) else "")
    graph = hasattr(built, "get_concrete_function") or hasattr(
        type(built).__call__, "get_concrete_function"
    )
    return LoadedModel(
        forward=forward,
        inputs=inputs,
        variables=own.weights_of(built) if own else _variables_of(built),
        module=built if own else None,
        eager_is_graph=graph,
    )


def _call_first(forward: Callable[[Any], Any], batch: Any, where: str, rule: str) -> None:
    """Call a callable for the first time; a builder that takes a setting ends in its rule."""
    try:
        outputs = forward(batch)
    except (TypeError, AttributeError, ValueError, LookupError) as error:
        if not rule:
            raise
        raise ConfigError(f"{where}: {describe_error(error)}{rule}") from error
    if rule and (is_module(outputs) or is_keras_model(outputs)):
        raise ConfigError(f"{where}: returns {a_noun(type(outputs).__name__)} of a batch{rule}")
    _refuse_callables(outputs, where)


def _module_loader(module: Any, where: str) -> Any:
    """The loader of PyTorch modules; raises `ConfigError` where one cannot be measured."""
    if keras.backend.backend() != "torch":
        raise ConfigError(f"{where}: a PyTorch module, which runs on PyTorch only: backend=torch")
    require_inference(module, where)
    return importlib.import_module(_MODULE)


def caller(built: Callable[..., Any], inputs: Sequence[InputSpec]) -> Callable[[Any], Any]:
    """A call of a callable on a batch: named inputs by name, or in a dictionary."""
    names = [given.name for given in inputs]
    call = built.forward if is_module(built) else built  # type: ignore[attr-defined]
    in_one = all(names) and takes_dictionary(call, names)

    def forward(batch: Any) -> Any:
        tensors = keras.tree.flatten(batch)
        if not all(names):
            return built(*tensors)
        given = dict(zip(names, tensors, strict=True))
        return built(given) if in_one else built(**given)

    return forward


def _variables_of(built: Callable[..., Any]) -> list[Any]:
    """Variables of a callable, or else those of the models that it holds or closes over."""
    if own := _list_variables(built):
        return own
    code = inspect.unwrap(getattr(built, "python_function", built))
    is_traced = hasattr(built, "python_function")  # it holds its graphs' variables once more
    held = [] if is_traced else list(getattr(built, "__dict__", {}).values())
    if inspect.isfunction(code):
        read = inspect.getclosurevars(code)
        held += [*read.nonlocals.values(), *read.globals.values()]
    variables = [each for one in held for each in _list_variables(one)]
    return list({id(variable): variable for variable in variables}.values())


def _list_variables(holder: Any) -> list[Any]:
    """Variables that an object lists; none of one that raises, as an unbound module of Flax."""
    with suppress(Exception):
        listed = holder.variables
        if isinstance(listed, (list, tuple)):
            needed = ("shape", "assign", "trainable")
            return [one for one in listed if all(hasattr(one, name) for name in needed)]
    return []


def _built_inputs(model: Any) -> list[str]:
    """The inputs for which a model was built, as entries of `input_spec`; types are not known.

    Of one that looks up ids, and was not built, a text's ids.
    """
    config = model.get_build_config() or {}
    shapes = _list_shapes(config.get("shapes_dict") or config.get("input_shape"))
    names = [
        name
        for name in _list_needed(getattr(model, "call", None))
        if name not in ("training", "mask")
    ]
    if len(names) > 1 and len(shapes) < 2:  # Keras keeps the shape of the first one only
        shapes = [(name, shapes[0][1] if shapes else (None, None)) for name in names]
    rows = [one.input_dim for one in model.layers if type(one).__name__ == "Embedding"]
    if rows and not shapes:
        return [f"{{shape:[128],dtype:int32,high:{rows[0]}}}"]
    return [as_input_spec(name, sizes, "float32") for name, (_, *sizes) in shapes]


def _list_shapes(given: Any, name: str = "") -> list[tuple[str, Sequence[int | None]]]:
    """The shapes in a nest, each with the name under which it stands there."""
    if isinstance(given, Mapping):
        nested = given.items()
        return [
            one for key, each in nested for one in _list_shapes(each, key.removesuffix("_shape"))
        ]
    if not isinstance(given, (list, tuple)):
        return []
    if given and all(size is None or isinstance(size, int) for size in given):
        return [(name, given)]
    return [one for each in given for one in _list_shapes(each)]


def _one_image(
    spec: ModelSpec,
    rule: str = "",
    *,
    channels_first: bool = False,
    built_for: Sequence[str] = (),
) -> tuple[InputSpec, ...]:
    given = spec.resolution_px or spec.recipe.get("free_size")
    side = given or 224
    shape = (3, side, side) if channels_first else (side, side, 3)
    if given is None:
        images = "" if built_for else "resolution=224 for images, or "
        specs = ",".join(built_for or [as_input_spec("", shape, "float32")])
        raise ConfigError(
            f"{_where(spec)}: unknown inputs; give {images}'input_spec=[{specs}]'{rule}"
        )
    return (InputSpec(shape=shape),)


def _first_batch(inputs: Sequence[InputSpec], size: int) -> Any:
    """Values that the inputs may have, for a call that creates variables."""
    return draw(inputs, size, np.random.default_rng(0))


def _refuse_callables(outputs: Any, where: str) -> None:
    """Refuse a layer or function among outputs, as of a call that forgot to apply it."""
    for output in keras.tree.flatten(outputs):
        if callable(output):
            raise ConfigError(
                f"{where}: the model returns {a_noun(type(output).__name__)}, not tensors; apply "
                "it in the model's call"
            )


def _where(spec: ModelSpec) -> str:
    return f"path={spec.recipe['path']}"
