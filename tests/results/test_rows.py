"""Rows kept beside the records: the same as read anew, whatever changed in between."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from factories import CONFIG, failed_outcome, make_outcome, make_record

from xla_sweeps.results import load, table
from xla_sweeps.results import rows as row_cache
from xla_sweeps.results.store import Store
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow, Verdict

TIMES = {"eager": 0.4, "graph": 0.2, "xla": 0.19}


@pytest.fixture(autouse=True)
def old_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders count as settled at once, so that what is kept is used."""
    monkeypatch.setattr(row_cache, "RACY_NS", -1)


def same(rows: list[ComparisonRow], others: list[ComparisonRow]) -> bool:
    """Equal but for the last digits of p-values, which went through a logarithm once more."""
    p_values = [
        [-1.0 if row.p_value is None else row.p_value for row in group] for group in (rows, others)
    ]
    assert p_values[0] == pytest.approx(p_values[1], rel=1e-9)
    return [replace(row, p_value=None) for row in rows] == [
        replace(row, p_value=None) for row in others
    ]


def trial(number: int) -> str:
    return f"{number:016x}"


def save(folder: Path, number: int, **changes: object) -> Record:
    fields = {"trial_id": trial(number), "noise": 0.02, "seed": number, **changes}
    stored, _ = Store(folder).save(make_record(fields.pop("call_s", TIMES), **fields))  # type: ignore[arg-type]
    return stored


def anew(folder: Path) -> list[ComparisonRow]:
    _, summaries = load.load(folder, warn=pytest.fail)
    return sorted((row for summary in summaries.values() for row in summary.comparisons), key=key)


def kept(folder: Path) -> list[ComparisonRow]:
    return sorted(table.rows_of(row_cache.load(folder).table), key=key)


def key(row: ComparisonRow) -> tuple[str, str, str]:
    return row.trial_id, row.baseline, row.candidate


def test_a_table_gives_back_the_rows_it_was_made_of(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(
        tmp_path,
        2,
        modes={
            "graph": make_outcome(0.2),
            "xla": failed_outcome(Status.UNSUPPORTED_OP, "<module>"),
        },
    )
    rows = anew(tmp_path)
    assert table.rows_of(table.table_of(rows)) == rows
    assert table.table_of([]).schema == table.schema() == table.table_of(rows).schema


def test_kept_rows_are_those_of_the_records_through_every_change(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path, number)
    assert same(kept(tmp_path), anew(tmp_path))
    save(tmp_path, 1, replicate=1, seed=77)  # one more replicate
    save(tmp_path, 9)
    assert same(kept(tmp_path), anew(tmp_path))
    for path in (tmp_path / "records" / trial(2)).iterdir():
        path.unlink()
    (tmp_path / "records" / trial(2)).rmdir()
    assert same(kept(tmp_path), anew(tmp_path))
    assert {row.trial_id for row in kept(tmp_path)} == {trial(number) for number in (0, 1, 3, 9)}


def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        save(tmp_path, number)
    before = kept(tmp_path)
    read: list[str] = []
    real = row_cache.read_trials

    def noted(folder: Path, names: list[str], times: dict[str, int]) -> row_cache.Trials:
        read.extend(names)
        return real(folder, names, times)

    monkeypatch.setattr(row_cache, "read_trials", noted)
    assert kept(tmp_path) == before
    assert read == []
    save(tmp_path, 1, replicate=1)
    row_cache.load(tmp_path)
    assert read == [trial(1)]


def test_a_folder_that_changed_a_moment_ago_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_cache, "RACY_NS", 3600 * 10**9)
    save(tmp_path, 1)
    row_cache.load(tmp_path)
    stamp = (tmp_path / "records" / trial(1)).stat()
    save(tmp_path, 1, replicate=1, seed=5)
    os.utime(
        tmp_path / "records" / trial(1), ns=(stamp.st_atime_ns, stamp.st_mtime_ns)
    )  # the clock could not tell
    assert same(kept(tmp_path), anew(tmp_path))
    assert kept(tmp_path)[0].replicates == 2


