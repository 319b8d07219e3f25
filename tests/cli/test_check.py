"""The command `check`: it finds what is inconsistent in a results folder."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from factories import CONFIG, make_record
from golden_record import GOLDEN, folder_with, put

from xla_sweeps.analysis import summary
from xla_sweeps.cli import check, main
from xla_sweeps.cli.check import examine
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record, seal
from xla_sweeps.store import rows
from xla_sweeps.store.store import Store
from xla_sweeps.system import parallel

CHANGES: Mapping[str, tuple[str, Callable[[Any], None]]] = {
    "batch size": ("batch_size", put("trial.batch_size", -4)),
    "a negative latency": ("latencies_s[0]", put("modes.xla.latencies_s.0", -0.1)),
    "compilation": ("compile_s", put("modes.xla.compile_s", -5)),
    "impossible block": ("blocks[0].elapsed_ns", put("rounds.3.blocks.0.elapsed_ns", -1)),
    "a round that stands there twice": ("round 1: it is round 0", put("rounds.1.round", 0)),
    "a round of another time": ("round 2: it started before", put("rounds.2.started_ns", 1)),
    "a round of another order": ("round 3: its blocks are not", lambda one: reorder(one, 3)),
    "a block that stands there twice": ("round 3: its blocks are not", lambda one: double(one, 3)),
    "a block of another mode": ("round 0: it has a mode", lambda one: rename(one, "eager_2")),
    "rounds longer than the trial": (
        "its rounds take longer than the trial, unless the clock was set back meanwhile",
        put("finished_at", "2026-11-21T22:24:20+00:00"),
    ),
    "no trial": ("$.trial", put("trial", 5)),
    "schema": ("schema 99 is newer", put("schema_version", 99)),
    "schema 0": ("schema_version 0", put("schema_version", 0)),
    "trial": ("trial_id t9 differs", put("trial_id", "t9")),
    "replicate": ("replicate 7 differs", put("replicate", 7)),
    "status": ("'fine' - at `$.status`", put("status", "fine")),
    "a mode's status": ("'fine' - at `$.modes", put("modes.xla.status", "fine")),
    "packages": ("environment: ", put("environment.packages", 5)),
    "words": ("$.words[0]", put("words", [5])),
    "types": ("macs_by_type", put("model.macs_by_type", {"f32": -1})),
    "a cause that is no text": ("rounds[3].dirty", put("rounds.3.dirty", 1e-300)),
    "a load that is no number": ("foreign_cores", put("rounds.3.load", {"foreign_cores": "x"})),
    "stages": ("$.seconds", put("seconds.build", -1)),
    "a request that is no text": ("request_id", put("request_id", 5)),
    "a fingerprint that is no text": ("fingerprint", put("model.fingerprint", [1])),
}


def reorder(document: Any, number: int) -> None:
    document["rounds"][number]["order"].reverse()


def double(document: Any, number: int) -> None:
    one = document["rounds"][number]
    one["blocks"] += one["blocks"][:1]
    one["order"] += one["order"][:1]


def rename(document: Any, mode: str) -> None:
    one = document["rounds"][0]
    one["order"][0] = one["blocks"][0]["mode"] = mode


def test_the_golden_record_is_without_fault(tmp_path: Path) -> None:
    folder_with(tmp_path, GOLDEN.read_bytes())
    report = examine(tmp_path)
    assert report.problems == []
    (note,) = report.notes
    assert note.startswith(f"{tmp_path}/records: 1 of 1 records are contaminated: other processes")


@pytest.mark.parametrize("name", CHANGES)
def test_check_reports_each_kind_of_inconsistency(name: str, tmp_path: Path) -> None:
    word, change = CHANGES[name]
    document = json.loads(GOLDEN.read_bytes())
    change(document)
    path = folder_with(tmp_path, seal(document))
    lines = examine(tmp_path).problems
    assert any(line.startswith(f"{path}: ") and word in line for line in lines), lines


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("its digest is not", GOLDEN.read_bytes().replace(b"ok", b"no", 1)),
        ("last line is not a digest", GOLDEN.read_bytes().rstrip(b"\n}") + b"}"),
        ("not valid JSON", b'{"a": NaN}'),
        ("cannot be read", b"[" * 100_000),
        ("not a record", b"[]"),
        ("cannot be read", b"\xff"),
    ],
)
def test_check_names_what_is_damaged(word: str, text: bytes, tmp_path: Path) -> None:
    path = folder_with(tmp_path, text)
    (line,) = examine(tmp_path).problems
    assert line.startswith(f"{path}: ")
    assert word in line


def test_litter_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder_with(tmp_path, GOLDEN.read_bytes())
    stray = path.with_name("notes.txt")
    for place in (path.with_name(".abc.tmp"), stray):
        place.write_text("")
    (tmp_path / "records" / ".probe-abc").write_text("")
    assert main.run(["check", str(tmp_path)]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == f"note: {stray}: not a record's name; no reader reads it"
    assert second.startswith(f"note: {tmp_path}/records: 1 of 1 records are contaminated: ")
    assert last.startswith(f"{tmp_path}: 1 trial, 1 record, 1 contaminated")
    assert last.endswith("0 problems")


def test_a_thousand_notes_that_say_the_same_are_twenty_and_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder_with(tmp_path, GOLDEN.read_bytes())
    for number in range(1000):
        (tmp_path / "records" / f"stray-{number}.txt").write_text("")
    assert main.run(["check", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("stray-" in line for line in lines) == 20
    assert "note: and 980 more: not a trial's folder" in lines


@pytest.mark.parametrize("part", [100, 1])
def test_what_one_process_measured_is_stored_once_and_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(parallel, "PART", part)  # copies may be in different parts
    record = make_record(noise=0.1)
    store = Store(tmp_path)
    paths = [store.save(record)[1], store.save(record)[1]]
    lines = examine(tmp_path).problems
    assert lines == [f"{paths[1]}: the same measurement as {paths[0]}"]
    elsewhere = store.save(replace(record, trial_id="e" * 16))[1]
    assert f"{elsewhere}: the same measurement as {paths[1]}" in examine(tmp_path).problems
    other = {**record.device, "name": "Another"}
    store.save(make_record(noise=0.1, seed=1, device=other))
    assert any("different devices" in line for line in examine(tmp_path).problems)


def test_records_that_cannot_be_summarized_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path).save(make_record(noise=0.1))
    monkeypatch.setattr(summary, "measured_of", lambda *_, **__: 1 / 0)
    (line,) = examine(tmp_path).problems
    assert "its records cannot be used (ZeroDivisionError" in line


def test_what_planning_reads_beside_the_rows_is_compared_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored, _ = store.save(make_record(noise=0.1))
    os.utime(store.records_dir / stored.trial_id, (1, 1))
    rows.load(tmp_path)
    assert examine(tmp_path).problems == []
    path = tmp_path / "cache" / "rows.parquet"
    rewrite_facts(path, lambda facts: facts.replace(b'"ok"', b'"oom_host"'))
    assert [str(run.outcome) for run in rows.load_runs(store).all()] == ["oom_host"]
    (line,) = examine(tmp_path).problems
    assert line.startswith(f"{path}: not the rows of the records: {stored.trial_id}")


def test_a_line_tells_of_all_that_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path).save(make_record(noise=0.1))
    shown: list[str] = []

    @contextlib.contextmanager
    def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
        shown.append(title)
        yield lambda done, total: None
        shown.append("")

    def unlike_records(*_: object) -> list[str]:
        return [f"beside the line: {shown[-1]}"]

    monkeypatch.setattr(check, "progress_bar", progress_bar)
    monkeypatch.setattr(rows, "unlike_records", unlike_records)
    assert examine(tmp_path).problems == ["beside the line: comparing kept rows"]
    assert shown == ["checking records", "", "comparing kept rows", ""]


def test_check_changes_nothing(tmp_path: Path) -> None:
    path = folder_with(tmp_path, b"{")
    before = sorted(tmp_path.rglob("*"))
    assert len(examine(tmp_path).problems) == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert path.read_bytes() == b"{"


def test_links_are_named_and_names_cannot_write_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder_with(tmp_path, GOLDEN.read_bytes())
    (tmp_path / "records" / ("e" * 16)).symlink_to(path.parent)
    (tmp_path / "records" / "a\x1b[2Jb").mkdir()
    assert main.run(["check", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "a link, which no reader follows" in said


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose kept rows are believed: clean, contaminated, failed, A/A, a mode alone."""
    monkeypatch.setattr(rows, "RACY_NS", -1)
    store = Store(tmp_path)
    for seed in range(3):
        status = Status.CONTAMINATED if seed == 1 else Status.OK
        store.save(make_record(noise=0.1, seed=seed, status=status))
    aa = {"graph": 0.2, "graph_2": 0.21}
    config = {**CONFIG, "modes": ["graph", "graph"]}
    store.save(make_record(aa, trial_id="a" * 16, noise=0.1, config=config))
    config = {**CONFIG, "modes": ["xla"]}
    store.save(make_record({"xla": 0.1}, trial_id="b" * 16, noise=0.1, config=config))
    store.save(Record.from_json(GOLDEN.read_bytes()))
    rows.load(tmp_path)
    return tmp_path


