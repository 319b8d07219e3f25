"""Join ES modules into one script that needs no imports. Pure.

The page is one file, opened from disk, where a browser loads no module. So the modules are put one
after the other, each after those that it imports, in one scope. `scripts/lint_page` checks imports,
exports and names; here an import or an export is a line of its own, as the page writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import TopologicalSorter

_IMPORT = re.compile(r'^import \{ \w+(?:, \w+)* \} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const|let)\b)", re.MULTILINE)
_MODULE_WORD = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def join_modules(modules: Mapping[str, str]) -> str:
    """The modules as one script, each after those that it imports.

    Args:
        modules: text of each by its name, which is its file's without `.js`.

    Raises:
        ValueError: a line is neither script nor an import or export of the page's form, or modules
            import in a circle.
        KeyError: an imported module is missing.
    """
    order = TopologicalSorter({name: _IMPORT.findall(text) for name, text in modules.items()})
    script = "\n".join(
        _EXPORT.sub("", _IMPORT.sub("", modules[name])) for name in order.static_order()
    )
    if unknown := _MODULE_WORD.search(script):
        raise ValueError(f"not an import or export of the page's form: {unknown[0]!r}")
    return script
