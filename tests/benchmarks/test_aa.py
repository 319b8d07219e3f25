"""The A/A tool: its pairs and its table, from simulated records."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from factories import make_record

from benchmarks.aa import AFTER, TURNS, WITHIN, Pair, pairs_of, table
from benchmarks.ancestor import read, write
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.trial import Copies


def trials(
    count: int,
    *,
    spread: float,
    copies_differ: float = 0.0,
    replicates: int = 6,
    apart: bool = False,
) -> dict[str, list[Record]]:
    """A/A trials whose processes differ; the second copy is slower by so much (log)."""
    source = np.random.default_rng(3)
    made: dict[str, list[Record]] = {}
    for number in range(count):
        name = f"{number:015x}{'a' if apart else '0'}"
        levels = np.exp(source.normal(-2, spread, (replicates, 2)))
        records = [
            make_record(
                {"graph": first, "graph_2": (second if apart else first) * math.exp(copies_differ)},
                noise=0.005,
                seed=100 * number + place,
                trial_id=name,
                replicate=place,
            )
            for place, (first, second) in enumerate(levels.tolist())
        ]
        copies: Copies = "apart" if apart else "together"
        made[name] = [
            replace(record, trial=replace(record.trial, copies=copies)) for record in records
        ]
    return made


def pairs_of_all(count: int, *, spread: float, copies_differ: float = 0.0) -> list[Pair]:
    """Pairs of trials of both places."""
    together, apart = (
        trials(count, spread=spread, copies_differ=copies_differ, apart=apart)
        for apart in (False, True)
    )
    return pairs_of(together | apart)


@pytest.mark.exhaustive
def test_equal_copies_are_held_equal_within_and_across_processes() -> None:
    pairs = pairs_of_all(30, spread=0.005)
    assert Counter(pair.kind for pair in pairs) == {WITHIN: 60, AFTER: 60, TURNS: 60}
    for kind in (WITHIN, AFTER, TURNS):
        group = [pair for pair in pairs if pair.kind == kind]
        assert sum(pair.holds for pair in group) >= 53
        assert sum(pair.wrong for pair in group) <= 3


def test_copies_that_differ_are_wrong_verdicts_whose_intervals_miss_one() -> None:
    pairs = pairs_of_all(5, spread=0.001, copies_differ=0.1)
    assert all(pair.wrong and not pair.holds for pair in pairs)
    assert {pair.verdict for pair in pairs} == {"slower"}


def test_both_directions_one_after_the_other_use_different_blocks() -> None:
    (there, back) = (pair for pair in pairs_of(trials(1, spread=0.02)) if pair.kind == AFTER)
    assert there.ratio * back.ratio == pytest.approx(1, abs=0.01)
    assert there.ratio * back.ratio != 1


def test_only_clean_replicates_count_and_only_whole_groups() -> None:
    two = trials(1, spread=0.0, replicates=2)
    assert pairs_of(two) == []
    ((name, records),) = two.items()
    busy = make_record(
        {"graph": 0.2, "graph_2": 0.1}, trial_id=name, replicate=2, status=Status.CONTAMINATED
    )
    assert pairs_of({name: [*records, busy]}) == []
    (pair,) = pairs_of({name: [*records, busy]}, {Status.OK, Status.CONTAMINATED})
    assert pair.kind == WITHIN
    kinds = Counter(pair.kind for pair in pairs_of(trials(1, spread=0.0, replicates=13)))
    assert kinds == {WITHIN: 4, AFTER: 4}
    (apart,) = pairs_of(trials(1, spread=0.0, replicates=5, apart=True))
    assert apart.kind == TURNS


def test_the_table_is_that_of_the_file(tmp_path: Path) -> None:
    pairs = pairs_of_all(3, spread=0.005)
    write(pairs, tmp_path / "aa.csv")
    assert read(tmp_path / "aa.csv", Pair) == pairs
    lines = table(pairs).splitlines()
    assert [line.split("|")[1:3] for line in lines[2:]] == [
        [" 6 ", f" {WITHIN} "],
        [" 6 ", f" {AFTER} "],
        [" 6 ", f" {TURNS} "],
        [" 18 ", " all "],
    ]
