"""The operations of a traced graph, those of its functions included: layer, line and work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.explain.events import OpWork
from xla_sweeps.backends.keras.explain.explainer import calls_within
from xla_sweeps.backends.tensorflow.operations import BOOKKEEPING, CALLS, source
from xla_sweeps.schema.explanation import Kind, Place
from xla_sweeps.worker.lines import innermost_line


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedOp:
    """An operation of a traced graph.

    Attributes:
        definition: its `NodeDef`.
        function: the function that holds it, "" for the traced one itself.
        place: where it comes from.
        known: for each input, whether its value is known when XLA compiles, or is a variable's.
    """

    definition: Any
    function: str
    place: Place
    known: tuple[bool, ...]

    @property
    def op(self) -> str:
        """Its type."""
        return str(self.definition.op)


Layers = dict[tuple[Any, str], str]
"""The layer that made each operation, by its graph and name."""


@contextmanager
def noting_layers(layers: Sequence[Any]) -> Iterator[Layers]:
    """Note, while a model is traced, which of its layers makes which operation."""
    noted: Layers = {}

    @contextmanager
    def noting(layer: str) -> Iterator[None]:
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        yield
        for operation in graph.get_operations()[before:]:
            noted.setdefault((graph, operation.name), layer)

    with calls_within(layers, noting):
        yield noted


def traced_ops(concrete: Any, layers: Layers) -> list[TracedOp]:
    """The operations of a traced function that XLA looks at; each function is listed once.

    XLA refuses an operation that nothing needs too, except in a function that it puts into the
    place of a call.
    """
    functions = concrete.graph.as_graph_def().library.function
    library = {function.signature.name: function for function in functions}
    ops: list[TracedOp] = []
    seen: set[str] = set()

    def visit(definition: Any, graph: Any, name: str, caller: Place) -> None:
        constants, live = _known_nodes(definition), _live(definition)
        for node in definition.node_def:
            if node.name not in live and (caller.op in CALLS or node.op in CALLS):
                continue
            place = _place(node, graph, caller, layers)
            constant = tuple(source(value) in constants for value in _data(node))
            ops.append(TracedOp(definition=node, function=name, place=place, known=constant))
            for called in called_functions(node):
                if called in library and called not in seen:
                    seen.add(called)
                    visit(library[called], _body(graph, called), called, place)

    visit(concrete.function_def, concrete.graph, "", Place(op="", node=""))
    return ops


def called_functions(node: Any) -> list[str]:
    """Names of the functions that a node calls."""
    names = [] if "/" in node.op else [str(node.op)]
    for value in node.attr.values():
        if value.HasField("func"):
            names.append(str(value.func.name))
        names += [str(function.name) for function in value.list.func]
    return names


def named_in(text: str, ops: Sequence[TracedOp]) -> tuple[Place, ...]:
    """The operations that a text names, in its order; each once.

    Whatever its words are, an error of TensorFlow quotes names of nodes, or puts them into braces.
    """
    words = re.findall(r"\{\{node ([^}]+)\}\}|[`'\"]([\w./\-]+)[`'\"]|([\w.\-]+/[\w./\-]+)", text)
    by_name = {str(traced.definition.name): traced.place for traced in reversed(ops)}
    places = (by_name.get(next(filter(None, word))) for word in words)
    return tuple(dict.fromkeys(place for place in places if place is not None))


def _live(definition: Any) -> set[str]:
    """Names of the nodes of a function that its results or its side effects need."""
    nodes = {node.name: node for node in definition.node_def}
    todo = [*map(source, definition.ret.values()), *definition.control_ret.values()]
    live: set[str] = set()
    while todo:
        name = todo.pop()
        if name in nodes and name not in live:
            live.add(name)
            todo += map(source, nodes[name].input)
    return live


_SHAPES = frozenset({"Const", "Shape", "ShapeN", "Size", "Rank", "ReadVariableOp", "VarHandleOp"})


def _known_nodes(definition: Any) -> set[str]:
    """Names of the nodes whose values follow from constants, shapes and variables alone."""
    names: set[str] = set()
    size = -1
    while size < len(names):
        size = len(names)
        for node in definition.node_def:
            data = _data(node)
            follows = all(source(name) in names for name in data)
            if node.op in _SHAPES or (follows and (data or not node.op.startswith("Placeholder"))):
                names.add(node.name)
    return names


def _data(node: Any) -> list[str]:
    return [name for name in node.input if not name.startswith("^")]


def _body(graph: Any, name: str) -> Any:
    """The graph of a function, where Python traced it; None for a restored one.

    Uses a private attribute, tried on TensorFlow 2.21.0: without it a line is not available.
    """
    return getattr(getattr(graph, "_functions", {}).get(name), "graph", None)


def _place(node: Any, graph: Any, caller: Place, layers: Layers) -> Place:
    return Place(
        op=str(node.op),
        node=f"{caller.node}/{node.name}".lstrip("/"),
        layer=layers.get((graph, node.name), caller.layer),
        line=_line(graph, node.name) or caller.line,
    )


def _line(graph: Any, name: str) -> str:
    """The innermost line of the user's code that made an operation, else of the model's library."""
    try:
        frames = graph.get_operation_by_name(name).traceback or ()  # None in a SavedModel
    except (AttributeError, KeyError, ValueError):
        return ""
    return innermost_line([(frame.filename, frame.lineno) for frame in frames])


class Origins:
    """Find where an operation comes from by its name, in a graph that ran or in a program.

    TensorFlow and XLA keep the names of traced operations, and put what they add below them.
    """

    def __init__(self, ops: Sequence[TracedOp]) -> None:
        places = [traced.place for traced in ops]
        self._layers = {place.node: place.layer for place in places if place.layer}
        self._lines = {place.node: place.line for place in places}
        self._scopes: dict[str, set[str]] = {}
        for node, layer in self._layers.items():
            scope = _scope(node)
            while scope:
                self._scopes.setdefault(scope, set()).add(layer)
                scope = _scope(scope)

    def __call__(self, name: str) -> str:
        """The layer as `name (Class)`, else `at NAME`; "" without a name."""
        scope, layers = name, {self._layers[name]} if name in self._layers else set[str]()
        while scope and not layers:
            layers = self._scopes.get(scope, set())
            scope = _scope(scope)
        return next(iter(layers)) if len(layers) == 1 else f"at {name}" if name else ""

    def line(self, name: str) -> str:
        """The line of Python that made the operation or one that it lies below, or ""."""
        while name and name not in self._lines:
            name = _scope(name)
        return self._lines.get(name, "")


def _scope(name: str) -> str:
    return name.rpartition("/")[0]


_CONTAINERS = CALLS | {*("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase")}
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


def graph_work(graphs: Sequence[Any], origins: Origins) -> dict[str, OpWork]:
    """Work of each operation of the graphs that ran, by its name."""
    return {
        str(node.name): OpWork(
            kind_of(str(node.op)), {_layer(node, origins): 1.0}, origins.line(str(node.name))
        )
        for graph in graphs
        for node in graph.node
        if node.op not in _CONTAINERS
    }


def _layer(node: Any, layer_of: Origins) -> str:
    """Layer of an operation; where TensorFlow merged several, that of the weights."""
    weights = str(node.input[1]) if "Fused" in node.op and len(node.input) > 1 else ""
    return layer_of(source(weights) or str(node.name))


def kind_of(op: str) -> Kind:
    """Main work of an operation of TensorFlow, by its type."""
    if op in BOOKKEEPING:
        return Kind.OTHER
    return next((kind for pattern, kind in _KINDS if pattern.search(op)), Kind.ELEMENTWISE)
