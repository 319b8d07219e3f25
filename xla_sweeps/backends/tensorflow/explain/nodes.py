"""Work of the operations of TensorFlow's graphs, by their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xla_sweeps.backends.keras.explain.events import Work
from xla_sweeps.backends.tensorflow import operations
from xla_sweeps.backends.tensorflow.explain.graph import Origins
from xla_sweeps.schema.explanation import Kind

_CONTAINERS = operations.CALLS | {
    *("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase")
}
"""Operations that only run others."""

_KINDS = (
    (re.compile("Depthwise"), Kind.DEPTHWISE),
    (re.compile("BatchNorm"), Kind.ELEMENTWISE),
    (re.compile("Conv"), Kind.CONVOLUTION),
    (re.compile("MatMul|Einsum"), Kind.PRODUCT),
    (re.compile("Pool|Softmax|TopK|Norm|^Arg|^(?:Sum|Mean|Max|Min|Prod|All|Any)$"), Kind.REDUCTION),
    (
        re.compile(
            "Transpose|Concat|Pad|Slice|Split|Tile|Gather|Pack|Reshape|ExpandDims|Squeeze|Broadcast"
            "|Reverse|Copy|SpaceTo|ToSpace|BatchToSpaceND|Fill|Range"
        ),
        Kind.COPY,
    ),
)
"""Expressions that TensorFlow's operations are sorted by; the first that matches counts."""


def graph_work(graphs: Sequence[Any], origins: Origins) -> dict[str, Work]:
    """Work of each operation of the graphs that ran, by its name."""
    return {
        str(node.name): Work(
            kind_of(str(node.op)), {_layer(node, origins): 1.0}, origins.line(str(node.name))
        )
        for graph in graphs
        for node in graph.node
        if node.op not in _CONTAINERS
    }


def _layer(node: Any, layer_of: Origins) -> str:
    """Layer of an operation; where TensorFlow merged several, that of the weights."""
    weights = str(node.input[1]) if "Fused" in node.op and len(node.input) > 1 else ""
    return layer_of(operations.source(weights) or str(node.name))


def kind_of(op: str) -> Kind:
    """Main work of an operation of TensorFlow, by its type."""
    if op in operations.BOOKKEEPING:
        return Kind.OTHER
    return next((kind for pattern, kind in _KINDS if pattern.search(op)), Kind.ELEMENTWISE)
