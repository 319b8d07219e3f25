"""Intervals of kept records hold what the processes left out give."""

from __future__ import annotations

import tarfile

import pytest
from paths import ROOT

from benchmarks.left_out import LeftOut, cases_of, coverage_of


@pytest.fixture(scope="module")
def of_memory(tmp_path_factory: pytest.TempPathFactory) -> list[LeftOut]:
    """Memory ratios of all kept trials of a CPU, from one and from two of their replicates."""
    folder = tmp_path_factory.mktemp("kept")
    names = ("backends", "findings")
    for name in names:
        with tarfile.open(ROOT / "benchmarks" / "results" / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return [case for name in names for case in cases_of(folder / name, names=["memory"], most=2)]


@pytest.mark.parametrize("replicates", [1, 2])
@pytest.mark.parametrize("later", [False, True])
def test_intervals_of_memory_ratios_hold_from_the_first_replicate_on(
    of_memory: list[LeftOut], replicates: int, later: bool
) -> None:
    chosen = [case for case in of_memory if case.figure.replicates == replicates]
    assert len({case.trial for case in chosen}) == 44
    share, reach = coverage_of(chosen, later=later)
    assert 0.95 <= share <= 0.99
    assert reach < 0.12
