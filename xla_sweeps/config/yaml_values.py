"""Reads a YAML text as plain values: no tags, one document, each key once.

Its size and depth are bounded before (`foreign.read_yaml`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from xla_sweeps.errors import ConfigError

Lines = dict[tuple[str, ...], int]
"""The line of each path of keys."""

_CONVERTED = ("int", "float", "bool", "null")
"""Kinds of plain words that are no text; a date stays a text."""

_KINDS: Mapping[type[yaml.Node], tuple[str, ...]] = {
    yaml.ScalarNode: (*_CONVERTED, "str", "timestamp", "value"),
    yaml.SequenceNode: ("seq",),
    yaml.MappingNode: ("map",),
}


_CONSTRUCTOR = yaml.constructor.SafeConstructor()


def read_values(text: str, *, where: str) -> tuple[Any, Lines]:
    """The values of a text, and the line of every key.

    Args:
        text: YAML.
        where: its file, for errors.

    Raises:
        ConfigError: with the line: not YAML, a tag, a second document, a key that is there twice or
            is no word, a number that is too long.
    """
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError(yaml_message(error, where)) from error
    if len(nodes) > 1:
        raise ConfigError(f"{where}:{line_of(nodes[1])}: a second document; give each a file")
    if not nodes:
        return None, {}
    return _value(nodes[0], where), dict(_lines(nodes[0], ()))


def yaml_message(error: Exception, place: Path | str) -> str:
    """An error of YAML as one line."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return f"{place}: not valid YAML: {problem}"
    name = mark.name if str(mark.name).endswith((".yaml", ".yml")) else place
    return f"{name}:{mark.line + 1}: not valid YAML: {problem}"


def _value(node: yaml.Node, where: str) -> Any:
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind not in _KINDS[type(node)]:
        raise ConfigError(
            f"{where}:{line_of(node)}: the tag {node.tag} is not allowed; write the plain value"
        )
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, where)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, where) for item in node.value]
    try:
        return _CONSTRUCTOR.construct_object(node) if kind in _CONVERTED else node.value
    except (ValueError, KeyError) as error:
        raise ConfigError(
            f"{where}:{line_of(node)}: '{node.value[:40]}' cannot be read as {kind}"
        ) from error


def _mapping(node: yaml.MappingNode, where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    first: dict[str, int] = {}
    for key, value in node.value:
        name, place = key.value, f"{where}:{line_of(key)}"
        if not isinstance(key, yaml.ScalarNode) or key.tag.endswith(":merge"):
            raise ConfigError(f"{place}: expected a word as key")
        if name in first:
            raise ConfigError(f"{place}: '{name}' is already in line {first[name]}; keep one")
        first[name], values[name] = line_of(key), _value(value, where)
    return values


def _lines(node: yaml.Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, line_of(key)
            yield from _lines(value, inner)


def line_of(place: yaml.Node | yaml.Event) -> int:
    """The line of a node or an event, from 1."""
    return int(place.start_mark.line) + 1 if place.start_mark else 0
