"""Ship a model to the measuring process: options of the command line that name it.

A model in memory is saved below the results folder with the code of its classes and functions, with
an example of its inputs and its outputs for it. The measuring process refuses it if it computes
something else there (`backends.tensorflow.sources.shipped`).
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xla_sweeps.api import compiled
from xla_sweeps.api.border import FOREIGN, refusing
from xla_sweeps.api.folders import keep, new_folder, write_error
from xla_sweeps.api.identity import Changed, digest_of
from xla_sweeps.config import own_inputs
from xla_sweeps.config.catalog import names
from xla_sweeps.config.own_files import IMAGE_SIZES
from xla_sweeps.config.own_inputs import OwnArray
from xla_sweeps.config.own_modules import (
    is_keras_model,
    is_module,
    require_inference,
    require_uncompiled,
)
from xla_sweeps.config.values import path_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.options import BY_NAME, LOCAL

SOURCE = '''"""A model that xla_sweeps.measure saved here; content {digest}."""
from pathlib import Path

from xla_sweeps.backends.tensorflow.sources import shipped


def build():
    return shipped.load(Path(__file__).parent)
'''

_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
"""Messages of a full disk, in whatever error a library puts them."""

_BUILDER = "give a function that builds it instead: measure(lambda: MyModel(...), inputs)"

_BATCH = "batch.npz"

_SIDE = 16
"""Size of an example where the model leaves it free."""

_INSIDE = "make what it holds inside the function"


@refusing("model and inputs: cannot be used")
def options_for(
    model: Any, inputs: Any, batch_size: int | None, *, results_dir: Path, resolution: Any = None
) -> dict[str, Any]:
    """Options that ask for a model and its inputs; without any it is called at the resolution.

    Raises:
        ConfigError: it cannot be shipped; the message says what to do instead.
    """
    require_uncompiled(model, "model")
    arrays = _arrays(inputs)
    if part := _part_of_model(model):
        raise ConfigError(
            f"model: give the Keras model itself, not its {part}: the modes make calls of their "
            "own, and scenario='predict' measures model.predict"
        )
    if isinstance(model, (str, Path)):
        named = _options_by_name(model)
    elif is_keras_model(model):
        named = _ship_model(model, inputs, arrays, results_dir, resolution)
    elif is_module(model):
        named = _ship_module(model, inputs, results_dir)
    elif callable(model):
        named = _ship_builder(model, results_dir)
    else:
        raise ConfigError(
            "model: expected a name, a path, a Keras model, a PyTorch module or a function that "
            f"builds one, not a {type(model).__name__}"
        )
    if arrays and "path" not in named:
        raise ConfigError("inputs: a model of the catalog has its own; use resolution=")
    if arrays:
        named["input_spec"] = [array.spec for array in arrays]
        batch_size = own_inputs.size_of(arrays, batch_size)
        named["inputs"] = str(_keep_batch(arrays, results_dir))
    named["batch_size"] = BY_NAME["batch_size"].default if batch_size is None else batch_size
    return named


_CALLS = ("call", "__call__", "predict", "predict_on_batch", "predict_step")


def _part_of_model(given: Any) -> str:
    """Name the part of a Keras model that is given: `predict`, or a function; "" for others."""
    code = getattr(given, "python_function", given)
    holder = getattr(code, "__self__", None)
    if is_keras_model(holder) and code.__name__ in _CALLS:
        return str(code.__name__)
    return "compiled function" if code is not given and is_keras_model(code) else ""


_NOT_ARRAYS = {
    "element_spec": "a dataset; give a batch of it: next(iter(dataset))",
    "batch_sampler": "a data loader; give a batch of it: next(iter(loader))",
    "to_tensor": "a ragged tensor; give a dense one: .to_tensor()",
    "dense_shape": "a sparse tensor; give a dense one: tf.sparse.to_dense(…)",
}
"""Advice on what to give instead of an input with such an attribute."""


def _arrays(inputs: Any) -> list[OwnArray]:
    """The inputs in their order, by name if they are named."""
    if inputs is None:
        return []
    named = isinstance(inputs, Mapping)
    several = inputs if named or isinstance(inputs, (list, tuple)) else [inputs]
    parts = several.items() if isinstance(several, Mapping) else [("", part) for part in several]
    if not parts:
        raise ConfigError("inputs: there is no array; give one of a batch, or leave inputs out")
    arrays = []
    for name, part in parts:
        where = f"inputs {name}".rstrip()
        if told := [text for name, text in _NOT_ARRAYS.items() if hasattr(part, name)]:
            raise ConfigError(f"{where}: {told[0]}")
        with refusing(f"{where}: not an array"):
            arrays.append(OwnArray.of(part, str(name), where=where))
    return arrays


def _keep_batch(arrays: Sequence[OwnArray], results_dir: Path) -> Path:
    """The file of a batch at `models/DIGEST`, in the order of its inputs."""
    import numpy as np

    with new_folder(results_dir) as made:
        np.savez(made / _BATCH, *(array.values for array in arrays))
        digest = hashlib.sha256((made / _BATCH).read_bytes()).hexdigest()[:16]
        return keep(made, digest) / _BATCH


def _options_by_name(model: str | Path) -> dict[str, Any]:
    text = str(model)
    is_path = isinstance(model, Path) or re.search(r"[/:]|\.(keras|h5|hdf5|py)$", text)
    if text not in names() and (is_path or path_of(text or " ").exists()):
        return {"model": LOCAL, "path": text}
    return {"model": text}


def _ship_builder(builder: Callable[[], Any], results_dir: Path) -> dict[str, Any]:
    """Ship a function that builds the model, or one that is the model's own call."""
    label = str(getattr(builder, "__name__", type(builder).__name__))
    if inspect.isclass(builder) and own_inputs.needs_inputs(partial(builder.__init__, None)):
        raise ConfigError(f"model {label}: it takes arguments; {_BUILDER}")
    changed: Changed = {}
    digest = digest_of(builder, _configuration_of, changed)
    content = {"code.pickle": _pickle({"builder": builder, "changed": changed}, label, _INSIDE)}
    label = "model" if label == "<lambda>" else label
    return _write_files(results_dir, digest, content, label)


