"""Fail on a function that is named by a participle alone: `merged` says neither who nor what.

A function is a verb with its object (`sort_rows`), or the noun that it returns (`rows_of`).
Properties may be adjectives: `search.exhausted`. Started by `scripts/lint`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

IRREGULAR = frozenset(
    [
        *("begun", "bound", "broken", "built", "chosen", "drawn", "driven", "found", "frozen"),
        *("given", "grown", "held", "hidden", "kept", "known", "left", "lost", "made", "met"),
        *("seen", "sent", "shown", "spent", "taken", "told", "torn", "understood", "won"),
        "written",
    ]
)
NOT_PARTICIPLES = frozenset(
    ["embed", "exceed", "feed", "need", "proceed", "reseed", "seed", "speed"]
)
SEEN_AS_ADJECTIVES = frozenset({"property", "cached_property"})


def participles(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each function of a module that is named so."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
        word = node.name.strip("_")
        regular = word.endswith("ed") and word not in NOT_PARTICIPLES
        alone = "_" not in word and (regular or word in IRREGULAR)
        if alone and not decorators & SEEN_AS_ADJECTIVES:
            yield node.lineno, node.name


def main() -> int:
    """Print each such name with its place; 1 if there is any."""
    bad = [
        f"{path}:{line}: {name}: name it by verb and object"
        for path in sorted(Path("xla_sweeps").rglob("*.py"))
        for line, name in participles(path.read_text(encoding="utf-8"))
    ]
    print(*bad, sep="\n", end="\n" if bad else "")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
