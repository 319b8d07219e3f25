"""Adapt a SavedModel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import keras
import tensorflow as tf

from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.sources.inputs import from_specs, name_leaves, place_inputs
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.trial import ModelSpec


def load(spec: ModelSpec) -> LoadedModel:
    """Load the user's own; raises what `adapt` raises."""
    path = spec.recipe["path"]
    saved = tf.saved_model.load(path)
    if name := spec.recipe.get("signature"):
        if name not in saved.signatures:
            raise unknown_name(f"signature of {path}", name, tuple(saved.signatures), listed=8)
        saved = saved.signatures[name]
    return adapt(saved, spec, where=path)


def adapt(saved: Any, spec: ModelSpec, *, where: str) -> LoadedModel:
    """A restored SavedModel as a model.

    `__call__` is tried first, then Keras 3's `serve`, then the serving signature, whose outputs are
    named.

    Raises:
        ConfigError: it has nothing to call, or the inputs are unknown.
    """
    endpoint = _endpoint(saved, where)
    concrete, structure = _choose_trace(endpoint, where, len(spec.inputs))
    leaves = keras.tree.flatten_with_path(structure)
    tensors = name_leaves(each for each in leaves if _is_tensor(each[1]))
    batch = next((each.shape[0] for each in tensors.values() if each.shape.rank), None)
    free, side = spec.recipe.get("free_size"), spec.resolution_px
    inputs = spec.inputs or from_specs(tensors, resolution=side, where=where, free=free)
    places = place_inputs(inputs, list(tensors), where)

    def forward(batch: Any) -> Any:
        given = keras.tree.flatten(batch)
        turn = iter(places)
        filled = [given[next(turn)] if _is_tensor(leaf) else leaf for _, leaf in leaves]
        arguments, keywords = keras.tree.pack_sequence_as(structure, filled)
        return endpoint(*arguments, **keywords)

    return LoadedModel(
        forward=forward,
        inputs=inputs,
        variables=list(concrete.variables),
        rebuildable=False,
        batch=batch,
        eager_is_graph=True,
    )


def _endpoint(saved: Any, where: str) -> Callable[..., Any]:
    if callable(saved):
        return saved  # type: ignore[no-any-return]
    if hasattr(saved, "serve"):
        return saved.serve  # type: ignore[no-any-return]
    signatures = getattr(saved, "signatures", {})
    if "serving_default" in signatures or len(signatures) == 1:
        return signatures.get("serving_default") or next(iter(signatures.values()))  # type: ignore[no-any-return]
    names = ", ".join(signatures)
    several = f"signatures: {names}; name one: signature={names.partition(',')[0]}"
    raise ConfigError(
        f"{where} has nothing to call: no __call__, serve or serving_default; "
        f"{several if names else 'signatures: none'}"
    )


def _choose_trace(endpoint: Any, where: str, given: int) -> tuple[Any, list[Any]]:
    """A traced function of an endpoint, and what to call it with: settings, and specs of tensors.

    One whose `training` is not true, that takes as many tensors as are given, or else the fewest,
    and whose settings are the defaults; the first of several.
    """
    function = endpoint if hasattr(endpoint, "concrete_functions") else endpoint.__call__
    concretes = list(getattr(function, "concrete_functions", None) or [])
    if hasattr(endpoint, "structured_input_signature"):
        concretes = [endpoint]
    if not concretes:
        raise ConfigError(
            f"{where} was saved without a traced function; save it with an input signature"
        )
    spec = getattr(function, "function_spec", None)
    names, defaults = (list(spec.arg_names), spec.default_values) if spec else ([], {})

    def rank(call: tuple[Any, list[Any]]) -> tuple[bool, bool, int, int]:
        arguments, keywords = call[1]
        parts = {**dict(zip(names, arguments, strict=False)), **keywords}
        trains = any("train" in name and part is True for name, part in parts.items())
        count = sum(map(_is_tensor, keras.tree.flatten(call[1])))
        other = [
            name
            for name, part in parts.items()
            if not _holds_tensor(part) and name in defaults and repr(part) != repr(defaults[name])
        ]
        return trains, count != given if given else not count, count, len(other)

    calls = [
        (concrete, _find_taken(concrete, names, filled))
        for concrete in concretes
        for filled in (defaults, {})
    ]
    return min(calls, key=rank)


def _find_taken(concrete: Any, names: Sequence[str], defaults: Mapping[str, Any]) -> list[Any]:
    """Arguments of a traced function; a default, unless it is None, in place of a tensor.

    The keywords are sorted, as their restored order differs between processes.
    """

    def fill(name: str, part: Any) -> Any:
        default = defaults.get(name)
        return default if default is not None and _holds_tensor(part) else part

    arguments, keywords = concrete.structured_input_signature
    filled = [fill(*each) for each in zip_longest(names, arguments)][: len(arguments)]
    return [filled, {name: fill(name, keywords[name]) for name in sorted(keywords)}]


def _holds_tensor(part: Any) -> bool:
    """True for an argument that is a tensor, or nests one."""
    return any(map(_is_tensor, keras.tree.flatten(part)))


def _is_tensor(leaf: Any) -> bool:
    """True for what stands for a tensor in a traced function."""
    return isinstance(leaf, tf.TensorSpec)
