"""The first screen: the answer, who is asked about, the figures behind it; and it keeps still."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from dashboard_page import (
    SECTIONS,
    Show,
    Studies,
    Study,
    answers_of,
    bring,
    draw_everything,
    sums_of,
    turn,
)
from synthetic_rows import DEVICES, WRONG, Row, base_row, compared

from xla_sweeps.report.dashboard import build
from xla_sweeps.report.labels import short_device
from xla_sweeps.report.overall import overall_word
from xla_sweeps.report.sentences import FLAG_TEXTS

pytestmark = pytest.mark.browser

NIGHTLY = pytest.mark.exhaustive

FAILED = {
    **dict.fromkeys(("speedup", "speedup_low", "speedup_high", "p_value")),
    "verdict": "failed",
    "status": "crashed",
    "failed_mode": "xla",
    "failure_message": "the process ended with SIGSEGV",
}

PLACES = """[...document.querySelectorAll('.pickers > *, #reset, #copy-link')]
  .map((element) => { const {left, top, width, height} = element.getBoundingClientRect();
    return [left, top, width, height].map(Math.round).join(' '); })"""


def three_modes(number: int = 1, **changes: Any) -> list[dict[str, Any]]:
    """The rows of a trial of eager, graph and XLA."""
    common = base_row(trial_id=f"{number:016}", **changes)
    costs = {"compile_s_extra": 12.0, "break_even_calls": 1000.0, "peak_memory_ratio": 0.9}
    costs |= {"break_even_low": 900.0, "break_even_high": 1100.0}
    return [
        common | compared(100.0, 132.0, 0.02) | costs,
        common | {"candidate": "graph", "baseline": "eager"} | compared(50.0, 100.0, 0.02),
        common | {"candidate": "xla", "baseline": "eager"} | compared(50.0, 132.0, 0.02),
    ]


def contaminated(count: int, *devices: str) -> list[Row]:
    """The rows of a trial on each of these devices, so many of which are contaminated."""
    return [
        row | {"status": "contaminated" if number < count else "ok"}
        for number, device in enumerate(devices)
        for row in three_modes(number, model=f"m{number}", device=device)
    ]


@pytest.mark.parametrize(
    ("size", "most", "parts"),
    [
        ((1440, 900), 120, ("#filters", "#answer-sentence", "#answer-rows", "#answer-words")),
        ((375, 812), 220, (".pickers", "#answer-sentence")),
        *(pytest.param((width, 800), 120, (), marks=NIGHTLY) for width in (1000, 800)),
    ],
)
def test_the_first_screen_has_the_pickers_and_at_the_top_the_answer(
    show: Show, size: tuple[int, int], most: int, parts: tuple[str, ...]
) -> None:
    browser = show(900, size=size)
    for part in parts:
        box = f"document.querySelector('{part}').getBoundingClientRect()"
        assert 0 < browser.evaluate(f"{box}.bottom") <= size[1], part
    top = "document.querySelector('#answer-sentence').getBoundingClientRect().top"
    assert browser.evaluate(top) <= most
    turn(browser, [("device", DEVICES[0].name), ("model", "resnet")])
    assert browser.evaluate(top) <= most
    assert browser.evaluate("document.getElementById('tokens').textContent.includes('H100')")


def test_a_row_for_each_device_has_its_own_figures(show: Show, study: Studies) -> None:
    page = study(900)
    browser = show(page)
    lines = browser.evaluate(
        """[...document.querySelectorAll('#answer-rows tbody tr')].map((row) =>
          [...row.cells].map((cell) => [...cell.querySelectorAll('.entry')].map((one) =>
            one.innerText).join('\\n') || cell.innerText.trim()))"""
    )
    names = sorted(device.name for device in DEVICES)
    assert [line[0] for line in lines] == [short_device(name) for name in names]
    for name, (_, word, counts, _, cost, best, worst) in zip(names, lines, strict=True):
        rows = answers_of(page.rows, [("device", name)])
        sums = sums_of(rows)
        assert word == overall_word(sums)
        assert re.fullmatch(r"Compiling takes \S+ \S+ to .* of [\d,]+ never pay it back\.", cost)
        for said in counts.splitlines():
            _, number, verdict = said.split()
            assert number == f"{getattr(sums, verdict):,}"
        speedups = [row["speedup"] for row in rows if row["speedup"] is not None]
        for shown, wanted in ((best, max(speedups)), (worst, min(speedups))):
            assert float(shown.split()[-1].rstrip("×*~")) == pytest.approx(wanted, abs=0.006)


TOLD: dict[str, tuple[list[tuple[str, float, int, Row]], list[str]]] = {
    "Mixed CPU": (
        [
            *(("Won", 1.5, 1, {}), ("Won", 1.3, 8, {}), ("Lost", 0.5, 1, {})),
            *(("Lost", 0.6, 8, {}), ("Both", 1.4, 1, {}), ("Both", 0.7, 8, {})),
        ],
        [
            "▲ 3 faster|▼ 3 slower",
            "1.30–1.50× Won|0.500–0.600× Lost|0.700–1.40× Both",
            "Compiling takes 2.00 s to 7.00 s longer; 6 of 6 never pay it back.",
        ],
    ),
    "One GPU": (
        [("a", 2.0, 1, {}), ("b", 1.0, 1, {}), ("c", 8.0, 1, {})],
        [
            "▲ 2 faster|■ 1 equivalent",
            "2.52× (1.00–8.00×) float32",
            "Compiling takes 3.00 s longer; most never pay it back.",
        ],
    ),
    "Two GPU": (
        [("a", 1.2, 1, {}), ("b", 1.5, 8, {}), ("c", 2.0, 1, {"tf32": 1})],
        [
            "▲ 3 faster",
            "1.20–1.50× float32|2.00× TF32",
            "Compiling takes 2.00 s to 4.00 s longer; 3 of 3 never pay it back.",
        ],
    ),
}
"""The family, speedup, batch size and further columns of each row of a device; what it shows."""


def test_a_device_shows_its_precisions_or_mixed_families_and_what_compiling_costs(
    show: Show,
) -> None:
    rows = [
        base_row(trial_id=f"{name}{place:08}", device=name, model=family, family=family)
        | compared(100.0, 100 * speedup, 0.002)
        | {"batch_size": batch, "compile_s_extra": 2.0 + place, **more}
        for name, (measured, _) in TOLD.items()
        for place, (family, speedup, batch, more) in enumerate(measured)
    ]
    browser = show(rows)
    cells = browser.evaluate(
        """[...document.querySelectorAll('.devices tbody tr')].map((row) =>
          [...row.cells].map((cell) => [...cell.querySelectorAll(
            '.entry, div:not(.shares, .legend)')].map((one) => one.innerText.trim()).join('|')
              || cell.innerText.trim()))"""
    )
    assert [line[2:5] for line in cells] == [said for _, said in TOLD.values()]


def test_one_model_on_one_device_has_an_answer_its_modes_and_costs(show: Show) -> None:
    rows = [
        *three_modes(),
        *three_modes(2, model="vgg16"),
        *three_modes(3, device="NVIDIA H100", model="vgg16"),
    ]
    browser = show(rows, [("model", "vgg16")])
    assert browser.evaluate("document.querySelectorAll('#answer-rows .modes').length") == 0
    turn(browser, [("model", "vgg16"), ("device", "NVIDIA H100")])
    said = browser.words("#answer-sentence")
    assert said.startswith(
        "Yes. vgg16 224 px, batch 1, on NVIDIA H100: XLA is 1.32× faster than graph (clear: 95 % "
        "1.29"
    )
    assert "its 12.0 s of compilation pay back after 1,000 calls (900–1,100)." in said
    modes = browser.evaluate(
        """((width) => [...document.querySelectorAll('.modes tbody tr')].map((row) => [
          row.cells[0].innerText, width(row, '.bar') / width(row, '.mode-track'),
          width(row, '.whisker'), row.cells[1].innerText.trim()]))(
          (row, selector) => row.querySelector(selector).getBoundingClientRect().width)"""
    )
    assert [name for name, *_ in modes] == ["eager execution", "graph", "XLA"]
    most = 132.0 * math.exp(0.02 / math.sqrt(2))
    for (_, part, whisker, text), rate in zip(modes, (50.0, 100.0, 132.0), strict=True):
        assert part == pytest.approx(rate / most, abs=0.01)
        assert whisker > 0
        assert text.startswith(f"{rate:#.3g}".rstrip(".") + " img/s (")
    words = browser.words("#answer-rows")
    for figure in ("+12.0 s", "1.00 k images", "0.900×", "5", rows[0]["command"]):
        assert figure in words


def fourth_mode(mode: str, rate: float, width: float = 0.02, **changes: Any) -> list[Row]:
    """The rows of a trial of three modes, and of one more."""
    more = {"candidate": mode, "baseline": "eager"} | compared(50.0, rate, width)
    return [row | changes for row in (*three_modes(), base_row(trial_id=f"{1:016}") | more)]


def test_a_mode_with_wrong_outputs_has_its_status_and_is_not_recommended(show: Show) -> None:
    *rows, other = fourth_mode("autocluster", 300.0)
    lines = "[...document.querySelectorAll('.modes tbody tr')].map((row) => row.innerText)"
    for changes, said in (({}, "300 img/s"), (WRONG, "wrong result")):
        page = [*rows, other | changes | {"failed_mode": "autocluster" if changes else ""}]
        browser = show(page)
        (line,) = (text for text in browser.evaluate(lines) if said in text)
        assert ("img/s" in line) is not bool(changes)
        told = "The fastest way to run it here" in browser.words("#answer-rows")
        assert told is not bool(changes)


@pytest.mark.parametrize(
    ("rate", "width", "changes", "told"),
    [
        (160.0, 0.02, {}, True),
        (135.0, 0.02, {}, False),
        (160.0, 0.3, {}, False),
        (160.0, 0.02, {"scenario": "fit"}, False),
    ],
    ids=["clear", "within noise of XLA", "of a wide interval", "fit"],
)
def test_another_mode_is_recommended_only_if_its_interval_is_above_both_sides_and_never_for_fit(
    show: Show, rate: float, width: float, changes: dict[str, Any], told: bool
) -> None:
    rows = fourth_mode("autocluster", rate, width, **changes)
    browser = show(rows)
    words = browser.words("#answer-rows")
    said = "The fastest way to run it here is auto-clustering: 1.60× as fast as graph."
    assert (said in words) is told
    assert ("The fastest way" in words) is told


@pytest.mark.parametrize(("rate", "is_open"), [(102.0, True), (150.0, False)])
def test_only_an_open_verdict_says_what_settles_it(show: Show, rate: float, is_open: bool) -> None:
    row = base_row(flags="not_converged") | compared(100.0, rate, 0.04)
    row |= {"excluded_above": 0.054, "replicates_to_settle": 39, "replicate_s": 40.0}
    row["caveats"] = f"Note: {FLAG_TEXTS['not_converged']}." if is_open else ""
    browser = show([row])
    said = browser.words("#answer-sentence")
    advice = (
        "A difference above 5.4 % is excluded; about 39 more replicates (effort.replicates=39, "
        "26 min) would settle whether there is one above 1 %."
    )
    assert (advice in said) is is_open
    assert ("(open: 95 % 0.98" in said) is is_open
    assert ("(clear: 95 % 1.4" in said) is not is_open
    more = browser.words("#answer-sub")
    assert ("rounds or time ran out" in more) is is_open


def test_a_device_of_which_nothing_is_known_is_not_measured(show: Show) -> None:
    lost = FAILED | {"verdict": "not_measured", "status": "interrupted"}
    rows = [
        *three_modes(),
        *three_modes(2, model="vgg16"),
        *(row | lost for row in three_modes(3, device="NVIDIA H100")),
    ]
    browser = show(rows)
    lines = browser.evaluate(
        """[...document.querySelectorAll('.devices tbody tr')].map((row) =>
          [...row.cells].map((cell) => cell.innerText.trim()))"""
    )
    assert len(lines) == 2
    assert ["H100", "Not measured.", "", "", "–", "–", "–"] in lines
    assert browser.words("#answer-sentence b") == "Yes."
    turn(browser, [("model", rows[0]["model"])])
    said = browser.words("#answer-sub")
    assert "1 configuration could not be compared" in said
    bring(browser, "#broke-counts")
    assert browser.words("#broke-counts h3") == "1 not measured"


def test_what_was_not_measured_is_no_failure(show: Show) -> None:
    own: dict[int, Row] = {2: {}, 3: {"verdict": "not_measured", "status": "interrupted"}}
    own[4] = {"verdict": "not_measured", "failed_mode": "graph"}
    rows = [
        *three_modes(),
        *(base_row(trial_id=f"{n:016}", model=f"m{n}") | FAILED | own[n] for n in own),
    ]
    browser = show(rows)
    bring(browser, "#broke-counts")
    assert browser.words("#broke-counts h3") == "1 failure of 1 kind, 2 not measured"
    assert browser.words("#shown") == "2 of 4 configurations"


def test_a_devices_sums_are_marked_if_all_its_figures_are_contaminated(show: Show) -> None:
    lines = "[...document.querySelectorAll('.devices tbody tr')].map((row) => row.innerText)"
    for count in (2, 1):
        browser = show(contaminated(count, "NVIDIA A100", "NVIDIA A100", "NVIDIA H100"))
        a100, h100 = browser.evaluate(lines)
        assert ("Yes.~" in a100) is ("float32~" in a100) is (count == 2)
        assert "Yes.~" not in h100


def test_the_headline_says_when_every_figure_is_contaminated(show: Show) -> None:
    bold = "#answer-sentence b"
    for count, word in ((3, "Yes, but every figure is contaminated."), (2, "Yes.")):
        browser = show(contaminated(count, *["NVIDIA A100"] * 3))
        assert browser.words(bold) == word
    turn(browser, [("model", "m0")])
    assert browser.words(bold) == "Yes, but measured on a busy machine."
    turn(browser, [("model", "m2")])
    assert browser.words(bold) == "Yes."


@pytest.mark.parametrize(
    "width",
    [
        *(1280, 730),
        *(pytest.param(each, marks=NIGHTLY) for each in (1100, 1000, 900, 800)),
    ],
)
def test_the_filters_are_in_one_line_that_fits_the_window(show: Show, width: int) -> None:
    browser = show(300, size=(width, 800))
    middles = """[...document.querySelectorAll('.pickers > *')].filter((one) => one.offsetHeight)
      .map((one) => one.getBoundingClientRect()).map(({top, height}) => top + height / 2)"""
    assert max(browser.evaluate(middles)) - min(browser.evaluate(middles)) < 2
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.evaluate(wide) == 0
    browser.click(".more > summary")
    assert browser.evaluate("document.querySelector('#copy-link').offsetHeight > 0")
    assert browser.evaluate(wide) == 0


def test_no_control_moves_when_something_is_chosen(show: Show) -> None:
    browser = show(900, size=(1440, 900))
    before = browser.evaluate(PLACES)
    assert len(before) > 7
    for column, value in (
        ("device", DEVICES[0].name),
        ("device", DEVICES[2].name),
        ("batch_size", "8"),
        ("family", "ResNetV1"),
        ("verdict", "faster"),
    ):
        browser.evaluate(f"xlaSweeps.state.toggle({column!r}, {value!r})")
        browser.wait("xlaSweeps.settled()")
        assert browser.evaluate(PLACES) == before, (column, value)


def test_a_link_to_a_section_leads_to_its_heading(
    browser: Browser, show: Show, study: Studies
) -> None:
    """By a click or from outside, in turn; whatever is drawn on the way, and with motion on."""
    page = study(900)
    away = """((id) => { const bar = document.getElementById('filters').getBoundingClientRect();
      return document.querySelector(`#${id} h2`).getBoundingClientRect().top - bar.bottom; })"""
    end = "Math.ceil(scrollY + innerHeight) >= document.documentElement.scrollHeight"
    for place, section in enumerate(SECTIONS[2::3]):
        if place % 2 == (browser.kind == "firefox"):
            browser.open(f"{page.uri}#{section}")
            browser.wait("document.documentElement.dataset.ready === 'true'")
        else:
            show(page)
            browser.evaluate(f"document.querySelector('nav a[data-to={section}]').click()")
        browser.wait("xlaSweeps.settled()")
        distance = browser.evaluate(f"{away}({section!r})")
        assert 0 <= distance <= 20 or browser.evaluate(end), (section, distance)


def test_the_table_begins_with_model_verdict_and_speedup_and_keeps_the_model(show: Show) -> None:
    browser = show(300, size=(375, 812), draw=draw_everything)
    heads = browser.evaluate(
        """(() => { const box = document.querySelector('.virtual'); box.scrollLeft = 700;
          const left = box.getBoundingClientRect().left;
          return [...box.querySelectorAll('thead th')].slice(0, 3).map((head) => [
            head.dataset.column, Math.round(head.getBoundingClientRect().left - left)]); })()"""
    )
    assert [name for name, _ in heads] == ["model", "verdict", "speedup"]
    assert heads[0][1] == 0
    assert heads[1][1] < 0


def test_the_page_and_the_terminal_give_the_same_answer(show: Show) -> None:
    studies: list[list[float | None]] = [
        [None, None],
        [None, None, 150.0],
        [150.0] * 3,
        [60.0] * 3,
        [150.0, 60.0],
        [*[150.0] * 4, 90.0],
        [*[60.0] * 4, None],
        [100.0] * 4,
    ]
    rows = [
        base_row(trial_id=f"{place:08}{number:08}", model=f"m{number}", family=f"f{place}")
        | (compared(100.0, rate, 0.002) if rate else FAILED)
        for place, rates in enumerate(studies)
        for number, rate in enumerate(rates)
    ]
    for row in rows:
        row["runtime"] = row["family"]
    browser = show(rows)
    for place, rates in enumerate(studies):
        family = f"f{place}"
        turn(browser, [("family", family)])
        figures = sums_of([row for row in rows if row["family"] == family])
        word = overall_word(figures)
        assert browser.words("#answer-sentence b") == word, rates
        if figures.geomean is not None and word not in ("Mixed.", "Not known yet."):
            speedup = browser.words(".devices tbody tr > :nth-child(4)")
            assert speedup.startswith(f"{figures.geomean:#.3g}×"), rates


def test_published_figures_alone_have_an_answer(show: Show, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    build.write_page([tmp_path], page, published=True)
    browser = show(Study(uri=page.as_uri(), rows=[], meta={}, path=page))
    head = browser.words("#answer-head")
    assert "Usually yes, as published. XLA is above eager execution in 42 of 43 published" in head
    words = browser.evaluate(
        "[...document.querySelectorAll('#answer-rows tbody tr')]"
        ".map((row) => [row.cells[0].querySelector('span').title, row.cells[1].innerText])"
    )
    assert dict(words) == {
        "NVIDIA A100": "Usually yes.",
        "NVIDIA T4": "Yes.",
        "NVIDIA V100": "Not measured.",
        "unnamed GPU": "Yes.",
    }
    assert "66 more figures without a ratio of the two modes." in head
    t4 = [("device", "NVIDIA T4"), ("baseline", "eager")]
    for model, said in (
        ("densenet121", "XLA runs 311 img/s more than eager execution."),
        ("vit_s16", "img/s with eager execution."),
    ):
        turn(browser, [*t4, ("model", model)])
        sentence = browser.words("#answer-sentence")
        assert sentence.startswith("Published, not compared.")
        assert said in sentence
        assert "–" not in sentence
    for tab in ("throughput", "absolute", "percent"):
        turn(browser, [("tab", tab)])
        bring(browser, "#podium")
        text = browser.words("#podium")
        best = "mobilenet_v1" if tab != "percent" else "regnetx_002"
        assert best in text, tab
