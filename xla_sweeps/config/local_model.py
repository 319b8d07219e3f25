"""The user's own model: a Keras file, a SavedModel, or a function that builds one.

Describes it without running it.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xla_sweeps.config import values
from xla_sweeps.config.own_files import (
    MODEL_SUFFIXES,
    check_custom_layers,
    check_function,
    check_model_file,
    check_sizes,
    config_of,
    declared_sizes,
    function_hint,
    own_model_hint,
)
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.options import LOCAL
from xla_sweeps.schema.trial import InputSpec, ModelSpec

DTYPES = (
    *("float32", "float16", "bfloat16", "float64", "bool"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)

LARGEST = 1e30
"""The largest number that inputs are drawn from, either sign: float32 goes up to 3e38."""

_FUNCTION = re.compile(r"(?P<module>[A-Za-z_][\w.]*|.+\.py):(?P<function>[A-Za-z_]\w*)")

_FORMS = "a .keras file, a SavedModel folder, or module:function"


def user_model_spec(document: Mapping[str, Any]) -> ModelSpec:
    """The user's own model, as a trial asks for it.

    Args:
        document: the configuration; `variant`, `family` and `task` of its `model` may be set.

    Raises:
        ConfigError: no such model, its code is not trusted, or the inputs are malformed.
    """
    path = values.optional(values.text, document, "path")
    if not path:
        raise ConfigError(f"model=local: name it, as in path=my_model.keras; allowed: {_FORMS}")
    values.path_of(path)
    recipe = _recipe(path)
    module = values.optional(values.text, document, "import")
    if module is not None:
        recipe = _with_import(recipe, module)
    if not values.boolean(document, "trust_code"):
        raise ConfigError(
            f"path={path}: loading it can run any code (a .keras file and a SavedModel too); add "
            "trust_code=true if you trust it"
        )
    _check_code(recipe, module)
    resolution = values.optional(values.integer, document, "resolution", at_least=1)
    inputs = _inputs(document["input_spec"])
    if recipe["kind"] == "keras" and not inputs:
        check_sizes(config_of(Path(recipe["path"]), f"path={path}"), resolution, f"path={path}")
    entry = document["model"]
    variant = str(entry.get("variant") or _variant(path))
    return ModelSpec(
        name=variant,
        family=str(entry.get("family") or LOCAL),
        variant=variant,
        task=str(entry.get("task") or "custom"),
        source=LOCAL,
        library=LOCAL,
        recipe=recipe,
        resolution_px=resolution,
        native_resolution_px=None,
        inputs=inputs,
        weights="own",
    )


def declared_shapes(spec: ModelSpec) -> list[list[int]] | None:
    """Shapes of the inputs that an own model's file declares; None where it does not say."""
    if spec.recipe.get("kind") != "keras":
        return None
    path = spec.recipe["path"]
    return declared_sizes(config_of(Path(path), f"path={path}"), spec.resolution_px)


def _recipe(path: str) -> dict[str, Any]:
    """Kind, path and fingerprint of the model."""
    place = Path(path).expanduser()
    if place.is_dir():
        if not (place / "saved_model.pb").is_file():
            raise ConfigError(
                f"path={path}: not a SavedModel, it has no saved_model.pb; allowed: {_FORMS}"
            )
        files = sorted(file for file in place.rglob("*") if file.is_file())
        return {
            "kind": "saved_model",
            "path": str(place),
            "fingerprint": _fingerprint(files, below=place),
        }
    if place.is_file() and place.suffix in MODEL_SUFFIXES:
        check_model_file(place, f"path={path}")
        return {"kind": "keras", "path": str(place), "fingerprint": _fingerprint([place])}
    function = _FUNCTION.fullmatch(path)
    if function:
        source = _source_file(function["module"], f"path={path}")
        return {
            "kind": "function",
            "path": path,
            "fingerprint": f"{_fingerprint([source])}:{function['function']}",
        }
    if place.is_file() and place.suffix == ".py":
        raise ConfigError(f"path={path}: {function_hint(place, f'path={path}')}")
    if place.is_file():
        unread = own_model_hint(path) or f"a model file ends in {', '.join(MODEL_SUFFIXES)}"
        raise ConfigError(f"path={path}: {unread}; allowed: {_FORMS}")
    raise ConfigError(f"path={path}: no such file, folder or module:function; allowed: {_FORMS}")


