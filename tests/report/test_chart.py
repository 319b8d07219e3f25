"""The picture of sorted speedups: every row, its interval, and nothing that a name can break."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_rows import failed, pair

from xla_sweeps.errors import ConfigError
from xla_sweeps.report.chart import speedup_chart
from xla_sweeps.report.export import write_chart
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import ComparisonRow


def drawn(rows: list[ComparisonRow]) -> tuple[list[str], list[float], str]:
    """Texts, places of points, and the whole picture, which is XML."""
    picture = speedup_chart(rows)
    root = ElementTree.fromstring(picture)
    texts = ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("text")]
    points = [float(one.attrib["cx"]) for one in root.iter() if one.tag.endswith("circle")]
    places = re.findall(r'\b(?:c?x|x[12])="(-?[\d.]+)"', picture)
    places += re.findall(r"[MLH](-?[\d.]+)", picture)
    assert places
    assert all(0 <= float(x) <= float(root.attrib["width"]) for x in places)
    return texts, points, picture


def test_rows_are_sorted_and_named_by_what_they_do_not_share() -> None:
    unclear = {"verdict": Verdict.AMBIGUOUS, "speedup_low": 0.2, "speedup_high": 9.0}
    rows = [pair(1, 0.5), pair(2, 3.0, **unclear), pair(3, 1.5, batch_size=8), failed(4)]
    texts, points, picture = drawn(rows)
    assert len(points) == 3
    assert all(left > right for left, right in pairwise(points))
    names = [text for text in texts if text.startswith("net")]
    assert names == ["net2, 224 px, batch 4", "net3, 224 px, batch 8", "net1, 224 px, batch 4"]
    assert texts[0] == "Speedup over graph, 95 % intervals (a ring: not clear) on Some CPU"
    assert "3.00× (0.20–9.00)" in texts
    assert picture.count('fill="#ffffff" stroke') == 1, "what is not clear is a ring"


@pytest.mark.parametrize("speedups", [[1.0], [2.0], [0.99, 1.01], [1e-3, 500.0], [1.7] * 40])
def test_any_speedups_have_an_axis(speedups: list[float]) -> None:
    texts, points, _ = drawn([pair(number, value) for number, value in enumerate(speedups, 1)])
    assert len(points) == len(speedups)
    assert "1×" in texts
    assert 2 <= sum(bool(re.fullmatch(r"[\d.]+×", text)) for text in texts) <= 20


def test_names_of_others_and_missing_intervals_break_nothing() -> None:
    nasty = 'a<b>&"\x1b[31m'
    imported = {"speedup_low": None, "speedup_high": None, "origin": "imported"}
    texts, points, _ = drawn([pair(1, 2.0, model=nasty, device="<i>\x1b", **imported)])
    assert any('a<b>&"' in text for text in texts)
    assert len(points) == 1


def test_what_is_no_svg_or_has_nothing_to_show_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a file ending in \.svg \(rsvg-convert"):
        write_chart([pair()], tmp_path / "chart.png")
    with pytest.raises(ConfigError, match="no row has a speedup"):
        write_chart([failed(1)], tmp_path / "chart.svg")
    assert list(tmp_path.iterdir()) == []
