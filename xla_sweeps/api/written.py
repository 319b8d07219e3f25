"""Values that the file of a module writes down for its names; found by reading."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

UNKNOWN, DEFINED = object(), object()
"""No value that a file writes down; and a function or class of it, without decorators."""


def written_in(file: Path | None, held: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, of those that a file binds once; `held` is what its module holds.

    What it computes, imports or changes is not there: it may be another in another process. Nothing
    is where functions were edited since the module was imported: the rest of it may be another too.
    """
    try:
        tree = ast.parse(file.read_bytes() if file else b"")
        code = compile(tree, str(file), "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    functions = {one.co_name: _steps_of(one) for one in code.co_consts if isinstance(one, CodeType)}
    own = {
        name: _steps_of(one.__code__)
        for name, one in held.items()
        if isinstance(one, FunctionType)
        and (one.__module__, one.__qualname__) == (held.get("__name__"), name)
    }
    if any(functions.get(name, one) != one for name, one in own.items()):
        return {}
    counts, changed = Counter(_bound_in(tree)), set(_changed_in(tree))
    values = {name: value for node in tree.body for name, value in _pairs(node)}
    return {
        name: value
        for name, value in values.items()
        if counts[name] == 1 and not counts["*"] and value is not UNKNOWN
        if name not in changed or not isinstance(value, (list, dict))
    }


def _steps_of(code: CodeType) -> tuple[Any, ...]:
    """The steps of a function, wherever it stands in its file."""
    constants = [_steps_of(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, repr(constants)


def _bound_in(tree: ast.Module) -> Iterator[str]:
    """Names that a module binds in its own scope or by `global`, as often as it does."""
    pending: list[ast.AST] = [*tree.body]
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
                inner = [one for one in ast.walk(node) if isinstance(one, ast.Global)]
                yield from (name for one in inner for name in one.names)
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias():
                yield node.asname or node.name.partition(".")[0]
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name
        pending += ast.iter_child_nodes(node)


def _changed_in(tree: ast.Module) -> Iterator[str]:
    """Names of which code takes an attribute, as a method that changes them, or sets a member."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name)):
                yield name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                yield name


def _pairs(node: ast.stmt) -> Iterator[tuple[str, Any]]:
    """Names that a statement binds, each with its value."""
    match node:
        case ast.FunctionDef(decorator_list=[]) | ast.ClassDef(decorator_list=[]):
            yield node.name, DEFINED
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpack(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _unpack(target, value)


def _unpack(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, Any]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, _literal(value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets), ast.Tuple(elts=values) | ast.List(
            elts=values
        ) if len(targets) == len(values):
            for one, its in zip(targets, values, strict=True):
                yield from _unpack(one, its)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return UNKNOWN
