"""The comparison with the published procedure: what is measured in which order, and the table."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from benchmarks import ancestor
from benchmarks.ancestor import AHEAD, OURS, THEIRS, Figures, Run

ALL = ancestor.units(("sweep", "alone"), 3)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Started procedures, in order; each takes ten seconds, the published one thirty."""
    started: list[tuple[str, str]] = []
    for name, seconds in (("by_us", 10.0), ("by_them", 30.0)):

        def run(
            kind: str, model: str, *launch: str, name: str = name, seconds: float = seconds
        ) -> Figures:
            started.append((" ".join([name, *launch[:1]]), model))
            over_graph = 0.2 if name == "by_us" else None
            return (seconds, *((None,) * 3 if kind == "sweep" else (0.1, over_graph, None)))

        monkeypatch.setattr(ancestor, name, run)
    return started


def test_the_order_of_the_procedures_rotates_for_every_model(
    measured: list[tuple[str, str]], tmp_path: Path
) -> None:
    ancestor.measure([], ALL, until=time.monotonic() + 999, out=tmp_path / "runs.csv")
    assert len(measured) == 3 * 4 + 2 * 9
    for model in ancestor.ALONE:
        names = [name for name, which in measured if which == model][::2]
        assert names in (["by_us", "by_them", "by_us"], ["by_them", "by_us", "by_them"])
    sweeps = [name for name, which in measured if " " in which]
    assert sweeps[:9:3] == ["by_us --ahead", "by_them", "by_us"]
    assert {*sweeps[:3]} == {*sweeps[3:6]} == {"by_us", "by_us --ahead", "by_them"}


def test_a_unit_that_does_not_fit_is_left_for_the_next_run(
    measured: list[tuple[str, str]], tmp_path: Path
) -> None:
    out = tmp_path / "runs.csv"
    for _ in range(2):
        ancestor.measure(ancestor.read(out, Run), ALL, until=time.monotonic() + 35, out=out)
    assert len(measured) == 3 + 2  # the first of each kind, of which nothing is known yet
    ancestor.measure(ancestor.read(out, Run), ALL, until=time.monotonic() + 999, out=out)
    assert len(ancestor.read(out, Run)) == len(measured) == 3 * 4 + 2 * 9


def test_the_table_has_the_ratio_of_times_and_an_interval_from_two_repetitions_on() -> None:
    runs = [
        Run("alone", "resnet50", number, procedure, seconds, 0.1 * number)
        for number in range(2)
        for procedure, seconds in ((OURS, 10.0), (THEIRS, 40.0))
    ]
    runs += [
        Run("sweep", ALL[0][1], 0, OURS, 30.0, half_width=0.1),
        Run("sweep", ALL[0][1], 0, AHEAD, 24.0, half_width=0.2),
        Run("sweep", ALL[0][1], 0, THEIRS, 60.0),
    ]
    table = ancestor.table(runs)
    assert "| 6 trials of sweeps | ours | 30 | 0.50 | 10% |" in table
    assert "| 6 trials of sweeps | ours, ahead | 24 | 0.40 | 20% |" in table
    assert "| resnet50 × 2 | ours | 20 | 0.25 |  |" in table
    assert table.count("| resnet50 | ours, over eager | 1.051 | 0.557-1.984 | 63.53% |") == 1
