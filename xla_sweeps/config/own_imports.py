"""Files of a module of the user's own, and of the modules that it imports; found by reading."""

from __future__ import annotations

import ast
import importlib.util
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path


def files_of(module: str, find: Callable[[str], Path | None]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the file of a module and of all that it imports, each once.

    `find` gives a module's file; None for one of a library, and where there is none.
    """
    pending, seen = [module], set[str]()
    while pending:
        name = pending.pop()
        file = None if name in seen else find(name)
        seen.add(name)
        if file is None:
            continue
        try:
            content = file.read_bytes()
        except OSError:
            continue
        yield name, content
        pending += _imported_by(content, name if file.stem == "__init__" else parent_of(name))


def parent_of(module: str) -> str:
    """The package that a module is in, or ""."""
    return module.rpartition(".")[0]


def names_of(level: int, module: str, members: Iterable[str], package: str) -> Iterator[str]:
    """Names of the modules that an import may load: those above it, and its members, too.

    `level` is the number of dots before the name, in a module of this package.
    """
    try:
        base = importlib.util.resolve_name(f"{'.' * level}{module}", package)
    except ImportError:  # above the top
        return
    yield from itertools.accumulate(base.split("."), "{}.{}".format)
    yield from (f"{base}.{member}" for member in members)


@lru_cache(maxsize=512)
def _imported_by(content: bytes, package: str) -> tuple[str, ...]:
    """Modules that a source may import, wherever in it; none where it is no Python."""
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = list[str]()
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                names += names_of(0, alias.name, (), "")
        elif isinstance(node, ast.ImportFrom):
            members = [alias.name for alias in node.names]
            names += names_of(node.level, node.module or "", members, package)
    return tuple(dict.fromkeys(names))


def dots_of(file: Path) -> int:
    """The most dots before a name that a file imports relative to its package; 0 for none."""
    nodes = ast.walk(ast.parse(file.read_bytes()))
    return max((node.level for node in nodes if isinstance(node, ast.ImportFrom)), default=0)


def folder_above(file: Path, dots: int) -> Path:
    """The folder above the packages of a file, which lies in as many of them at least."""
    folder = file.parents[min(dots, len(file.parents) - 1)]
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder
