"""Twins and anchors of a sweep's own: in no table of a person's, unless it is asked for them."""

from __future__ import annotations

import csv
import io
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute as compute
import pytest
from commands import command
from factories import make_record
from paths import ROOT

import xla_sweeps as xs
from xla_sweeps.analysis.provenance import purpose_of
from xla_sweeps.analysis.trust import trust
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.trial import TrackerSettings
from xla_sweeps.store.rows import load
from xla_sweeps.store.store import Store
from xla_sweeps.store.table import rows_of

COPIES = {"graph": 0.2, "graph_2": 0.19}


def tagged(number: int, *tags: str, **changes: Any) -> Record:
    record = make_record(COPIES, noise=0.01, trial_id=f"{number}" * 16, **changes)
    return replace(record, tracker=TrackerSettings(tags=tags))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    store = Store(Path("results"))
    store.save(make_record({"eager": 0.4, "graph": 0.1, "xla": 0.5}, noise=0.01))
    store.save(tagged(1, "aa"))
    store.save(tagged(2, "anchor"))
    store.save(tagged(3))
    return tmp_path


def purposes(table: Any) -> Counter[str]:
    return Counter(row["purpose"] for row in table)


def test_a_trial_s_purpose_is_its_sweep_s_own_only_where_every_record_says_so() -> None:
    assert purpose_of([tagged(1, "aa"), tagged(1, "anchor", replicate=1)]) == "aa"
    assert purpose_of([tagged(1, "anchor")]) == "anchor"
    assert purpose_of([tagged(1, "aa"), tagged(1, "mine", replicate=1)]) == "result"


def test_tables_have_results_alone_unless_a_filter_names_the_purpose(results: Path) -> None:
    assert purposes(xs.results()) == {"result": 2}
    assert purposes(xs.results(where="batch_size=4 and speedup>0")) == {"result": 2}
    assert purposes(xs.results(baselines="all")) == {"result": 4}
    assert purposes(xs.results(where="purpose!=nothing")) == {"result": 2, "aa": 1, "anchor": 1}
    (twin,) = xs.results(where="purpose=aa")
    assert (twin["candidate"], twin["headline"]) == ("graph_2", False)
    assert command("results", cwd=results).stdout.count("graph_2") == 1
    both = command("results", "--where", "purpose~a or purpose=result", cwd=results).stdout
    assert both.count("graph_2") == 3
    text = command("results", "--format", "csv", "--all", cwd=results).stdout
    assert purposes(csv.DictReader(io.StringIO(text))) == {"result": 4}


def test_readers_of_a_folder_still_get_twins_and_anchors(results: Path) -> None:
    rows = load(Path("results"))
    assert len(rows.anchors) == 1
    tested = trust(rows_of(rows.table))
    assert tested
    assert tested.within[1] == 3


@pytest.mark.parametrize("name", ["findings", "backends"])
def test_a_pivot_of_kept_records_has_one_comparison_in_each_place(
    name: str, tmp_path: Path
) -> None:
    with tarfile.open(ROOT / "benchmarks" / "results" / f"{name}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    table = xs.results(tmp_path / name)
    asked = [*("model", "resolution_px", "batch_size", "scenario", "runtime"), "candidate"]
    arrow = table.arrow.filter(compute.is_valid(table.arrow["speedup"]))
    pivot = arrow.group_by(asked).aggregate([("speedup", "min"), ("speedup", "max")])
    assert pivot["speedup_min"] == pivot["speedup_max"]
    copies = compute.match_substring_regex(arrow["candidate"], r"_\d+$")
    assert not compute.any(copies).as_py()
    own = xs.results(tmp_path / name, where="purpose!=result")
    assert len(own) >= 1
    assert {row["modes"] for row in own} == {"graph,graph_2"}
    assert isinstance(own.arrow, pyarrow.Table)
