"""Which operations of TensorFlow's graphs compute something. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""Operations in whose place XLA puts the function that they call."""

BOOKKEEPING = CALLS | {
    "Placeholder",
    "PlaceholderWithDefault",
    "_Arg",
    "_Retval",
    "Const",
    "Identity",
    "IdentityN",
    "NoOp",
    "ReadVariableOp",
    "StopGradient",
}
"""Operations that compute nothing."""

_RUNTIME = frozenset({"Switch", "Merge", "SyncDevice", "_Send", "_Recv", "_HostSend", "_HostRecv"})


def computes(op: str) -> bool:
    """Whether an operation of this type computes something, outside of what XLA compiles."""
    return op not in BOOKKEEPING and op not in _RUNTIME and not op.startswith("_Xla")


def computing(graphs: Sequence[Any]) -> int:
    """How many operations of graphs compute something.

    Args:
        graphs: as `modes.collected_graphs` has them.
    """
    return sum(computes(str(node.op)) for graph in graphs for node in graph.node)


def places(graphs: Sequence[Any]) -> frozenset[str]:
    """The devices of operations that compute something, and of calls of functions.

    Args:
        graphs: as `modes.collected_graphs` has them.
    """
    return frozenset(
        str(node.device)
        for graph in graphs
        for node in graph.node
        if node.op in CALLS or computes(str(node.op))
    )