def _ship_model(
    model: Any, inputs: Any, arrays: list[OwnArray], results_dir: Path, resolution: Any
) -> dict[str, Any]:
    """Ship a model in memory, with what it computes."""
    if not arrays and not getattr(model, "inputs", None):
        raise ConfigError("model: its inputs are unknown; give a batch: measure(model, inputs)")
    example = _example(model, resolution) if inputs is None else inputs
    if isinstance(example, Mapping) and own_inputs.takes_alone(model, example):
        example = next(iter(example.values()))
    if not model.built:
        _outputs(model, example)  # creates the variables
    with own_inputs.kept_state(model):
        outputs = _outputs(model, example)
    with new_folder(results_dir) as folder:
        path = folder / f"{id(model):x}.keras"
        with refusing("model: Keras cannot save it", _BUILDER):
            try:
                model.save(path)
            except Exception as error:
                if full := [words for words in _FULL if words in str(error)]:
                    raise write_error(results_dir, full[0]) from error
                raise
        saved = path.read_bytes()
    legacy = any(base.__module__.startswith("tf_keras") for base in type(model).__mro__)
    library = sys.modules["tf_keras" if legacy else "keras"]
    compiled.warn_of_lost(model, library)
    objects = dict(_objects(model))
    registered = library.saving.get_registered_name
    code = {
        "objects": {registered(value): value for value in objects.values()} | objects,
        "legacy": legacy,
        "example": _plain_arrays(example),
        "outputs": [own_inputs.as_numpy(output) for output in outputs],
    }
    content = {"model.keras": saved, "code.pickle": _pickle(code, type(model).__name__, _BUILDER)}
    digest = digest_of(model, _configuration_of)
    return _write_files(results_dir, digest, content, _stable(model.name))


