"""Adapt a SavedModel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.sources.inputs import from_specs, name_leaves, place_inputs
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.trial import InputSpec, ModelSpec


def load(spec: ModelSpec) -> LoadedModel:
    """Load the user's own; raises what `adapt` raises."""
    path = spec.recipe["path"]
    saved = tf.saved_model.load(path)
    if name := spec.recipe.get("signature"):
        if name not in saved.signatures:
            raise unknown_name(f"signature of {path}", name, tuple(saved.signatures), listed=8)
        saved = saved.signatures[name]
    free = spec.recipe.get("free_size")
    return adapt(saved, where=path, inputs=spec.inputs, resolution=spec.resolution_px, free=free)


def adapt(
    saved: Any,
    *,
    where: str,
    inputs: Sequence[InputSpec],
    resolution: int | None,
    free: int | None = None,
) -> LoadedModel:
    """A restored SavedModel as a model.

    `__call__` is tried first, then Keras 3's `serve`, then the serving signature, whose outputs are
    named.

    Raises:
        ConfigError: it has nothing to call, or the inputs are unknown.
    """
    endpoint = _endpoint(saved, where)
    concrete = _concrete(endpoint, where)
    structure = _find_taken(concrete)
    leaves = keras.tree.flatten_with_path(structure)
    tensors = name_leaves(each for each in leaves if _is_tensor(each[1]))
    batch = next((spec.shape[0] for spec in tensors.values() if spec.shape.rank), None)
    chosen = tuple(inputs) or from_specs(tensors, resolution=resolution, where=where, free=free)
    places = place_inputs(chosen, list(tensors), where)

    def forward(batch: Any) -> Any:
        given = keras.tree.flatten(batch)
        turn = iter(places)
        filled = [given[next(turn)] if _is_tensor(leaf) else leaf for _, leaf in leaves]
        arguments, keywords = keras.tree.pack_sequence_as(structure, filled)
        return endpoint(*arguments, **keywords)

    return LoadedModel(
        forward=forward,
        inputs=chosen,
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


def _concrete(endpoint: Any, where: str) -> Any:
    """The traced function of an endpoint: the first one whose `training` is not true."""
    function = endpoint if hasattr(endpoint, "concrete_functions") else endpoint.__call__
    concretes = list(getattr(function, "concrete_functions", None) or [])
    if hasattr(endpoint, "structured_input_signature"):
        concretes = [endpoint]
    if not concretes:
        raise ConfigError(
            f"{where} was saved without a traced function; save it with an input signature"
        )
    inference = [
        concrete
        for concrete in concretes
        if True not in tf.nest.flatten(concrete.structured_input_signature)
    ]
    return (inference or concretes)[0]


def _find_taken(concrete: Any) -> list[Any]:
    """What a traced function takes: arguments up to the last with a tensor, and tensors by keyword.

    The keywords are sorted, as their restored order differs between processes.
    """
    arguments, keywords = concrete.structured_input_signature
    holds = [any(map(_is_tensor, tf.nest.flatten(part))) for part in arguments]
    count = max((place for place, one in enumerate(holds, start=1) if one), default=0)
    named = {name: keywords[name] for name in sorted(keywords) if _is_tensor(keywords[name])}
    return [list(arguments[:count]), named]


def _is_tensor(leaf: Any) -> bool:
    """True for what stands for a tensor in a traced function."""
    return isinstance(leaf, tf.TensorSpec)
