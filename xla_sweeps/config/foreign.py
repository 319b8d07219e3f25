"""Limits of what somebody else's file or server may set.

A sweep file, the JSON argument of a W&B agent and the files below `--config-dir` set a trial's
values and nothing else. What reaches the file system, code or Hydra comes from the words that a
person typed, or from a folder that a person trusts (`--trust-config`). Whatever is refused is a
`ConfigError` that begins with its place: `where`, or the file and line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from xla_sweeps.config.runtime import check_flags, flag_options
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.options import BY_NAME, GROUPS, unknown_option
from xla_sweeps.system.files import read_regular
from xla_sweeps.system.text import has_credentials, redact

MAX_YAML_BYTES = 2**20

MAX_YAML_DEPTH = 32

_KEY = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")

_WORD = r"\w[\w-]*(?:\.\d[\w-]*)*"

_NAME = re.compile(_WORD)

MAX_ITEMS = 1000
"""Most values, at every depth, of one option."""

MAX_CHARACTERS = 10_000
"""Most characters of one text."""

HYDRA_KEYS = ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir")
"""Hydra's own keys that a person may set, besides its launcher's."""

_HEADER = re.compile(r"\s*#\s*@")

_IF_YOURS = "; if the folder is yours: --trust-config DIR"

_PACKAGES = ("@package _global_", "@package _group_")

_DEFAULT = re.compile(rf"(?:override\s+|optional\s+)*/?{_WORD}(?:/{_WORD})*")
"""A group or a file in a `defaults` list."""


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


def check_value(key: str, value: Any, *, where: str) -> None:
    """Refuse what a sweep file or a server may not set; the key is flat: `effort.block_s`."""
    check_text(key, where=where)
    name, _, inner = key.partition(".")
    if name not in BY_NAME or not _KEY.fullmatch(key):
        raise ConfigError(f"{where}: {unknown_option(key)}")
    option = BY_NAME[name]
    if option.foreign == "nothing":
        raise ConfigError(
            f"{where}: {name} names files or runs code, which only your own command line may: "
            f"remove it here and add {option.usage} there"
        )
    if inner and not (option.keys or option.open_keys):
        raise ConfigError(f"{where}: {key}: {name} has no keys; write {option.usage}")
    check_size(value, where=f"{where}: {key}")
    for text in texts(value):
        check_text(text, where=f"{where}: {key}", free=key == "tracker.notes")
    if name in flag_options():
        check_flags({inner: value} if inner else value, where=f"{where}: {name}")
    named = option.foreign == "name" and inner in ("", "name")
    is_file = name == "weights" and isinstance(value, str) and os.path.lexists(value[:255])
    if named and isinstance(value, str) and (is_file or not is_name(value)):
        why = f"expected a name; a path or an address goes on your own command line: {option.usage}"
        raise ConfigError(f"{where}: {key}={value}: {why}")


def is_name(text: str) -> bool:
    """True if it is a choice or a preset: no path, no address and no file's name."""
    return _NAME.fullmatch(text) is not None


def may_set(key: str, value: Any) -> bool:
    """True if a file or a server may set an option to this value."""
    try:
        check_value(key, value, where="")
    except ConfigError:
        return False
    return True


def check_size(value: Any, *, where: str) -> None:
    """Refuse a value that is too large or too deep to be worked on."""
    level, depth, count = [value], 0, 0
    while level:
        count += len(level)
        if count > MAX_ITEMS:
            raise ConfigError(f"{where}: more than {MAX_ITEMS:,} values")
        if depth > MAX_YAML_DEPTH:
            raise ConfigError(f"{where}: nested deeper than {MAX_YAML_DEPTH} levels")
        if any(isinstance(part, str) and len(part) > MAX_CHARACTERS for part in level):
            raise ConfigError(f"{where}: a text of more than {MAX_CHARACTERS:,} characters")
        level = [inner for part in level for inner in _parts(part)]
        depth += 1


def check_text(text: str, *, where: str, free: bool = False) -> None:
    """Refuse an interpolation, code and characters that cannot be shown.

    Only prose (`free`) may have new lines and amounts in $.
    """
    if "${" in text or ("$" in text and not free):
        raise ConfigError(f"{where}: '{text[:60]}' holds a $: write the value itself")
    if free:
        text = text.replace("\n", "").replace("\t", "")
    if not text.isprintable():
        raise ConfigError(f"{where}: {text!r} holds a control character; remove it")
    check_safe(text, where=where)


