"""The A/A tool: its pairs and its table, from simulated records."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from factories import make_record

from benchmarks.aa import ACROSS, WITHIN, pairs_of, read, table, write
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record


def trials(
    count: int, *, spread: float, copies_differ: float = 0.0, replicates: int = 6
) -> dict[str, list[Record]]:
    """A/A trials whose processes differ; the second copy is slower by so much (log)."""
    source = np.random.default_rng(3)
    made: dict[str, list[Record]] = {}
    for number in range(count):
        name = f"{number:016x}"
        levels = np.exp(source.normal(-2, spread, replicates))
        made[name] = [
            make_record(
                {"graph": float(level), "graph_2": float(level) * math.exp(copies_differ)},
                noise=0.005,
                seed=100 * number + place,
                trial_id=name,
                replicate=place,
            )
            for place, level in enumerate(levels)
        ]
    return made


def test_equal_copies_are_held_equal_within_and_across_processes() -> None:
    pairs = pairs_of(trials(30, spread=0.005))
    assert Counter(pair.kind for pair in pairs) == {WITHIN: 60, ACROSS: 60}
    for kind in (WITHIN, ACROSS):
        group = [pair for pair in pairs if pair.kind == kind]
        assert sum(pair.holds for pair in group) >= 53
        assert sum(pair.wrong for pair in group) <= 3


def test_copies_that_differ_are_wrong_verdicts_whose_intervals_miss_one() -> None:
    pairs = pairs_of(trials(5, spread=0.001, copies_differ=0.1))
    assert all(pair.wrong and not pair.holds for pair in pairs)
    assert {pair.verdict for pair in pairs} == {"slower"}


def test_both_directions_across_processes_use_different_blocks() -> None:
    (there, back) = (pair for pair in pairs_of(trials(1, spread=0.02)) if pair.kind == ACROSS)
    assert there.ratio * back.ratio == pytest.approx(1, abs=0.01)
    assert there.ratio * back.ratio != 1


def test_only_clean_replicates_count_and_only_whole_sixes() -> None:
    five = trials(1, spread=0.0, replicates=5)
    assert pairs_of(five) == []
    ((name, records),) = five.items()
    busy = make_record(
        {"graph": 0.2, "graph_2": 0.1}, trial_id=name, replicate=5, status=Status.CONTAMINATED
    )
    assert pairs_of({name: [*records, busy]}) == []
    assert len(pairs_of(trials(1, spread=0.0, replicates=13))) == 8


def test_the_table_is_that_of_the_file(tmp_path: Path) -> None:
    pairs = pairs_of(trials(3, spread=0.005))
    write(pairs, tmp_path / "aa.csv")
    assert read(tmp_path / "aa.csv") == pairs
    lines = table(pairs).splitlines()
    assert [line.split("|")[1:3] for line in lines[2:]] == [
        [" 6 ", f" {WITHIN} "],
        [" 6 ", f" {ACROSS} "],
        [" 12 ", " all "],
    ]
