"""Join ES modules into one script that needs no imports. Pure.

The page is one file, opened from disk, where a browser loads no module. So the modules are put one
after the other, each after those that it imports, in one scope. A line is the unit: an import or
an export is written on a line of its own, as the page's scripts write them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

_IMPORT = re.compile(r'import \{ (?P<names>\w+(?:, \w+)*) \} from "\./(?P<module>\w+)\.js";\n')
_DECLARED = re.compile(
    r"(?P<export>export )?(?:async function|function|class|const|let) "
    r"(?P<names>\w+|\[\w+(?:, \w+)*\])(?!\w)"
)
_MODULE_WORD = re.compile(r"(?:import|export)\b.*")


class ModuleError(ValueError):
    """Modules that cannot be joined: which, and why."""


def joined(modules: Mapping[str, str], start: str) -> str:
    """The modules that `start` needs as one script, `start` last.

    Args:
        modules: text of each by its name, which is its file's without `.js`.
        start: the module that the page runs.

    Raises:
        ModuleError: a module is missing, unused or imports in a circle; an import is not exported;
            a name is declared twice; or a line is neither script nor an import of this form.
    """
    order = _ordered(modules)
    imported = {match["module"] for text in modules.values() for match in _imports(text)}
    if unused := modules.keys() - imported - {start}:
        raise ModuleError(f"{_listed(unused)}: no module imports it")
    owners = dict[str, str]()
    exported = dict[str, set[str]]()
    for name in order:
        exported[name] = set()
        for match in _declarations(modules[name]):
            for declared in re.findall(r"\w+", match["names"]):
                if declared in owners:
                    places = f"{owners[declared]}.js and {name}.js"
                    raise ModuleError(f"{places} both declare {declared}: rename one")
                owners[declared] = name
                if match["export"]:
                    exported[name].add(declared)
        for match in _imports(modules[name]):
            missing = set(match["names"].split(", ")) - exported[match["module"]]
            if missing:
                raise ModuleError(
                    f"{name}.js imports {_listed(missing)} of {match['module']}.js, "
                    "which does not export it"
                )
    return "\n".join(_stripped(name, modules[name]) for name in order)


def _ordered(modules: Mapping[str, str]) -> list[str]:
    """The modules, each after those that it imports."""
    needed = {name: [match["module"] for match in _imports(text)] for name, text in modules.items()}
    for name, others in needed.items():
        if missing := set(others) - modules.keys():
            raise ModuleError(f"{name}.js imports {_listed(missing)}.js, which does not exist")
    try:
        return list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        raise ModuleError(f"imports in a circle: {' -> '.join(error.args[1])}") from None


def _imports(text: str) -> list[re.Match[str]]:
    return [match for line in text.splitlines(keepends=True) if (match := _IMPORT.fullmatch(line))]


def _declarations(text: str) -> list[re.Match[str]]:
    return [match for line in text.splitlines() if (match := _DECLARED.match(line))]


def _stripped(name: str, text: str) -> str:
    """A module's text without imports and the word `export`."""
    lines = list[str]()
    for line in text.splitlines(keepends=True):
        if _IMPORT.fullmatch(line):
            continue
        declared = _DECLARED.match(line)
        lines.append(line.removeprefix("export ") if declared else line)
        if _MODULE_WORD.match(lines[-1]):
            raise ModuleError(f"{name}.js: not an import or export of the page's form: {line!r}")
    return "".join(lines)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