def check_safe(text: str, *, where: str) -> None:
    """Refuse code, and a password or a token in an address, which every record would hold."""
    if "_target_" in text:
        raise ConfigError(f"_target_ in {where}: configuration never runs code; remove it")
    if has_credentials(text):
        raise ConfigError(
            f"{redact(where)}: {redact(text)} holds credentials, which records and W&B would "
            "keep; download the file and give its path"
        )


def read_yaml(path: Path) -> str:
    """The text of a YAML file that is safe to parse: bounded in size and depth, without aliases."""
    try:
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        text = read_regular(path.resolve(), limit=MAX_YAML_BYTES).decode("utf-8")
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                never = "YAML aliases are not allowed; write the value itself"
                raise ConfigError(f"{path}:{line_of(event)}: {never}")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_YAML_DEPTH:
                where = f"{path}:{line_of(event)}"
                raise ConfigError(f"{where}: nested deeper than {MAX_YAML_DEPTH} levels")
        return text
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(yaml_message(error, path)) from error


def read_values(text: str, *, where: str) -> tuple[Any, Lines]:
    """The plain values of a text that `read_yaml` gave, and the line of every key.

    Refused are a tag, a second document, a number that is too long, and a key that is there twice
    or is no word.
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
    """An error of YAML or of its encoding as one line."""
    if isinstance(error, UnicodeDecodeError):
        return f"{place}: not UTF-8 (byte {error.start:,}); save it as UTF-8"
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return f"{place}: not valid YAML: {problem}"
    name = mark.name if str(mark.name).endswith((".yaml", ".yml")) else place
    return f"{name}:{mark.line + 1}: not valid YAML: {problem}"


def line_of(place: yaml.Node | yaml.Event) -> int:
    """The line of a node or an event, from 1."""
    return int(place.start_mark.line) + 1 if place.start_mark else 0


def configuration_text(folder: Path, name: str, *, trusted: bool) -> str:
    """The text of a file below a folder of configuration, checked; links are refused.

    A `trusted` file may set what a person may type.
    """
    path = folder / name
    if ".." in path.parts[len(folder.parts) :]:
        raise ConfigError(f"{path}: expected a file below {folder}")
    for place in (path, *path.parents[: len(Path(name).parts) - 1]):
        if place.is_symlink():
            raise ConfigError(f"{place}: links are not followed here; put the file itself there")
    text = read_yaml(path)
    _check_header(text, path)
    values, lines = read_values(text, where=str(path))
    check_size(values, where=str(path))
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not trusted and name.startswith("hydra/"):
        raise _hydra(str(path))
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if key.value == "defaults":
                _check_defaults(value, path, trusted=trusted)
        if trusted:
            _check_own(values, lines, path)
        else:
            _check_foreign(root, values, path)
    return text


def _check_own(values: Mapping[str, Any], lines: Lines, path: Path) -> None:
    """Refuse code, and keys of Hydra that nobody may type."""
    for text in texts(values):
        check_safe(text, where=str(path))
    allowed = (*(f"{key}." for key in HYDRA_KEYS), "hydra.launcher.", "hydra.sweeper.params.")
    for keys in lines:
        key = f"{'.'.join(keys)}."
        if keys[0] == "hydra" and not any(
            key.startswith(each) or each.startswith(key) for each in allowed
        ):
            names = ", ".join(each.rstrip(".") for each in allowed)
            raise ConfigError(f"{path}:{lines[keys]}: {key[:-1]}: of Hydra a file may set {names}")


def _check_foreign(root: yaml.MappingNode, values: Mapping[str, Any], path: Path) -> None:
    """Refuse keys that reach files, code or Hydra."""
    for key, _ in root.value:
        name = str(key.value)
        if name in BY_NAME and BY_NAME[name].foreign != "value":
            try:
                check_value(name, values[name], where=f"{path}:{line_of(key)}")
            except ConfigError as error:
                raise ConfigError(f"{error}{_IF_YOURS}") from error
    if flag_options().intersection(path.parts):
        check_flags(values, where=str(path))
    for node in _nodes(root):
        if isinstance(node, yaml.MappingNode):
            for key, inner in node.value:
                if re.match(r"(override\s+)?/?hydra\b", str(key.value)):
                    raise _hydra(f"{path}:{line_of(key)}")
                if key.value in flag_options():
                    place = f"{path}:{line_of(key)}: {key.value}"
                    check_flags(_value(inner, str(path)), where=place)
        elif isinstance(node, yaml.ScalarNode):
            check_text(node.value, where=f"{path}:{line_of(node)}", free=True)


def _check_header(text: str, path: Path) -> None:
    """Refuse headers of Hydra but the two harmless ones, in the first line."""
    lines = text.strip().splitlines()
    for number, line in enumerate(lines):
        if not _HEADER.match(line):
            continue
        header = " ".join(line.strip().lstrip("#").split())
        if header not in _PACKAGES:
            raise ConfigError(f"{path}: '{line.strip()}': allowed are {' and '.join(_PACKAGES)}")
        if number:
            raise ConfigError(f"{path}: '# {header}' must be the first line, or Hydra ignores it")


def _check_defaults(node: yaml.Node, path: Path, *, trusted: bool) -> None:
    """Refuse entries that leave the folder, or land elsewhere than where their group says."""
    for entry in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        pairs = entry.value if isinstance(entry, yaml.MappingNode) else [(entry, None)]
        for key, value in pairs:
            where = f"{path}:{line_of(key)}"
            chosen = [] if value is None else [one.value for one in _nodes(value)]
            words = [str(key.value), *(word for word in chosen if isinstance(word, str))]
            launcher = trusted and re.fullmatch(r"override\s+/?hydra/launcher", words[0])
            if "hydra" in re.split(r"[\s/]+", words[0]) and not launcher:
                raise _hydra(where)
            text = not isinstance(value, yaml.ScalarNode) or value.tag.endswith(":str")
            if not text and words[0].split()[-1].strip("/") in GROUPS:
                quoted = f"'{words[1] or 'null'}'"
                raise ConfigError(f"{where}: defaults: {words[0]}: expected a string: {quoted}")
            for word in words:
                if word and not _DEFAULT.fullmatch(word):
                    raise ConfigError(f"{where}: defaults: '{word}': expected the name of a file")


def _hydra(where: str) -> ConfigError:
    return ConfigError(
        f"{where}: a file may not configure Hydra; your own command line may set hydra.run.dir, "
        f"hydra.sweep.* and hydra.launcher{_IF_YOURS}"
    )


def _value(node: yaml.Node, where: str) -> Any:
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if kind not in _KINDS[type(node)]:
        tagged = f"{where}:{line_of(node)}: the tag {node.tag}"
        raise ConfigError(f"{tagged} is not allowed; write the plain value")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, where)
    if isinstance(node, yaml.SequenceNode):
        return [_value(element, where) for element in node.value]
    try:
        return _CONSTRUCTOR.construct_object(node) if kind in _CONVERTED else node.value
    except (ValueError, KeyError) as error:
        text = f"{where}:{line_of(node)}: '{node.value[:40]}'"
        raise ConfigError(f"{text} cannot be read as {kind}") from error


def _mapping(node: yaml.MappingNode, where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    first: dict[str, int] = {}
    for key, value in node.value:
        name, place = key.value, f"{where}:{line_of(key)}"
        merges = key.tag.endswith(":merge")
        if not isinstance(key, yaml.ScalarNode) or merges:
            fix = ", not <<; write the keys themselves" if merges else ""
            raise ConfigError(f"{place}: expected a word as key{fix}")
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


def _nodes(node: yaml.Node) -> Iterator[yaml.Node]:
    yield node
    for part in node.value if isinstance(node, yaml.CollectionNode) else ():
        for inner in part if isinstance(node, yaml.MappingNode) else (part,):
            yield from _nodes(inner)


def texts(value: Any) -> Iterator[str]:
    """Every text in plain data, keys included."""
    if isinstance(value, str):
        yield value
    for part in _parts(value):
        yield from texts(part)


def _parts(value: Any) -> Collection[Any]:
    """The keys and values of a mapping, or the items of a list."""
    if isinstance(value, Mapping):
        return [*value, *value.values()]
    return value if isinstance(value, list | tuple) else ()
