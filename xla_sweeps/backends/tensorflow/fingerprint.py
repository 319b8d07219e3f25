"""Tell models apart by what was built: the operations of the traced call."""

from __future__ import annotations

import hashlib
from typing import Any

_IGNORED = ("value", "seed", "seed2", "shared_name", "container", "config", "config_proto", "token")
"""Attributes that hold constants, or change between processes of the same model."""

_SHAPES = "_output_shapes"


def fingerprint(concrete: Any) -> str:
    """Sixteen hex digits of a traced function's operations, with their shapes and types.

    Names, constants, weights and the order of operations do not count; so it is equal between modes
    and between processes of the same model.

    Args:
        concrete: a `ConcreteFunction`.
    """
    graph = concrete.graph.as_graph_def(add_shapes=True)
    functions = [function.node_def for function in graph.library.function]
    lines = sorted(line for nodes in (graph.node, *functions) for line in map(_line, nodes))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _line(node: Any) -> str:
    attributes = (
        f"{name}={value.SerializeToString(deterministic=True).hex()}"
        for name, value in sorted(node.attr.items())
        if _counts(name) and not value.HasField("func") and not value.list.func
    )
    return " ".join((node.op, str(len(node.input)), *attributes))


def _counts(attribute: str) -> bool:
    return attribute == _SHAPES or not (attribute.startswith("_") or attribute in _IGNORED)
