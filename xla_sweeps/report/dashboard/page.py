"""Put the page together: markup, style, scripts and data in one file that needs nothing else.

The scripts and the style are named in the page's Content-Security-Policy by their hashes, and
nothing may be loaded from anywhere. Untrusted text reaches the file only inside the packed data,
which is base64. The library and the page's own scripts are gzipped too, which halves the file;
`loader.js` unpacks and runs them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from graphlib import TopologicalSorter
from importlib import resources
from typing import Any

from xla_sweeps.analysis.cost import COSTS
from xla_sweeps.analysis.interval import MOST_TO_SETTLE
from xla_sweeps.analysis.measured import NOT_AVAILABLE
from xla_sweeps.report import advice, sentences
from xla_sweeps.schema.comparisons import headline_of
from xla_sweeps.schema.modes import MODES, SCENARIOS, Execution
from xla_sweeps.schema.row import COLUMNS

PACKAGE: Mapping[str, Any] = {
    "question": [
        {"column": name, **{key: text for key, text in asdict(column.asked).items() if text}}
        | ({"isSwitch": True} if column.kind is bool else {})
        for name, column in COLUMNS.items()
        if column.asked
    ],
    "sentences": sentences.SENTENCES,
    "failures": sentences.FAILURES,
    "rules": [rule._asdict() for rule in sentences.RULES],
    "otherwise": sentences.OTHERWISE,
    "agreeing": sentences.AGREEING,
    "usually": sentences.USUALLY,
    "symbols": advice.SYMBOLS,
    "contaminated": advice.CONTAMINATED,
    "most_to_settle": MOST_TO_SETTLE,
    "flags": sentences.FLAG_TEXTS,
    "headlines": {scenario: headline_of(scenario) for scenario in SCENARIOS},
    "names": {mode: mode.called for mode in MODES.values()},
    "calls": {scenario: facts.call for scenario, facts in SCENARIOS.items()},
    "switches": {mode: mode.switch for mode in MODES.values()},
    "remarks": sentences.REMARKS,
    "executions": {mode: mode.execution for mode in MODES.values()},
    "chosen": [execution for execution in Execution if execution.is_chosen],
    "costs": tuple(COSTS),
    "not_available": NOT_AVAILABLE,
}
"""Facts and sentences of the package that the scripts share, as their constant `PACKAGE`."""

_IMPORT = re.compile(r'^import \{ \w+(?:, \w+)* \} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const|let)\b)", re.MULTILINE)
_MODULE_WORD = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)

_ASSETS = resources.files("xla_sweeps.report.dashboard") / "assets"


def render(packed: bytes, *, title: str) -> str:
    """The whole page of `build.pack`'s bytes; the title is plain text, which is escaped here."""
    style, loader = _asset("page.css"), _asset("loader.js")
    library = _asset("plot.min.js")
    package = json.dumps(PACKAGE).replace("<", "\\u003c")  # no text in it ends the script early
    program = join_modules(scripts())
    program = f'"use strict";\n(() => {{\nconst PACKAGE = {package};\n{program}\n}})();\n'
    hashes = " ".join(map(_hash, (loader, library, program)))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "title": html.escape(title),
        "policy": html.escape(policy, quote=True),
        "style": style,
        "body": _asset("body.html"),
        "data": base64.b64encode(packed).decode(),
        "notices": library[: library.index("*/")].removeprefix("/*!").strip(),
        "library": _pack(library),
        "program": _pack(program),
        "loader": loader,
    }
    page = _asset("page.html")
    for name, text in parts.items():
        before, _, after = page.partition(f"<!--{name}-->")
        page = before + text + after
    return page


def scripts() -> dict[str, str]:
    """The page's own modules: the text of each by its name."""
    names = sorted(file.name for file in (_ASSETS / "page").iterdir())
    return {name[:-3]: _asset(f"page/{name}") for name in names if name.endswith(".js")}


def join_modules(modules: Mapping[str, str]) -> str:
    """The modules as one script in one scope, each after those that it imports.

    A browser loads no module from disk. `scripts/lint_page` checks imports, exports and names; here
    an import or an export is a line of its own, as the page writes them.

    Raises:
        ValueError: a line is of another form, or modules import in a circle.
    """
    order = TopologicalSorter({name: _IMPORT.findall(text) for name, text in modules.items()})
    script = "\n".join(
        _EXPORT.sub("", _IMPORT.sub("", modules[name])) for name in order.static_order()
    )
    if unknown := _MODULE_WORD.search(script):
        raise ValueError(f"not an import or export of the page's form: {unknown[0]!r}")
    return script


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _pack(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _asset(name: str) -> str:
    """A file of the page's; no script and no style of these ends its element early."""
    return (_ASSETS / name).read_text(encoding="utf-8")
