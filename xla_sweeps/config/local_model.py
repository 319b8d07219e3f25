"""The user's own model: a Keras file, a SavedModel, or a function that builds one.

Describes it without running it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xla_sweeps.config import catalog, own_files, own_inputs, values
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.options import LOCAL
from xla_sweeps.schema.trial import ModelSpec, parse_shape

_FUNCTION = re.compile(
    r"(?P<module>[A-Za-z_][\w.]*|.+\.py):(?P<function>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)"
)

_ALLOWED = "allowed: a .keras file, a SavedModel folder, or module:function"


def user_model_spec(document: Mapping[str, Any]) -> ModelSpec:
    """The user's own model, as a trial asks for it.

    `variant`, `family` and `task` of the document's `model` may be set. A `ConfigError` says that
    there is no such model, that its code is not trusted, or what is wrong with the inputs.
    """
    path = values.optional(values.text, document, "path")
    if not path:
        raise ConfigError(f"model=local: name it, as in path=my_model.keras; {_ALLOWED}")
    values.path_of(path)
    recipe = _recipe(path, values.optional(values.text, document, "import"))
    if not values.boolean(document, "trust_code"):
        raise ConfigError(
            f"path={path}: loading it can run any code (a .keras file and a SavedModel too); add "
            "trust_code=true if you trust it"
        )
    resolution = values.optional(values.integer, document, "resolution", at_least=1)
    inputs = own_inputs.read_specs(document["input_spec"])
    if signature := values.optional(values.text, document, "signature"):
        if recipe["kind"] != "saved_model":
            raise ConfigError(f"signature={signature}: only a SavedModel folder has signatures")
        recipe["signature"] = signature
    if batch := values.optional(values.text, document, "inputs"):
        recipe["inputs"] = batch
    free = None if inputs else _first_size(values.read_list(document.get("shapes")))
    if free:
        recipe["free_size"] = free
    if recipe["kind"] == "keras" and not (inputs or free):
        own_files.check_sizes(
            own_files.config_of(Path(recipe["path"]), f"path={path}"), resolution, f"path={path}"
        )
    entry = document["model"]
    variant = str(entry.get("variant") or _variant(recipe))
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


def _first_size(shapes: Iterable[str]) -> int | None:
    """The first size among the shapes of a trial, which stands for one that an input leaves open.

    None where they are batch sizes, or wrong, which is told later.
    """
    with contextlib.suppress(ValueError):
        return next(filter(None, (parse_shape(name)[0] for name in shapes)), None)
    return None


def declared_shapes(spec: ModelSpec) -> list[list[int]] | None:
    """Shapes of the inputs that an own model's file declares; None where it does not say."""
    if spec.recipe.get("kind") != "keras":
        return None
    path = spec.recipe["path"]
    return own_files.declared_sizes(
        own_files.config_of(Path(path), f"path={path}"), spec.resolution_px
    )


def require_same_files(spec: ModelSpec) -> None:
    """Refuse an own model whose files are no longer those that its trial names.

    Raises:
        ConfigError: another model than that of the trial may have been measured.
    """
    if spec.source != LOCAL:
        return
    path = spec.recipe["path"]
    try:
        present = _recipe(path, spec.recipe.get("import"))["fingerprint"]
    except (ConfigError, OSError):
        present = ""
    if present != spec.recipe["fingerprint"]:
        raise ConfigError(
            f"path={path}: it, or a module that it imports, changed while it was measured, so this "
            "measurement is not kept; "
            "run the command again"
        )


def _recipe(path: str, module: str | None) -> dict[str, Any]:
    """Kind, path and fingerprint of the model; `module` has the custom layers of a Keras file."""
    place, where = Path(path).expanduser(), f"path={path}"
    if place.is_file() and place.suffix in own_files.MODEL_SUFFIXES:
        own_files.check_model_file(place, where)
        source = own_files.find_source(module, f"import={module}") if module else None
        own_files.check_custom_layers(own_files.config_of(place, where), source, where)
        files = [place, source, *own_files.imported_by(source)] if source else [place]
        recipe = {
            "kind": "keras",
            "path": str(place),
            "fingerprint": own_files.fingerprint_of(files),
        }
        return {**recipe, "import": module} if module else recipe
    if module is not None:
        raise ConfigError(
            f"import={module}: applies to a .keras file; a function imports what it needs itself"
        )
    if place.is_dir():
        if not (place / "saved_model.pb").is_file():
            raise ConfigError(f"{where}: not a SavedModel, it has no saved_model.pb; {_ALLOWED}")
        files = sorted(file for file in place.rglob("*") if file.is_file())
        fingerprint = own_files.fingerprint_of(files, below=place)
        return {"kind": "saved_model", "path": str(place), "fingerprint": fingerprint}
    if function := _FUNCTION.fullmatch(path):
        source, name = own_files.find_source(function["module"], where), function["function"]
        own_files.check_function(source, name, where)
        is_layer = function["module"] == catalog.LAYERS
        more = [catalog.conf_dir() / "layers.yaml"] if is_layer else own_files.imported_by(source)
        files = [source, *more]
        return {
            "kind": "function",
            "path": path,
            "fingerprint": f"{own_files.fingerprint_of(files)}:{name}",
        }
    if place.is_file() and place.suffix == ".py":
        raise ConfigError(f"{where}: {own_files.function_hint(place, where)}")
    if place.is_file():
        unread = (
            own_files.own_model_hint(path)
            or f"a model file ends in {', '.join(own_files.MODEL_SUFFIXES)}"
        )
        raise ConfigError(f"{where}: {unread}; {_ALLOWED}")
    raise ConfigError(f"{where}: no such file, folder or module:function; {_ALLOWED}")


def _variant(recipe: Mapping[str, Any]) -> str:
    """Its name: the file's, the folder's or the function's."""
    path = recipe["path"]
    if recipe["kind"] != "function":
        return Path(path).resolve().stem
    module, _, function = path.rpartition(":")
    module = "layers" if module == catalog.LAYERS else module
    return f"{Path(module).stem if module.endswith('.py') else module}:{function}"
