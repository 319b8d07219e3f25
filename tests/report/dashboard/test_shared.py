"""The page's scripts take the question's columns and the sentences from the package."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from report_rows import ROW

from xla_sweeps.report.dashboard.page import PACKAGE, scripts
from xla_sweeps.report.labels import TELLING
from xla_sweeps.report.sentences import SENTENCES, USUALLY
from xla_sweeps.report.wandb_report.text import settings_of
from xla_sweeps.schema.row import QUESTION, SETTINGS

SOURCE = re.sub(r"/\*.*?\*/|//[^\n]*", "", "\n".join(scripts().values()), flags=re.DOTALL)


def test_a_marked_column_is_in_each_list_of_the_question() -> None:
    assert [mark["column"] for mark in PACKAGE["question"]] == [*QUESTION]
    assert set(QUESTION) <= set(TELLING)
    assert {"model", "device", "runtime", "candidate", "baseline", "origin"} < set(QUESTION)
    assert {*settings_of([ROW, ROW])[0]} == {*SETTINGS, "title", "varied"}
    for name in ("keras", "optimizer", "batches"):
        assert f'"{name}"' not in SOURCE, "listed a second time"


def test_the_share_of_usually_is_not_written_a_second_time() -> None:
    assert "PACKAGE.usually" in SOURCE
    assert f"{100 * USUALLY:g} %" not in SOURCE


@pytest.mark.parametrize("name", ["page.css", "loader.js"])
def test_what_the_page_holds_as_it_is_does_not_end_its_element(name: str) -> None:
    assets = resources.files("xla_sweeps.report.dashboard") / "assets"
    text = (assets / name).read_text(encoding="utf-8").lower()
    assert not re.search(r"</(?:script|style)|<!--", text)


def test_the_scripts_say_only_sentences_that_there_are() -> None:
    said = set(re.findall(r'\bsay\("([^"]+)"', SOURCE))
    assert len(said) > 15
    assert said <= SENTENCES.keys()
    for sentence in {*SENTENCES.values()} - {*SENTENCES}:
        words = re.split(r"\{\w+\}", sentence)
        assert not any(len(part) > 25 and part.strip() in SOURCE for part in words), sentence
