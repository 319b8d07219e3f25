"""Twins and anchors of a sweep's own: in no table of a person's, unless it is asked for them."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet
import pytest
from factories import make_record
from in_process import command
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


def test_raw_blocks_are_those_of_results_unless_a_filter_names_the_purpose(results: Path) -> None:
    blocks = xs.rounds()
    assert set(blocks.columns) == {
        *("trial", "model", "replicate", "round", "mode", "calls", "seconds", "fill_seconds"),
        "contaminated",
    }
    own = {row["trial_id"] for row in xs.results()}
    assert {block["trial"] for block in blocks} == own
    assert len(blocks) == 12 * (3 + 2)
    call_s = {
        one["mode"]: one["seconds"] / one["calls"] for one in blocks if one["mode"] != "graph_2"
    }
    assert call_s["eager"] == pytest.approx(0.4, rel=0.1)
    assert {(one["replicate"], one["contaminated"]) for one in blocks} == {(0, False)}
    assert {block["trial"] for block in xs.rounds(where="purpose=aa")} == {"1" * 16}
    assert len(xs.rounds(where="batch_size=99")) == 0
    raw = ("results", "--raw", "--format")
    lines = list(csv.DictReader(io.StringIO(command(*raw, "csv", cwd=results).stdout)))
    assert [float(line["seconds"]) for line in lines] == [block["seconds"] for block in blocks]
    assert json.loads(command(*raw, "json", cwd=results).stdout) == list(blocks)
    assert command(*raw, "parquet", "-o", "raw.parquet", cwd=results).returncode == 0
    assert parquet.read_table(results / "raw.parquet").to_pylist() == list(blocks)
    for refused in (raw[:-1], (*raw, "latex"), (*raw, "csv", "--price-per-hour", "1")):
        done = command(*refused, cwd=results)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("xla-sweeps: results: --raw takes --format csv, json or ")


def test_documents_and_pictures_have_results_alone(results: Path) -> None:
    for form in ("markdown", "latex"):
        own = command("results", "--format", form, cwd=results).stdout
        asked = command("results", "--format", form, "--where", "purpose~a", cwd=results).stdout
        assert own.count("resnet50") == asked.count("resnet50") == 2
        assert own != asked, "the twin and the anchor"
    done = command("plot", cwd=results)
    assert (done.returncode, done.stdout, done.stderr) == (0, "speedups.svg\n", "")
    picture = (results / "speedups.svg").read_text("utf-8")
    assert picture.count("<circle") == 2
    assert xs.results().plot(results / "same.svg").read_text("utf-8") == picture
    with pytest.raises(xs.ConfigError, match="plot: expected rows of results"):
        xs.rounds().plot()
    with pytest.raises(xs.ConfigError, match=r"a file ending in \.svg"):
        xs.results().plot("a.png")


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