def _with_import(recipe: Mapping[str, Any], module: str) -> dict[str, Any]:
    """The recipe of a Keras file whose custom layers are in a module; both are fingerprinted."""
    if recipe["kind"] != "keras":
        raise ConfigError(
            f"import={module}: applies to a .keras file; a function imports what it needs itself"
        )
    files = [Path(recipe["path"]), _source_file(module, f"import={module}")]
    return {**recipe, "import": module, "fingerprint": _fingerprint(files)}


def _check_code(recipe: Mapping[str, Any], module: str | None) -> None:
    """Refuse a function or custom layers that are not there, as far as reading tells."""
    path = recipe["path"]
    where = f"path={path}"
    if recipe["kind"] == "function":
        name, _, function = path.rpartition(":")
        check_function(_source_file(name, where), function, where)
    elif recipe["kind"] == "keras":
        source = _source_file(module, f"import={module}") if module else None
        check_custom_layers(config_of(Path(path), where), source, where, _is_module)


def _is_module(name: str) -> bool:
    """True if the file of this module can be found."""
    try:
        return bool(_source_file(name, ""))
    except ConfigError:
        return False


def _source_file(module: str, where: str) -> Path:
    """The file of a module, found without importing anything; the current folder comes first."""
    if module.endswith(".py"):
        file = Path(module).expanduser()
        if not file.is_file():
            raise ConfigError(f"{where}: no such file: {module}")
        return file
    inner = Path(*module.split("."))
    for folder in (".", *sys.path):
        for candidate in (
            Path(folder, inner).with_suffix(".py"),
            Path(folder, inner, "__init__.py"),
        ):
            if candidate.is_file():
                return candidate
    raise ConfigError(
        f"{where}: no module '{module}' in the current folder or among the installed packages"
    )


def _fingerprint(files: Iterable[Path], *, below: Path | None = None) -> str:
    """Sixteen hex digits of the files' names and contents."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(below)).encode() if below else b"")
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


def _variant(path: str) -> str:
    """Its name: the file's, the folder's or the function's."""
    function = _FUNCTION.fullmatch(path)
    if function and not Path(path).exists():
        module = function["module"]
        return f"{Path(module).stem if module.endswith('.py') else module}:{function['function']}"
    return Path(path).expanduser().resolve().stem


def _inputs(given: Any) -> tuple[InputSpec, ...]:
    if given is None:
        return ()
    entries = [given] if isinstance(given, Mapping) else given
    if not isinstance(entries, list) or not entries:
        raise ConfigError(
            f"input_spec={given}: give one mapping for each input, as in "
            "input_spec=[{shape:[224,224,3]}]"
        )
    inputs = tuple(
        _input(entry, where=f"input_spec[{index}]") for index, entry in enumerate(entries)
    )
    names = [spec.name for spec in inputs]
    if len(inputs) > 1 and any(names) and (not all(names) or len(set(names)) < len(names)):
        raise ConfigError(
            f"input_spec: name every input, each differently, or none; given: {names}"
        )
    return inputs


def _input(entry: Any, *, where: str) -> InputSpec:
    keys = ("shape", "dtype", "low", "high", "name")
    if not isinstance(entry, Mapping) or "shape" not in entry:
        raise ConfigError(
            f"{where}={entry}: give a shape without the batch, as in {{shape:[224,224,3]}}"
        )
    for key in entry:
        if key not in keys:
            raise unknown_name(f"key of {where}", str(key), keys)
    shape = entry["shape"]
    given = {"high": 2 if entry.get("dtype") == "bool" else 255, **entry}
    given["shape"] = shape if isinstance(shape, list) else [shape]
    made = values.converted(given, InputSpec, where=where)
    if any(size < 1 for size in made.shape):
        raise ConfigError(
            f"{where}.shape={shape}: expected integers of at least 1, without the batch"
        )
    if made.dtype not in DTYPES:
        raise unknown_name(f"dtype in {where}", made.dtype, DTYPES, listed=len(DTYPES))
    for key, value in (("low", made.low), ("high", made.high)):
        if not abs(value) <= LARGEST:
            raise ConfigError(f"{where}.{key}={value}: expected a number up to ±{LARGEST:g}")
    if not made.low < made.high:
        raise ConfigError(f"{where}: low={made.low:g} must be below high={made.high:g}")
    return made
