"""Every writer of Markdown shows the text of others as text, wherever it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changed_rows import with_columns
from factories import failed_outcome, make_outcome, make_record
from hypothesis import given
from hypothesis import strategies as st
from live_markdown import HOSTILE, kinds, live
from markdown_it import MarkdownIt
from report_rows import ROW, failed, pair
from wandb_runs import SUMMARY

from xla_sweeps.analysis.changes import difference_of
from xla_sweeps.analysis.matching import Side
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.api.progress import Line
from xla_sweeps.report.guard import MARKER, MOST_CHARACTERS, markdown_of, text_of
from xla_sweeps.report.json_progress import JsonProgress
from xla_sweeps.report.markdown import code, escape, table
from xla_sweeps.report.run_content import run_notes
from xla_sweeps.report.terminal.notebook import rows_html, rows_text, trial_html
from xla_sweeps.report.wandb_report.text import environment, sections
from xla_sweeps.schema.measurement import Status


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_stays_in_its_item_and_has_no_markup_link_or_html(text: str) -> None:
    source = f"- name: {escape(text)}\n- end"
    assert kinds(source) <= kinds("- name: word\n- end") | {"text_special"}
    assert source.count("\n") == 1
    assert live(source) == []
    assert live(f"again: {code(text)}") == []
    assert live("\n".join(table(("a", "b"), [(text, "c")]))) == []


@given(st.text())
def test_no_text_breaks_out_of_its_item(text: str) -> None:
    for written in (escape(text), code(text)):
        shown = MarkdownIt("commonmark").enable("table").render(f"- a: {written}\n- end")
        assert shown.count("<li>") == 2
        assert "<li>end</li>" in shown
        assert "<a " not in shown
        assert "<img" not in shown


@given(st.text(alphabet="ab_`*.é—", max_size=12))
def test_an_underscore_within_a_word_stays_plain_and_every_text_reads_as_it_is(text: str) -> None:
    shown = MarkdownIt("commonmark").renderInline(escape(f"x {text} y"))
    assert shown == " ".join(f"x {text} y".split())


@pytest.mark.parametrize(
    "text", ["http://evil.example", "HTTPS://evil.example", "www.evil.example", "a@b.example", "#1"]
)
def test_a_bare_address_is_broken_up_so_that_it_becomes_no_link(text: str) -> None:
    assert text not in escape(text)
    assert escape(text).replace("\u2060", "").replace("\\", "") == text


def test_an_ordinary_name_reads_as_it_is_and_a_long_one_is_cut() -> None:
    assert escape("efficientnetv2-s mobilenet_v2") == "efficientnetv2-s mobilenet_v2"
    assert MarkdownIt().render(escape("mobilenet_v2 <1.0>")) == "<p>mobilenet_v2 &lt;1.0&gt;</p>\n"
    assert len(escape("x" * 500)) == 200
    assert escape("x" * 500).endswith("…")
    assert escape("x" * 500, 600) == "x" * 500
    assert code("xla-sweeps guard --after .venv@pr") == "`xla-sweeps guard --after .venv@pr`"


PLACES: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "model": lambda text: {"model": text},
    "device": lambda text: {"device": text},
    "command": lambda text: {"command": text},
    "mode": lambda text: {"modes": [{"mode": text, "verdict": "unjudged"}]},
    "side": lambda text: broken({text: "it crashed"}),
    "error": lambda text: broken({"after": text}),
    "package": lambda text: {"differences": {text: ("1", "2")}},
    "version": lambda text: {"differences": {"keras": (text, text)}},
}


def broken(failed: dict[str, str]) -> dict[str, Any]:
    return {"modes": [{"mode": "xla", "verdict": "broke", "failures": [failed, {}]}]}


def document(**changes: Any) -> dict[str, Any]:
    return {
        **{"model": "m", "device": "d", "verdict": "broke", "detect": 0.05, "differences": {}},
        **{"pairs": [], "contaminated_pairs": 0, "took_turns": True, "command": "c"},
        **{"out_of_time": False, "planned_pairs": 4},
        **broken({"after": "it crashed"}),
        **changes,
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", HOSTILE)
def test_a_guard_shows_the_text_of_a_pull_request_as_text(place: str, text: str) -> None:
    made = document(**PLACES[place](text))
    mark, *rest = markdown_of(made).splitlines()
    assert mark == MARKER.format(verdict="broke")
    source = "\n".join(rest)
    assert live(source) == []
    assert kinds(source) <= kinds("\n".join(markdown_of(document()).splitlines()[1:])) | {
        *("text_special", *kinds("\n".join(table(("a",), [("b",)]))), "code_inline")
    }
    assert len(mark) + len(source) < MOST_CHARACTERS + 10
    assert not [one for one in live(text_of(made)) if one.startswith("U+")]
    usual = text_of(document(**PLACES[place]("word"))).count("\n")
    assert text_of(made).count("\n") == usual


def test_a_long_report_is_cut_between_lines_so_that_nothing_of_it_is_left_open() -> None:
    names = {f"{number} `<!-- @torvalds": ("1", "2") for number in range(3000)}
    source = markdown_of(document(differences=names, command="` " * 50_000))
    assert MOST_CHARACTERS - 100 < len(source) < MOST_CHARACTERS + 10
    assert source.endswith(" |\n…\n")
    assert live(source.partition("\n")[2]) == []
    assert live(markdown_of(document(command="` @x " * 50_000)).partition("\n")[2]) == []


@pytest.mark.parametrize("evil", HOSTILE)
def test_a_notebook_and_a_prompt_show_the_text_of_others_as_text(evil: str) -> None:
    failure = failed_outcome(Status.COMPILE_ERROR, evil)
    trial = summarize([make_record(modes={"graph": make_outcome(0.2), "xla": failure})])
    row = replace(trial.comparisons[0], flags=(evil,))
    trial = replace(trial, flags=(evil,), comparisons=(row,))
    lines, notes = [["a", evil], [evil, "b"]], [evil]
    pages = rows_html(lines, notes), trial_html(trial, evil, "failed")
    for page in (*pages, rows_text(lines, notes)):
        assert not [one for one in live(page) if one.startswith("U+")]
    for page in pages:
        assert {*re.findall("</?([a-z]+)", page)} <= {"pre", "span"}
    assert len(rows_text(lines, ()).splitlines()) == 2


def test_progress_for_programs_and_for_a_person_commands_no_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    evil = "m\x1b]0;title\x07\x9b\u202e"
    progress = JsonProgress()
    progress.trial_started(evil, replicates=1, log=tmp_path)
    progress.stage(0, "build", evil, evil)
    line = capsys.readouterr().out
    assert line.isascii()
    start, stage = map(json.loads, line.splitlines())
    assert start["title"] == stage["mode"] == evil
    shown: list[Any] = []
    follow = Line(lambda text, **_: shown.append(text), clock=lambda: 9.0 * len(shown))
    follow(start)
    follow(stage)
    assert [text["text/plain"][:1] for text in shown] == ["m", "m"]
    assert not [one for text in shown for one in live(text["text/plain"]) if one[:2] == "U+"]


@pytest.mark.parametrize("evil", HOSTILE)
def test_the_report_on_wandb_and_the_notes_of_a_run_show_names_as_text(evil: str) -> None:
    rows = [
        pair(1, model=evil, family=evil, device=evil, flags=(evil,), source=evil),
        *(
            pair(number, number, family="Net", params=10**number, device=device)
            for number, device in ((11, evil), (12, evil), (13, "Other"), (14, "Other"))
        ),
        failed(3, model=evil, device=evil, failure_message=evil, failure_hint=evil),
        pair(4, model=evil, device=evil, software=evil, driver=evil, environment_flags=evil),
        pair(5, model=evil, device=evil, runtime=evil, origin="imported"),
    ]
    sides = [Side(title=evil, trials=[], pools={}, anchors={}) for _ in range(2)]
    difference = difference_of(*sides)
    texts = {section["key"]: section["text"] for section in sections(rows, 3, difference)}
    for key, text in {**texts, "environment": environment(rows, 3)}.items():
        assert live(text) == [], key
    assert "By device" in texts["fastest"]
    apart = [pair(1, 2.0, device=evil), pair(2, 2.0, device=evil), pair(1, 0.5, device="Other")]
    told: str = sections(apart, 3)[0]["text"]
    assert told.startswith("It depends on the device. Yes on ")
    assert live(told) == []
    own = with_columns(ROW, model=evil, failure_message=evil, flags=(evil,), command=evil)
    assert live(run_notes(replace(SUMMARY, comparisons=(own,)))) == []
