"""Operations of TensorFlow's graphs: those that compute something, those of XLA, all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from xla_sweeps.backends.keras.hlo import Module

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
"""Operations in whose place XLA puts the function that they call."""

BOOKKEEPING = CALLS | {
    *("Placeholder", "PlaceholderWithDefault", "_Arg", "_Retval", "Const", "ReadVariableOp"),
    *("Identity", "IdentityN", "NoOp", "StopGradient"),
}
"""Operations that compute nothing."""

_RUNTIME = frozenset({"Switch", "Merge", "SyncDevice", "_Send", "_Recv", "_HostSend", "_HostRecv"})


def computes(op: str) -> bool:
    """True if an operation of this type computes something, outside of what XLA compiles."""
    return op not in BOOKKEEPING and op not in _RUNTIME and not op.startswith("_Xla")


def computing(graphs: Sequence[Any]) -> int:
    """Number of operations of graphs that compute something."""
    return sum(computes(str(node.op)) for graph in graphs for node in graph.node)


def clusters(graphs: Sequence[Any]) -> int:
    """Number of XLA's clusters in graphs that ran."""
    return sum(node.op == "_XlaRun" for graph in graphs for node in graph.node)


def jit_compile(definition: Any) -> bool | None:
    """The `jit_compile` that is stored in a function's definition; None where none is."""
    attribute = definition.attr.get("_XlaMustCompile")
    return None if attribute is None else bool(attribute.b)


def compiled_inside(concrete: Any) -> set[str]:
    """Names of the functions inside a traced one that XLA compiles in every mode."""
    library = concrete.graph.as_graph_def().library.function
    return {definition.signature.name for definition in library if jit_compile(definition)}


def source(name: str) -> str:
    """The node that an input comes from."""
    return name.lstrip("^").partition(":")[0]


def places(graphs: Sequence[Any]) -> frozenset[str]:
    """The devices of operations that compute something, and of calls of functions."""
    return frozenset(
        str(node.device)
        for graph in graphs
        for node in graph.node
        if node.op in CALLS or computes(str(node.op))
    )


_IGNORED = ("value", "seed", "seed2", "shared_name", "container", "config", "config_proto", "token")
"""Attributes that hold constants, or change between processes of the same model."""


def fingerprint(concrete: Any) -> str:
    """Sixteen hex digits of a traced function's operations, with their shapes and types.

    Names, constants, weights and the order of operations do not count; so it is equal between modes
    and between processes of the same model.
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
    return attribute == "_output_shapes" or not (attribute.startswith("_") or attribute in _IGNORED)


def lower(function: Any, *inputs: Any) -> Module:
    """The program that a `tf.function` is for XLA before its optimizer.

    Its messages are TensorFlow's: they have every field, so that two programs can be compared.
    """
    from tensorflow.compiler.xla.service.hlo_pb2 import HloModuleProto

    content = function.experimental_get_compiler_ir(*inputs)(stage="hlo_serialized")
    return Module(HloModuleProto.FromString(content))
