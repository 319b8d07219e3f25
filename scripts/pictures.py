"""Make the pictures in docs/: the structure, the page, a trial. Started by `scripts/pictures`."""

from __future__ import annotations

import contextlib
import html
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import grimp
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT))

PACKAGE = "xla_sweeps"

MAIN_JOB = ("model=efficientnetv2s", "jit=true")

COLUMNS = 80
"""Width of the terminal in the trial's picture."""

ABOUT = 72
"""Characters of a package's description that fit into its box."""

INK, FAINT, PAPER, LINE = "#1f2328", "#59636e", "#ffffff", "#d1d9e0"

COLOURS = {
    "__main__": "#59636e",
    "cli": "#0969da",
    "sweep": "#8250df",
    "report": "#bf3989",
    "backends": "#bc4c00",
    "worker": "#953800",
    "measure": "#9a6700",
    "results": "#1a7f37",
    "config": "#0e7490",
    "analysis": "#4d2d00",
    "system": "#57606a",
    "schema": "#24292f",
    "errors": "#59636e",
}
"""A colour for each package, of its box and of the lines from it to what it imports."""


def main(arguments: list[str]) -> None:
    """Make the pictures that are named."""
    match arguments:
        case []:
            structure(DOCS / "structure.svg")
            page(DOCS / "dashboard.png")
        case ["structure"]:
            structure(DOCS / "structure.svg")
        case ["page"]:
            page(DOCS / "dashboard.png")
        case ["trial", *folder] if len(folder) < 2:
            trial(DOCS / "trial.svg", Path(folder[0]) if folder else None)
        case _:
            sys.exit("usage: scripts/pictures [structure | page | trial [RESULTS_DIR]]")


# The structure: a box for each package, a line for each pair of packages that import.


@dataclass
class Box:
    """A package in the picture: the packages in it, and its place."""

    name: str
    nested: str
    about: str
    top: float = 0.0

    @property
    def height(self) -> float:
        """Pixels: the name's line, and one for nested packages."""
        return 43 if self.nested else 28


def structure(output: Path) -> None:
    """Draw the layers of pyproject.toml and the imports between packages."""
    graph = grimp.build_graph(PACKAGE)
    imports = {
        (_package(module), _package(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    }
    layers = [[_box(name, graph) for name in layer] for layer in _layers()]
    width, left, right, y = 960.0, 16.0, 640.0, 52.0
    parts = []
    for layer in layers:
        height = sum(box.height + 8 for box in layer) + 8
        parts.append(_rect(left - 8, y, right - left + 16, height, "#f6f8fa", LINE))
        y += 8
        for box in layer:
            box.top = y
            parts += _drawn(box, left, right)
            y += box.height + 8
        y += 8
    boxes = {box.name: box for layer in layers for box in layer}
    parts += _arcs(imports, boxes, right)
    title = "Imports point down only"
    height = y + 28
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" font-family="ui-sans-serif, system-ui, sans-serif">'
        f"<title>{PACKAGE}: {title.lower()}</title>"
    )
    note = "one band is one layer; a line goes from the importer to what it imports"
    texts = [
        _text(left, 32, title, size=18, weight=600),
        _text(left, height - 12, note, size=12, fill=FAINT),
    ]
    sheet = _rect(0.5, 0.5, width - 1, height - 1, PAPER, LINE)
    output.write_text("\n".join([head, sheet, *texts, *parts, "</svg>", ""]), encoding="utf-8")


def _layers() -> list[list[str]]:
    """The layers of the import contract, top to bottom, siblings together."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in re.split("[|:]", layer)] for layer in layers]


def _package(module: str) -> str:
    """The package below `xla_sweeps` that a module belongs to; the root's own is `__init__`."""
    return module.partition(".")[2].partition(".")[0] or "__init__"


def _box(name: str, graph: grimp.ImportGraph) -> Box:
    """A package's box: what it is about, and the packages in it."""
    path = f"{PACKAGE}.{name}"
    nested = [
        module.removeprefix(f"{path}.").replace(".", "/") + "/"
        for module in sorted(graph.find_descendants(path))
        if graph.find_children(module)
    ]
    folder = ROOT / PACKAGE / name
    source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    about = source.read_text(encoding="utf-8").split('"""')[1].strip().splitlines()[0]
    if len(about) > ABOUT:
        about = re.split("[:;,.] ", about)[0]
    return Box(name, "   ".join(nested), about.replace("`", "").rstrip("."))


def _drawn(box: Box, left: float, right: float) -> Iterator[str]:
    colour = COLOURS.get(box.name, INK)
    yield _rect(left, box.top, right - left, box.height, PAPER, LINE)
    yield f'<rect x="{left:g}" y="{box.top:g}" width="5" height="{box.height:g}" fill="{colour}"/>'
    name = f"{box.name}/" if (ROOT / PACKAGE / box.name).is_dir() else f"{box.name}.py"
    yield _text(left + 16, box.top + 19, name, size=14, weight=700, fill=colour)
    yield _text(left + 16 + max(84, 10 * len(name)), box.top + 19, box.about, size=12, fill=FAINT)
    if box.nested:
        yield _text(left + 16, box.top + 36, box.nested, size=11.5, mono=True)


def _arcs(
    imports: Collection[tuple[str, str]], boxes: dict[str, Box], edge: float
) -> Iterator[str]:
    """A curve on the right for each pair of packages; the longer, the further out."""
    pairs = sorted(pair for pair in imports if pair[0] != pair[1] and set(pair) <= set(boxes))
    order = list(boxes)
    ends: dict[tuple[str, str, str], float] = {}
    for name, box in boxes.items():
        out = sorted((p for p in pairs if p[0] == name), key=lambda p: -order.index(p[1]))
        into = sorted((p for p in pairs if p[1] == name), key=lambda p: -order.index(p[0]))
        places = [*((*pair, "in") for pair in into), *((*pair, "out") for pair in out)]
        step = box.height / (len(places) + 1)
        ends |= {place: box.top + step * (index + 1) for index, place in enumerate(places)}
    for pair in pairs:
        start, end = ends[(*pair, "out")], ends[(*pair, "in")]
        reach = edge + 24 + 0.42 * abs(end - start)
        colour = COLOURS.get(pair[0], INK)
        yield (
            f'<path d="M{edge + 1:g} {start:.1f}C{reach:.1f} {start:.1f} {reach:.1f} {end:.1f} '
            f'{edge + 9:g} {end:.1f}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-opacity=".62"><title>{pair[0]} imports {pair[1]}</title>'
            "</path>"
            f'<path d="M{edge + 1:g} {end:.1f}l9 -4v8z" fill="{colour}"/>'
        )


def _rect(x: float, y: float, width: float, height: float, fill: str, stroke: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
        f'fill="{fill}" stroke="{stroke}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: float,
    fill: str = INK,
    weight: int = 400,
    mono: bool = False,
) -> str:
    family = ' font-family="ui-monospace, SFMono-Regular, Menlo, monospace"' if mono else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" font-weight="{weight}" '
        f'fill="{fill}" xml:space="preserve"{family}>{html.escape(text)}</text>'
    )


