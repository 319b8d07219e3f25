"""The text of the W&B report: computed answers, stated limits, and outside text without markup."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pyarrow
import pytest
from changed_rows import with_columns
from comparisons import side, trial
from live_markdown import live
from markdown_it import MarkdownIt
from report_rows import failed, pair, text_of
from shown import text_shown

from xla_sweeps.analysis.changes import difference_of
from xla_sweeps.analysis.overview import by_device, overview
from xla_sweeps.report import changes, study
from xla_sweeps.report.dashboard import build
from xla_sweeps.report.overall import overall_answer
from xla_sweeps.report.terminal.changes import show_difference
from xla_sweeps.report.terminal.sweep_summary import show_verdicts
from xla_sweeps.report.wandb_report.text import environment, sections
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.table import table_of


def test_the_questions_are_those_of_the_page_in_its_order_and_each_says_something() -> None:
    asked = ["answer", "where", "fastest", "flops", "cost", "compare", "everything"]
    rows = [pair(), pair(2), pair(batch_size=32)]
    assert [section["key"] for section in sections(rows, 3)] == asked
    asked.remove("compare")
    assert [section["key"] for section in sections(rows[:2], 3)] == asked
    for few in ([], rows[:1], rows[1:]):
        made = sections(few, 3)
        assert [section["key"] for section in made] == ["answer", "fastest", "everything"]
        assert all(section["text"].strip() for section in made)
        assert all(section["settings"] == [] for section in made), "no panel of one run"


def test_the_answer_is_that_of_the_overview_and_explains_its_words() -> None:
    rows = [pair(1, 2.0), pair(2, 0.5), pair(3, 4.0, family="Other"), failed(4)]
    text = text_of("answer", rows)
    assert text.startswith(overall_answer(overview(rows)))
    assert "with XLA (`xla`: `jit_compile=True`)" in text
    assert "without (`graph`: `tf.function(jit_compile=False)`)" in text
    assert "A *configuration* is one model at one size and batch on one device" in text


def test_no_mean_mixes_devices_or_batches() -> None:
    rows = [pair(1, 4.0, device="A"), pair(2, 4.0, device="A")]
    assert "typically 4.00×" in text_of("answer", rows)
    for other in (pair(2, 2.0, device="B"), pair(2, 2.0, device="A", batch_size=32)):
        every = [*rows, other]
        told = overall_answer(overview(every), by_device(every))
        assert text_of("answer", every).startswith(told)
        assert "typically" not in told


def test_a_device_has_panels_of_the_setting_with_its_most_pairs() -> None:
    """B has more pairs at batch 32; batch 4 and the device alone are varied from there."""
    rows = [
        pair(1, 4.0, device="A"),
        pair(2, 4.0, device="A"),
        pair(1, 0.25, device="A", resolution_px=384),
        pair(2, 2.0, device="B"),
        pair(1, 0.125, device="B", batch_size=32),
        pair(3, 8.0, device="B", batch_size=32),
        pair(4, 8.0, device="B", batch_size=32),
    ]
    settings = sections(rows, 3)[0]["settings"]
    assert [(one["title"], one["varied"]) for one in settings] == [
        ("B, 224 px, batch 32", ["batch_size"]),
        ("A, 224 px, batch 4", ["device", "resolution_px"]),
    ]
    many = [pair(number, device=f"Device {number // 2}") for number in range(12)]
    assert len(sections(many, 3)[0]["settings"]) == 4


def test_a_question_that_was_asked_again_counts_once() -> None:
    rows = [pair(1, 2.0), pair(1, 4.0, trial_id="f" * 16, effort="publish", replicates=6)]
    text = text_of("answer", rows)
    assert "faster than graph in 1 of 1 configuration. XLA is typically 4.00×" in text


def test_the_header_says_what_was_measured_when_and_with_which_software() -> None:
    software: dict[str, Any] = {"software": "TensorFlow 2.21.0", "driver": "550.54"}
    software["environment_flags"] = ""
    rows = [
        pair(1, **software, measured_at="2026-11-05T10:00:00+00:00"),
        pair(2, **software, device="B", measured_at="2026-11-01T10:00:00+00:00"),
        pair(3, **software, status="interrupted", measured_at=""),
        pair(4, origin="imported", device="published elsewhere"),
    ]
    assert environment(rows, 3).splitlines() == [
        "- software: TensorFlow 2.21.0",
        "- driver: 550.54",
        "- devices: B; Some CPU",
        "- measured: 2026-11-01 to 2026-11-05",
        "- trials: 3",
        "- left out: 1 comparison that did not finish",
    ]


@pytest.mark.parametrize("devices", [1, 2])
def test_contaminated_pairs_are_told_in_the_same_words_by_report_page_and_sweep(
    devices: int,
) -> None:
    statuses = [Status.CONTAMINATED, Status.CONTAMINATED, Status.OK, Status.OK]
    rows = [
        pair(number, device=f"GPU {number % devices}", status=status)
        for number, status in enumerate(statuses)
    ]
    twin = with_columns(rows[0], candidate="graph_2")
    other = with_columns(rows[0], baseline="eager")
    words = "~ 2 of 4 contaminated by other load: only their clear differences count."
    assert words in text_of("answer", rows)
    table = table_of([*rows, twin, other])
    labels = pyarrow.array(["r"] * table.num_rows)
    assert words in build.answer(table.append_column("results", labels))
    out = text_shown(show_verdicts, [*rows, twin])
    assert " ".join(out.split()) == f"▲ 4 faster {words}"


def test_each_scenario_has_its_own_answers() -> None:
    keras = {"scenario": "predict", "baseline": "predict_graph", "candidate": "predict_xla"}
    rows = [
        pair(1, 0.5, scenario="train_step"),
        *(pair(number, 2.0) for number in (2, 3, 4)),
        *(pair(number, 3.0, **keras) for number in (5, 6)),
    ]
    by_key = {(section["key"], section["scenario"]): section for section in sections(rows, 3)}
    questions = [section["question"] for (key, _), section in by_key.items() if key == "answer"]
    assert questions == [
        f"Should I turn XLA on? ({name})" for name in ("call", "predict", "train_step")
    ]
    answers = {name: by_key["answer", name]["text"] for name in ("call", "predict", "train_step")}
    assert answers["call"].startswith("Yes. XLA is faster than graph in 3 of 3 configurations.")
    called = "model.predict with XLA is faster than model.predict without XLA in 2 of 2"
    assert f"{called} configurations" in answers["predict"]
    assert "with XLA (`predict_xla`: `compile(jit_compile=True)`)" in answers["predict"]
    assert answers["train_step"].startswith("No. XLA is faster than graph in 0 of 1 configuration")
    assert "net1" not in by_key["fastest", "call"]["text"]
    assert by_key["fastest", "train_step"]["text"] == text_of("fastest", rows[:1])
    alone = sections([pair(1)], 3)
    assert alone[0]["question"] == "Should I turn XLA on?"


def test_the_findings_of_the_study_are_told_with_published_figures_beside_ones_own() -> None:
    rows = [pair(1, 4.0), pair(2, 3.9), pair(3, 1.5, device="B"), failed(4)]
    text = text_of("fastest", rows)
    assert (
        "**The fastest model at each resolution.** The fastest model with XLA in 1 setting." in text
    )
    assert "**Podiums.** The first places of 1 ranking by images/s: 1 model." in text
    assert "| 224 px, batch 4 | Some | net1 | 400 | 396–404 | 2 | — |\n" in text
    assert all(table.finding in text for table in study.of_rows(rows))
    theirs = pair(1, 3.0, origin="imported", device="A100")
    assert "in 1 of 1 configuration" in text_of("answer", [pair(1), theirs])
    assert "in another device" not in text_of("fastest", [pair(1)])
    assert "another one" not in text_of("fastest", [pair(2), theirs]), "neither had a choice"
    rivals = [pair(1, 3.0), pair(2, 4.0), theirs, pair(2, 1.0, origin="imported", device="A100")]
    assert "another one on another device in 1 of 1" in text_of("fastest", rivals)
    assert "| Some | net2 \\* | 400 |" in text_of("fastest", rivals)


def test_copies_of_a_mode_are_no_pairs() -> None:
    rows = [pair(1), with_columns(pair(2), candidate="graph_2")]
    assert "in 1 of 1 configuration" in text_of("answer", rows)


def test_what_changed_is_told_in_the_lines_of_compare() -> None:
    sides = [
        side(
            trial({"graph": 0.2, "xla": xla_s}, seed=seed),
            trial({"graph": 0.2}, seed=seed + 50, asked=f"only{title}"),
            title=title,
        )
        for title, seed, xla_s in (("A|<b>", 10, 0.1), ("B", 20, 0.2))
    ]
    difference = difference_of(*sides)
    (source,) = (one["text"] for one in sections([], 3, difference) if one["key"] == "changed")
    assert source.startswith("**B (B) against A\\|&lt;b&gt; (A)**: ratios are B / A: above 1×,")
    assert live(source) == []
    shown = MarkdownIt("commonmark").enable("table").render(source)
    lines = (re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"(?s)<tr>.*?</tr>", shown))
    table = [list(map(unescape, line)) for line in lines if len(line) == len(changes.COLUMNS)]
    assert [row[1] for row in table][:2] == ["xla throughput", "xla / graph speedup"]
    out = text_shown(show_difference, difference)
    for row in table:
        (line,) = [line for line in out.splitlines() if f" {row[1]} " in line]
        assert line.split() == " ".join(row).split()
    plain = re.sub(r"<[^>]*>", "", shown)
    (counted,) = changes.summary(difference)
    for text in (counted, *difference.only_a, *difference.only_b):
        assert text in plain
        assert text in " ".join(out.split())


def test_the_report_says_what_a_view_omits_and_what_only_the_page_has() -> None:
    text = text_of("everything", [pair()], 1700)
    assert "computed from 1,700 trials. The panels show the runs that W&B shows, 1,000" in text
    assert "`dashboard.html` among the summary run's artifacts" in text