def _ship_module(module: Any, inputs: Any, results_dir: Path) -> dict[str, Any]:
    """Ship a PyTorch module in memory, with what it computes; the one given stays where it is."""
    require_inference(module, "model")
    if inputs is None:
        raise ConfigError("model: its inputs are unknown; give a batch: measure(module, batch)")
    torch, label = sys.modules["torch"], type(module).__name__
    named = inputs if isinstance(inputs, Mapping) else {}
    several = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    positional: list[Any] = [
        torch.as_tensor(part).detach().cpu() for part in ([] if named else several)
    ]
    by_name = {name: torch.as_tensor(part).detach().cpu() for name, part in named.items()}
    if named and own_inputs.takes_dictionary(module.forward, named):
        positional, by_name = [by_name], {}
    digest = digest_of(module, _configuration_of)
    with refusing(f"model {label}: it cannot be copied", _BUILDER):
        called = copy.deepcopy(module).cpu()
    with refusing("model: it cannot be called on these inputs"):
        outputs = own_inputs.compute_seeded(torch, called, positional, by_name)
    del called  # one copy at a time, and one whose state no call has changed
    shipped = copy.deepcopy(module).cpu()
    code = {"module": shipped, "example": (positional, by_name), "outputs": outputs}
    content = {"code.pickle": _pickle(code, label, _BUILDER)}
    return _write_files(results_dir, digest, content, label) | {"backend": "torch"}


@refusing("model: it cannot be called on these inputs")
def _outputs(model: Any, example: Any) -> list[Any]:
    call = own_inputs.call_by_name(model, example if isinstance(example, Mapping) else ())
    return own_inputs.flat(call(example, training=False))


def _example(model: Any, resolution: Any) -> Any:
    """A batch of one as the model declares its inputs, of small numbers."""
    import numpy as np

    side = (str(resolution).isdecimal() and int(resolution)) or _SIDE

    def draw(tensor: Any) -> Any:
        sizes = tensor.shape[1:]
        free = (side, side, _SIDE) if len(sizes) == IMAGE_SIZES else [_SIDE] * len(sizes)
        shape = [size or instead for size, instead in zip(sizes, free, strict=True)]
        kind = np.dtype("float32" if "float" in str(tensor.dtype) else str(tensor.dtype))
        rng = np.random.default_rng(0)
        return rng.random((tensor.shape[0] or 1, *shape)).astype(kind)

    struct = getattr(model, "_inputs_struct", None)
    if isinstance(struct, Mapping):
        return {name: draw(tensor) for name, tensor in struct.items()}
    several = [draw(tensor) for tensor in model.inputs]
    return several if isinstance(struct, (list, tuple)) or len(several) > 1 else several[0]