# The page: of the table in docs/findings.md, photographed by Chromium.


def page(output: Path) -> None:
    """Draw the page of the records of docs/findings.md, and photograph its top."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if chromium is None:
        sys.exit("scripts/pictures: the page's picture needs chromium or google-chrome")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(ROOT / "benchmarks" / "results" / "findings.tar.xz") as records:
            records.extractall(folder, filter="data")
        made = Path(folder, "page.html")
        words = (*("dashboard", f"{folder}/findings", "-o", str(made)), "--where", "scenario=call")
        command = [sys.executable, "-m", PACKAGE, *words, "--title", "XLA on a 2-core CPU"]
        subprocess.run(command, check=True, cwd=ROOT)
        subprocess.run(
            [
                *(chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"),
                *("--window-size=1000,1014", "--force-device-scale-factor=1.5"),
                *("--virtual-time-budget=8000", f"--user-data-dir={folder}/profile"),
                *(f"--screenshot={output}", made.as_uri()),
            ],
            check=True,
            timeout=120,
            capture_output=True,
        )


# A trial: the terminal's output, as rich draws it.


def trial(output: Path, results: Path | None) -> None:
    """Draw the newest trial of a results folder, measured now where none is given."""
    with tempfile.TemporaryDirectory() as folder:
        if results is None:
            results = Path(folder)
            command = [sys.executable, "-m", PACKAGE, *MAIN_JOB, "tracker=none", "ui=plain"]
            subprocess.run([*command, f"results_dir={folder}"], cwd=ROOT, check=True)
        shown, words = _shown(results)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    console.print(Text.assemble(("$ ", "bold green"), words))
    console.print(Text.from_ansi(shown.rstrip()), soft_wrap=True)
    drawn = console.export_svg(title=words, unique_id="trial")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # loads nothing
    output.write_text(re.sub(r"[ \t]+$", "", drawn, flags=re.MULTILINE), encoding="utf-8")


def _shown(results: Path) -> tuple[str, str]:
    """The terminal's output at the end of the newest trial, with colours, and its command."""
    os.environ |= {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    from xla_sweeps.analysis.provenance import command_of
    from xla_sweeps.analysis.summary import summarize
    from xla_sweeps.report.terminal.tables import show_trial
    from xla_sweeps.store.store import Store

    groups = Store(results).load().records.values()
    records = max(groups, key=lambda group: max(record.started_at for record in group))
    summary = summarize(records)
    if "contaminated" in summary.flags:
        print("scripts/pictures: the machine was not quiet; measure again", file=sys.stderr)
    last = max(records, key=lambda record: record.replicate)
    places = {"record": f"results/records/{last.trial_id}/{last.replicate}.json"}
    with contextlib.redirect_stdout(io.StringIO()) as screen:
        show_trial(summary, places=places)
    command = command_of(last).replace("python -m xla_sweeps", "scripts/run")
    return screen.getvalue(), command.replace(" source=applications", "")


if __name__ == "__main__":
    main(sys.argv[1:])