def test_a_floor_that_aa_pairs_raise_reaches_every_row_of_the_device(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path, number)
    assert {row.floor for row in kept(tmp_path)} == {0.01}
    assert {row.verdict for row in kept(tmp_path) if row.headline} == {Verdict.FASTER}
    for number in range(10, 16):
        apart = 1 + 0.02 * (number - 9)
        save(tmp_path, number, call_s={"graph": 0.2, "graph_2": 0.2 / apart})
    save(tmp_path, 20, device={"kind": "cpu", "name": "Another CPU"})
    rows = kept(tmp_path)
    assert same(rows, anew(tmp_path))
    assert {row.floor for row in rows if row.device == "Another CPU"} == {0.01}
    assert min(row.floor for row in rows if row.device == "Some CPU") > 0.05
    judged = {
        row.verdict
        for row in rows
        if row.candidate == "xla" and row.baseline == "graph" and row.device == "Some CPU"
    }
    assert judged <= {Verdict.EQUIVALENT, Verdict.AMBIGUOUS}
    assert kept(tmp_path) == rows


def test_drift_between_anchors_flags_what_lies_between(tmp_path: Path) -> None:
    tagged = {**CONFIG, "tracker": {**CONFIG["tracker"], "tags": ["anchor"]}}
    for hour, seconds in ((1, 0.2), (3, 0.2), (5, 0.3)):
        save(
            tmp_path,
            1,
            replicate=hour,
            call_s={"graph": seconds, "graph_2": seconds},
            config=tagged,
            noise=0.0,
            started_at=f"2026-01-01T0{hour}:00:00+00:00",
        )
    save(tmp_path, 2, started_at="2026-01-01T02:00:00+00:00")
    save(tmp_path, 3, started_at="2026-01-01T04:00:00+00:00")
    rows = kept(tmp_path)
    assert same(rows, anew(tmp_path))
    assert {row.trial_id for row in rows if "drift" in row.flags} == {trial(3)}
    assert kept(tmp_path) == rows


def test_a_damaged_record_is_said_and_left_out(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "records" / trial(2) / "0.json").write_text("{")
    loaded = row_cache.load(tmp_path)
    assert [problem for problem in loaded.problems if trial(2) in problem]
    assert set(loaded.table["trial_id"].to_pylist()) == {trial(1)}
    newer = (
        make_record(TIMES, trial_id=trial(3))
        .to_json()
        .replace(b'"schema_version": 1', b'"schema_version": 99')
    )
    (tmp_path / "records" / trial(3)).mkdir()
    (tmp_path / "records" / trial(3) / "0.json").write_bytes(newer)
    for _ in range(2):  # what cannot be read is said each time, not only the first
        assert [problem for problem in row_cache.load(tmp_path).problems if "newer" in problem]


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense", b"{}"])
def test_what_is_kept_may_be_damaged_or_deleted_or_unwritable(
    tmp_path: Path, content: bytes
) -> None:
    save(tmp_path, 1)
    rows = kept(tmp_path)
    (tmp_path / "cache" / "rows.parquet").write_bytes(content)
    assert kept(tmp_path) == rows
    (tmp_path / "cache" / "rows.parquet").unlink()
    (tmp_path / "cache").rmdir()
    (tmp_path / "cache").write_text("in the way")
    assert kept(tmp_path) == rows


def test_many_trials_are_read_by_several_processes_and_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_cache, "PARALLEL_FROM", 4)
    monkeypatch.setattr(row_cache, "CHUNK", 2)
    for number in range(5):
        save(tmp_path, number)
    told: list[tuple[int, int]] = []
    loaded = row_cache.load(tmp_path, advance=lambda done, total: told.append((done, total)))
    assert sorted(table.rows_of(loaded.table), key=key) == anew(tmp_path)
    assert told == [(2, 5), (4, 5), (5, 5)]
    assert (loaded.trials, loaded.records) == (5, 5)


def test_a_folder_without_records_has_no_rows(tmp_path: Path) -> None:
    assert row_cache.load(tmp_path).table.num_rows == 0
    assert not list(tmp_path.iterdir())


def test_a_row_that_failed_says_its_devices_floor_all_the_same(tmp_path: Path) -> None:
    save(
        tmp_path,
        1,
        modes={"graph": make_outcome(0.2), "xla": failed_outcome(Status.COMPILE_ERROR)},
        call_s={"graph": 0.2},
    )
    for number in range(10, 16):
        save(tmp_path, number, call_s={"graph": 0.2, "graph_2": 0.19})
    rows = kept(tmp_path)
    assert same(rows, anew(tmp_path))
    failed = next(row for row in rows if row.verdict is Verdict.FAILED)
    assert failed.floor > 0.01
    assert replace(failed, floor=0.01) != failed
