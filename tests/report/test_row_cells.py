"""Rows as a table of a paper or a README: all of them, escaped, without symbols."""

from __future__ import annotations

import re

import pytest
from report_rows import failed, pair

from xla_sweeps.report.row_cells import headings_of, rows_text
from xla_sweeps.schema.measurement import Status

ROWS = [
    pair(1, 2.0, model="a_b&c", device="Some_GPU 100 %"),
    pair(2, 0.5, device="Some_GPU 100 %", status=Status.CONTAMINATED),
    failed(3, device="Some_GPU 100 %"),
]


def test_markdown_has_a_line_for_each_row_and_a_note_for_each_mark() -> None:
    head, rule, *lines = rows_text("markdown", ROWS).splitlines()
    assert head == f"| {' | '.join(word for group in headings_of() for word in group)} |"
    assert rule.count("---") == head.count(" | ") + 1
    assert "| 2.00× | 1.98–2.02 | faster | 1 |" in lines[0]
    assert "a_b&amp;c" in lines[0]
    assert "| slower | 1\\~ |" in lines[1]
    assert "| — | — | unsupported_op | 1 |" in lines[2]
    assert lines[3:] == ["", "on Some_GPU 100 %", "", lines[-1]]
    assert lines[-1].startswith("\\~ contaminated by other load")


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_a_note_says_what_the_speedup_is_of_where_single_calls_have_another(form: str) -> None:
    single = {"latency_speedup": 1.5, "latency_speedup_low": 1.4, "latency_speedup_high": 1.6}
    note = "speedup compares throughput"
    assert note in rows_text(form, [pair(1, 2.0, **single)])
    assert note not in rows_text(form, [pair(1, 2.0)])
    assert note not in rows_text(form, [pair(1, 1.5, **single)]), "blocks are single calls"


def test_a_mark_beside_a_speedup_says_that_the_device_waits_for_the_host() -> None:
    text = rows_text("markdown", [pair(1, 2.0, host_bound=True), pair(2, 1.5)])
    assert "| 2.00× h |" in text
    assert "| 1.50× |" in text
    assert "h the device waits for the host: a larger batch" in text
    assert "waits" not in rows_text("markdown", [pair(2, 1.5), failed(3, host_bound=True)])


def test_latex_has_the_same_cells_and_no_character_that_stops_it() -> None:
    text = rows_text("latex", ROWS)
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert len(lines) == 1 + len(ROWS)
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {
        len(lines[0].split(" & ")) - 1
    }
    assert r"a\_b\&c & 224 & 4 & xla & graph & 200.0 & 2.00$\times$ & 1.98--2.02 & faster" in text
    assert r" & slower & 1\textasciitilde{} \\" in text
    body = "".join(line for line in text.splitlines() if not line.startswith("%"))
    assert body.isascii()
    assert not re.search(r"(?<!\\)[#%_]", body)


@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_several_scenarios_devices_and_a_price_have_their_place(form: str) -> None:
    rows = [pair(1, device="A100"), pair(2, device="H100", scenario="predict")]
    text = rows_text(form, rows, 3.6)
    assert "scenario" in text
    assert "per million" in text
    assert "(A100)" in text
    assert "on A100" not in text
    assert "scenario" not in rows_text(form, rows[:1])
