"""The first screen of several devices, precisions, batches, backends and scenarios in one folder.

Every word and number is computed again here, from the rows of the command `results`.
"""

from __future__ import annotations

import csv
import io
import statistics
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from dashboard_page import Show, Study
from in_process import command
from paths import ROOT

from xla_sweeps.report import figures
from xla_sweeps.report.dashboard import build

pytestmark = pytest.mark.browser

ARCHIVES = ("h100_first", "findings", "backends")

DEVICES = {"Intel(R) Xeon(R) Processor": "Xeon", "NVIDIA H100 80GB HBM3": "H100 80GB HBM3"}

LINES = """[...document.querySelectorAll('.devices tbody tr')].map((row) =>
  [...row.cells].map((cell) => [...cell.querySelectorAll('.entry, div:not(.shares, .legend)')]
    .map((one) => one.innerText.trim()).join('|') || cell.innerText.trim()))"""

Row = dict[str, str]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    for name in ARCHIVES:
        with tarfile.open(ROOT / "benchmarks" / "results" / f"{name}.tar.xz") as archive:
            for member in archive.getmembers():
                if member.isfile() and "/records/" in member.name:
                    member.name = "records/" + member.name.partition("/records/")[2]
                    archive.extract(member, folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def page(mixed: Path) -> tuple[Study, str]:
    """The page, and its answer as it was told where it was written."""
    path = mixed / "page.html"
    written = build.write_page([mixed], path)
    return Study(uri=path.as_uri(), rows=[], meta={}, path=path), written.answer


@pytest.fixture(scope="module")
def rows(mixed: Path) -> list[Row]:
    """The calls of XLA against graph, of each question the row with the most replicates."""
    done = command("results", str(mixed), "--format", "csv", cwd=mixed)
    every = [
        row
        for row in csv.DictReader(io.StringIO(done.stdout))
        if (row["scenario"], row["baseline"], row["candidate"]) == ("call", "graph", "xla")
    ]
    asked = ("model", "source", "resolution_px", "batch_size", "precision", "tf32", "device")
    best: dict[tuple[str, ...], Row] = {}
    for row in sorted(every, key=lambda row: (float(row["replicates"]), row["measured_at"])):
        best[tuple(row[name] for name in (*asked, "runtime", "keras"))] = row
    return [row for row in best.values() if row["verdict"] != "not_measured"]


def times(value: float) -> str:
    return f"{value:#.3g}"


def ends(rows: Iterable[Row]) -> str:
    speedups = sorted(float(row["speedup"]) for row in rows)
    low, high = speedups[0], speedups[-1]
    return f"{times(low)}×" if low == high else f"{low:#.3g}–{high:#.3g}×"


def named(families: list[str]) -> str:
    more = f" and {len(families) - 3} more" if len(families) > 3 else ""
    return ", ".join(families[:3]) + more


def speedups_of(own: list[Row], word: str) -> str:
    """Speedups by precision, or of what is mixed by families that gain, lose, or do both."""
    if word != "Mixed.":
        kinds: dict[str, list[Row]] = {}
        for row in own:
            kind = "TF32" if row["tf32"].lower() == "true" else row["precision"]
            kinds.setdefault(kind, []).append(row)
        return "|".join(
            f"{ends(some)} {kind}"
            for kind, some in sorted(kinds.items(), key=lambda one: (-len(one[1]), one[0].lower()))
        )
    families: dict[str, list[Row]] = {}
    for row in sorted(own, key=lambda row: row["family"]):
        families.setdefault(row["family"], []).append(row)
    sides: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for name, some in families.items():
        signs = {float(row["speedup"]) > 1 for row in some}
        sides[0 if len(signs) > 1 else 1 if True in signs else -1].append(name)
    return "|".join(
        f"{ends(row for name in names for row in families[name])} {named(names)}"
        for names in sides.values()
        if names
    )


def cost_of(own: list[Row]) -> str:
    extras = [float(row["compile_s_extra"]) for row in own]
    judged = [row for row in own if row["verdict"] != "ambiguous"]
    never = sum(not row["break_even_calls"] for row in judged)
    if len({(row["batch_size"], row["precision"], row["tf32"]) for row in own}) == 1:
        assert 2 * never > len(judged)
        return f"Compiling takes {statistics.median(extras):#.3g} s longer; most never pay it back."
    low, high = min(extras), max(extras)
    return (
        f"Compiling takes {low:#.3g} s to {high:#.3g} s longer; "
        f"{never} of {len(judged)} never pay it back."
    )


@pytest.mark.exhaustive  # daily: made-up rows in test_first_screen.py
def test_every_word_and_number_of_the_first_screen_is_that_of_its_rows(
    show: Show, page: tuple[Study, str], rows: list[Row]
) -> None:
    study, answer = page
    browser = show(study, size=(1440, 900))
    assert {row["device"] for row in rows} == {*DEVICES}
    assert browser.evaluate("document.getElementById('answer-sentence').innerText.trim()") == (
        "It depends on the device."
    )
    lines = browser.evaluate(LINES)
    assert len(lines) == len(DEVICES)
    said = {}
    for (device, short), line in zip(DEVICES.items(), lines, strict=True):
        own = [row for row in rows if row["device"] == device]
        verdicts = [row["verdict"] for row in own]
        faster, slower = verdicts.count("faster"), verdicts.count("slower")
        word = "Usually yes." if faster >= 0.6 * len(own) else "Mixed."
        counts = {"▲": "faster", "◆": "ambiguous", "▼": "slower"}
        parts = [
            f"{mark} {verdicts.count(name)} {name}"
            for mark, name in counts.items()
            if name in verdicts
        ]
        by_speedup = sorted(own, key=lambda row: float(row["speedup"]))
        best, worst = by_speedup[-1], by_speedup[0]
        marks = [("*" if float(row["replicates"]) < 3 else "") for row in (best, worst)]
        waits = [" h" if row["host_bound"].lower() == "true" else "" for row in (best, worst)]
        assert line[:5] == [short, word, "|".join(parts), speedups_of(own, word), cost_of(own)]
        for cell, row, mark, wait in zip(line[5:], (best, worst), marks, waits, strict=True):
            figure = f"{row['model']} {times(float(row['speedup']))}×{mark}{wait}"
            assert " ".join(cell.split()) == figure
        low, high = (figures.times(float(row["speedup"])) for row in (worst, best))
        said[short] = (
            f"{faster} faster, {slower} slower" if word == "Mixed." else f"{low} to {high}"
        )
    assert answer.startswith(
        f"It depends on the device. Usually yes on H100 80GB HBM3 ({said['H100 80GB HBM3']}), "
        f"mixed on Xeon ({said['Xeon']})."
    )
    models = len({row["model"] for row in rows})
    assert browser.words("#title") == f"XLA against graph in call: {models} models on 2 devices"


@pytest.mark.exhaustive  # daily: a long chart on paper in test_charts.py
def test_the_page_of_two_devices_is_five_sheets_of_paper(
    show: Show, page: tuple[Study, str]
) -> None:
    browser = show(page[0])
    if browser.kind != "chromium":
        pytest.skip("only Chromium prints without a dialog")
    assert 2 < browser.count_sheets() <= 5