def rewrite_rows(path: Path, change: Callable[[pyarrow.Table], pyarrow.Table]) -> None:
    """Write kept rows again, with what is kept beside them."""
    file = pyarrow.parquet.ParquetFile(path)
    changed = change(file.read()).replace_schema_metadata(file.metadata.metadata)
    pyarrow.parquet.write_table(changed, path)


def rewrite_facts(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Write kept rows again, with what is kept beside them changed."""
    table = pyarrow.parquet.read_table(path)
    ((key, packed),) = table.schema.metadata.items()
    facts = pyarrow.input_stream(pyarrow.py_buffer(base64.b64decode(packed)), "zstd").read()
    packed = base64.b64encode(pyarrow.compress(change(facts), codec="zstd", asbytes=True))
    pyarrow.parquet.write_table(table.replace_schema_metadata({key: packed}), path)


def set_column(table: pyarrow.Table, name: str, value: Any) -> pyarrow.Table:
    values = pyarrow.array([value] * table.num_rows, table[name].type)
    return table.set_column(table.schema.names.index(name), name, values)


EDITS: Mapping[str, Any] = {
    **{"speedup": 99.0, "speedup_low": 98.0, "throughput_samples_per_s": 1.0},
    **{"baseline_call_ms": 1.0, "status": "ok", "device": "Another", "params": 7},
}


@pytest.mark.parametrize("column", [None, *EDITS])
def test_kept_rows_that_are_not_those_of_the_records_are_reported(
    kept: Path, column: str | None
) -> None:
    path = kept / "cache" / "rows.parquet"
    if column is not None:
        rewrite_rows(path, lambda table: set_column(table, column, EDITS[column]))
        shown = rows.load(kept).table[column].to_pylist()
        assert set(shown) == {EDITS[column]}, "as readers believe it"
    lines = [line for line in examine(kept).problems if "cache" in line]
    assert len(lines) == (column is not None), lines
    assert all("not the rows of the records" in line and str(path) in line for line in lines)
    assert not any("np." in line for line in lines)
    if column == "speedup":
        assert re.search(
            rf"records: \w+ against \w+ of \w{{16}}: {column} is 99\.0 there and [\d.]+ here",
            lines[0],
        )


def test_rows_that_were_kept_elsewhere_are_not_believed(kept: Path, tmp_path: Path) -> None:
    before = rows.load(kept).table
    rewrite_rows(kept / "cache" / "rows.parquet", lambda rows: set_column(rows, "speedup", 99.0))
    shutil.copytree(kept, tmp_path / "copy")
    for folder in (kept / "records").iterdir():
        stamp = folder.stat()
        os.utime(
            tmp_path / "copy" / "records" / folder.name, ns=(stamp.st_atime_ns, stamp.st_mtime_ns)
        )
    assert rows.load(tmp_path / "copy").table.equals(before)


def test_kept_rows_that_say_they_are_more_than_trials_can_have_are_not_unpacked(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows.load(kept).table
    path = kept / "cache" / "rows.parquet"
    file = pyarrow.parquet.ParquetFile(path)
    table, beside = file.read(), file.metadata.metadata
    unpacked: list[int] = []
    monkeypatch.setattr("xla_sweeps.store.table._MIN_ROWS", 1_000)
    huge = pyarrow.concat_tables([table] * (1_001 // table.num_rows + 1))
    for written in (huge, table.slice(0, 1).select(["trial_id"])):
        pyarrow.parquet.write_table(written.replace_schema_metadata(beside), path)
        with monkeypatch.context() as patched:
            patched.setattr(
                pyarrow.parquet.ParquetFile, "read", lambda *_, **__: unpacked.append(1)
            )
            lines = [line for line in examine(kept).problems if "cache" in line]
            assert rows.load(kept).table.equals(before)
        assert not unpacked
        assert len(lines) == (written is huge), lines
        assert all("rows and" in line and "trials can have" in line for line in lines)


def test_what_unpacks_to_more_than_trials_can_have_is_not_believed(kept: Path) -> None:
    before = rows.load(kept).table
    path = kept / "cache" / "rows.parquet"
    rewrite_facts(path, lambda facts: facts + b" " * 2**25)
    assert path.stat().st_size < 2**20
    (line,) = (line for line in examine(kept).problems if "cache" in line)
    assert "MiB beside its rows" in line
    assert rows.load(kept).table.equals(before)