def _plain_arrays(inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return {name: own_inputs.as_numpy(part) for name, part in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(map(own_inputs.as_numpy, inputs))
    return own_inputs.as_numpy(inputs)


def _configuration_of(value: Any) -> list[Any] | None:
    """Configuration and weights of a layer, a model, or another object of Keras's own; or None.

    An object of the user's own that Keras saves by its configuration is such an object too. What
    a metric or an optimizer has counted is no part of it.
    """
    is_layer = hasattr(value, "_flatten_layers")
    kinds = [kind for kind in type(value).__mro__[:-1] if compiled.is_of_library(kind)]
    bases = {kind.__name__ for kind in kinds}
    is_saved = is_layer or not bases.isdisjoint(("KerasSaveable", "Trackable", "Loss"))
    if not hasattr(value, "get_config") or not (kinds if is_saved else type(value) in kinds):
        return None
    has_weights = is_layer and "Metric" not in bases
    own = vars(value) if "Loss" in bases else {}
    with contextlib.suppress(*FOREIGN):
        return [
            _canonical(value.get_config()),
            [getattr(value, name, None) for name in ("fn", "_fn")],  # of a loss or a metric
            dict(getattr(value, "_fn_kwargs", None) or {}),
            [(name, one) for name, one in own.items() if name[0] != "_" and name != "name"],
            value.get_weights() if has_weights else [],
            [one for _, one in _objects(value)] if is_layer else compiled.held_by(value),
            compiled.arguments_of(value),
        ]
    return ["no configuration"] if "KerasSaveable" in bases else None


def _objects(model: Any) -> Iterator[tuple[str, Any]]:
    """Classes of the model and its layers that are not Keras's, and what they hold of such code.

    That is functions, and classes of what Keras makes again by its configuration.
    """
    for layer in [model, *model._flatten_layers(include_self=False, recursive=True)]:
        for base in type(layer).__mro__:
            if not compiled.is_of_library(base):
                yield base.__name__, base
        for attribute, value in vars(layer).items():
            if compiled.is_made(value) and not hasattr(value, "_flatten_layers"):
                yield type(value).__name__, type(value)
            if compiled.is_own_function(value):
                place = f"Lambda:{layer.name}:{attribute.lstrip('_')}"
                yield (place if type(layer).__name__ == "Lambda" else value.__name__), value
        for value in compiled.parts_of_compile(layer):
            code = value if inspect.isfunction(value) else type(value)
            yield code.__name__, code


_MARSHALLED = re.compile(r"(4[w-z]|Y[w-z])[\w+/=\n]+\n")
"""Code of a function, as Keras writes it into a configuration."""


def _canonical(config: Any) -> Any:
    """A configuration without names and numbers that a session counts, and without code.

    Functions are among the objects; in a configuration they name lines, and differ from time to
    time.
    """
    renamed: dict[str, str] = {}
    counts: dict[str, int] = {}

    def collect(part: Any) -> None:
        if isinstance(part, Mapping):
            name = part.get("name")
            if isinstance(name, str) and name not in renamed:
                stem = _stable(name)
                counts[stem] = counts.get(stem, 0) + 1
                renamed[name] = f"{stem}#{counts[stem]}"
        for each in part.values() if isinstance(part, Mapping) else part:
            if isinstance(each, (Mapping, list, tuple)):
                collect(each)

    def replace_names(part: Any) -> Any:
        if isinstance(part, Mapping):
            if part.get("class_name") == "__lambda__":
                return "__lambda__"
            kept = (key for key in part if key not in ("shared_object_id", "date_saved"))
            return {str(key): replace_names(part[key]) for key in sorted(kept, key=str)}
        if isinstance(part, (list, tuple)):
            return [replace_names(each) for each in part]
        if isinstance(part, str):
            return "code" if _MARSHALLED.fullmatch(part) else renamed.get(part, part)
        return part

    collect(config)
    return replace_names(config)


def _stable(name: str) -> str:
    """A name without the number that a session gave it."""
    return re.sub(r"_\d+$", "", name)


def _pickle(content: Mapping[str, Any], label: str, hint: str) -> bytes:
    import cloudpickle

    with refusing(f"model {label}: its code cannot be shipped", hint):
        packed: bytes = cloudpickle.dumps(content, protocol=5)
    return packed


def _write_files(
    results_dir: Path, digest: str, content: Mapping[str, bytes], label: str
) -> dict[str, Any]:
    """Keep the files at `models/DIGEST`, or `DIGEST-2` where another process's pickle is there."""
    places = json.dumps([place or str(Path.cwd()) for place in sys.path])
    own = {"path.json": places.encode(), "model.py": SOURCE.format(digest=digest).encode()}
    with new_folder(results_dir) as made:
        for name, data in {**content, **own}.items():
            (made / name).write_bytes(data)
        folder = keep(made, digest)
    return {
        "model": LOCAL,
        "path": f"{folder / 'model.py'}:build",
        "trust_code": True,
        "model.variant": re.sub(r"\W", "_", label),
    }
