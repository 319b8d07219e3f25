"""Kept rows: the same as the records give, whatever changed in between."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from changed_rows import with_columns
from factories import CONFIG, failed_outcome, make_outcome, make_record

from xla_sweeps.analysis import summary
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import SCHEMA_VERSION, Record, seal
from xla_sweeps.schema.row import ComparisonRow, TrialSummary
from xla_sweeps.store import derive, table
from xla_sweeps.store import rows as rows_
from xla_sweeps.store.store import Loaded, Store
from xla_sweeps.system import files, parallel

TIMES = {"eager": 0.4, "graph": 0.2, "xla": 0.19}


@pytest.fixture(autouse=True)
def old_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders count as settled at once, so that the cache is used."""
    monkeypatch.setattr(rows_, "RACY_NS", -1)


def same(rows: list[ComparisonRow], others: list[ComparisonRow]) -> bool:
    """Equal but for the last digits of p-values, which went through a logarithm once more."""
    p_values = [
        [-1.0 if row.speedup.p_value is None else row.speedup.p_value for row in group]
        for group in (rows, others)
    ]
    assert p_values[0] == pytest.approx(p_values[1], rel=1e-9)
    return [with_columns(row, p_value=None) for row in rows] == [
        with_columns(row, p_value=None) for row in others
    ]


def trial(number: int) -> str:
    return f"{number:016x}"


def save(folder: Path, number: int, **changes: object) -> Record:
    fields = {"trial_id": trial(number), "noise": 0.02, "seed": number, **changes}
    stored, _ = Store(folder).save(make_record(fields.pop("call_s", TIMES), **fields))  # type: ignore[arg-type]
    return stored


def save_anchors(folder: Path, seconds: dict[int, float]) -> None:
    """Save an anchor for each hour, of so many seconds a call."""
    tagged = {**CONFIG, "tracker": {**CONFIG["tracker"], "tags": ["anchor"]}}
    for hour, call_s in seconds.items():
        times = {"graph": call_s, "graph_2": call_s}
        at = f"2026-01-01T0{hour}:00:00+00:00"
        save(folder, 1, replicate=hour, call_s=times, config=tagged, noise=0.0, started_at=at)


def from_records(folder: Path) -> list[ComparisonRow]:
    """The rows of a copy of the records, beside which nothing is kept."""
    with tempfile.TemporaryDirectory() as fresh:
        shutil.copytree(folder / "records", Path(fresh) / "records")
        return kept(Path(fresh))


def kept(folder: Path) -> list[ComparisonRow]:
    return sorted(table.rows_of(rows_.load(folder).table), key=key)


def kept_of(folder: Path, number: int) -> list[ComparisonRow]:
    return [row for row in kept(folder) if row.trial.trial_id == trial(number)]


def key(row: ComparisonRow) -> tuple[str, str, str]:
    return row.trial.trial_id, row.baseline.mode, row.candidate.mode


def test_a_table_returns_the_rows_it_was_made_of(tmp_path: Path) -> None:
    save(tmp_path, 1)
    failed = failed_outcome(Status.UNSUPPORTED_OP, "<module>")
    save(tmp_path, 2, modes={"graph": make_outcome(0.2), "xla": failed})
    rows = from_records(tmp_path)
    assert table.rows_of(table.table_of(rows)) == rows
    assert table.table_of([]).schema == table.schema() == table.table_of(rows).schema


def test_cached_rows_equal_those_of_the_records_after_every_change(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path, number)
    assert same(kept(tmp_path), from_records(tmp_path))
    save(tmp_path, 1, replicate=1, seed=77)  # one more replicate
    save(tmp_path, 9)
    assert same(kept(tmp_path), from_records(tmp_path))
    shutil.rmtree(tmp_path / "records" / trial(2))
    assert same(kept(tmp_path), from_records(tmp_path))
    assert {row.trial.trial_id for row in kept(tmp_path)} == {*map(trial, (0, 1, 3, 9))}


def test_only_changed_folders_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        save(tmp_path, number)
    before = kept(tmp_path)
    read: list[str] = []
    real = derive.read_trials

    def noted(store: Store, names: list[str], *advance: Any) -> derive.Trials:
        read.extend(names)
        return real(store, names, *advance)

    monkeypatch.setattr(derive, "read_trials", noted)
    assert kept(tmp_path) == before
    assert read == []
    save(tmp_path, 1, replicate=1)
    rows_.load(tmp_path)
    assert read == [trial(1)]


def test_a_folder_that_changed_a_moment_ago_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_, "RACY_NS", 3600 * 10**9)
    save(tmp_path, 1)
    rows_.load(tmp_path)
    folder = tmp_path / "records" / trial(1)
    stamp = folder.stat()
    save(tmp_path, 1, replicate=1, seed=5)
    os.utime(folder, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # the clock could not tell
    assert same(kept(tmp_path), from_records(tmp_path))
    assert kept(tmp_path)[0].speedup.replicates == 2


def test_a_floor_that_aa_pairs_raise_reaches_every_row_of_the_device(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path, number, call_s={**TIMES, "xla": 0.18}, noise=0.005)
    assert {row.speedup.floor for row in kept(tmp_path)} == {0.01}
    assert {row.speedup.verdict for row in kept(tmp_path) if row.headline} == {Verdict.FASTER}
    for number in range(10, 30):
        save(tmp_path, number, call_s=aa(number - 9))
    save(tmp_path, 40, device={"kind": "cpu", "name": "Another CPU"})
    rows = kept(tmp_path)
    assert same(rows, from_records(tmp_path))
    assert {row.speedup.floor for row in rows if row.trial.device == "Another CPU"} == {0.01}
    assert min(row.speedup.floor for row in rows if row.trial.device == "Some CPU") > 0.05
    judged = {
        row.speedup.verdict
        for row in rows
        if key(row)[1:] == ("graph", "xla") and row.trial.device == "Some CPU"
    }
    assert judged <= {Verdict.EQUIVALENT, Verdict.AMBIGUOUS}
    assert kept(tmp_path) == rows


def test_drift_between_anchors_flags_the_trials_between_them(tmp_path: Path) -> None:
    save_anchors(tmp_path, {1: 0.2, 3: 0.2, 5: 0.3})
    save(tmp_path, 2, started_at="2026-01-01T02:00:00+00:00")
    save(tmp_path, 3, started_at="2026-01-01T04:00:00+00:00")
    rows = kept(tmp_path)
    assert same(rows, from_records(tmp_path))
    assert {row.trial.trial_id for row in rows if "drift" in row.flags} == {trial(3)}
    assert kept(tmp_path) == rows


def test_a_damaged_record_is_reported_and_skipped(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    (tmp_path / "records" / trial(2) / "0.json").write_text("{")
    loaded = rows_.load(tmp_path)
    assert [problem for problem in loaded.problems if trial(2) in problem]
    assert set(loaded.table["trial_id"].to_pylist()) == {trial(1)}
    newer = seal(
        json.loads(make_record(TIMES, trial_id=trial(3)).to_json()) | {"schema_version": 99}
    )
    (tmp_path / "records" / trial(3)).mkdir()
    (tmp_path / "records" / trial(3) / "0.json").write_bytes(newer)
    for _ in range(2):  # what cannot be read is said each time, not only the first
        assert [problem for problem in rows_.load(tmp_path).problems if "newer" in problem]


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense", b"{}"])
def test_the_cache_may_be_damaged_or_deleted_or_unwritable(tmp_path: Path, content: bytes) -> None:
    save(tmp_path, 1)
    rows = kept(tmp_path)
    (tmp_path / "cache" / "rows.parquet").write_bytes(content)
    assert kept(tmp_path) == rows
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("in the way")
    assert kept(tmp_path) == rows


def test_reading_many_trials_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "PART", 1)
    for number in range(3):
        save(tmp_path, number)
    told: list[tuple[int, int]] = []
    loaded = rows_.load(tmp_path, advance=lambda done, total: told.append((done, total)))
    assert sorted(table.rows_of(loaded.table), key=key) == from_records(tmp_path)
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert (loaded.trials, loaded.records) == (3, 3)


def test_a_folder_without_records_has_no_rows(tmp_path: Path) -> None:
    assert rows_.load(tmp_path).table.num_rows == 0
    assert not list(tmp_path.iterdir())


def end(folder: Path, number: int, **changes: object) -> TrialSummary:
    """Save a record and end its trial."""
    save(folder, number, **changes)
    ended, _ = rows_.end_trial(Store(folder), trial(number))
    assert ended is not None
    return ended


def aa(number: int) -> dict[str, float]:
    return {"graph": 0.2, "graph_2": 0.2 / (1 + 0.01 * number)}


AA_PAIRS = range(1, 21)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials whose records are read, "*" for all at once."""
    trials: list[str] = []
    real = Store.load

    def noted(self: Store, *trial_ids: str) -> Loaded:
        trials.extend(trial_ids or ["*"])
        return real(self, *trial_ids)

    monkeypatch.setattr(Store, "load", noted)
    return trials


def test_a_trial_that_ends_reads_the_records_of_those_that_ended_since_the_rows_were_kept(
    tmp_path: Path, read: list[str]
) -> None:
    for number in range(4):
        save(tmp_path, number)
    rows_.load(tmp_path)
    for number in (8, 9):
        read.clear()
        end(tmp_path, number)
        assert {*read} == {trial(number)}


@pytest.mark.parametrize(
    ("like", "unlike"),
    [
        ({"config": {**CONFIG, "onednn": False}}, {"config": CONFIG}),
        ({"environment": {"id": "0000aaaa"}}, {"environment": {"id": "0000bbbb"}}),
    ],
)
def test_trials_of_other_settings_of_tensorflow_and_environments_share_no_floor(
    tmp_path: Path, like: dict[str, Any], unlike: dict[str, Any]
) -> None:
    for number in AA_PAIRS:
        save(tmp_path, number, call_s=aa(number), **like)
    ended = end(tmp_path, 40, **like), end(tmp_path, 41, **unlike)
    floors = [one.comparisons[0].speedup.floor for one in ended]
    assert floors[0] > 0.05
    assert floors[1] == 0.01
    floor_of = {row.trial.trial_id: row.speedup.floor for row in kept(tmp_path)}
    assert [floor_of[trial(number)] for number in (40, 41)] == floors


def widths(rows: Iterable[ComparisonRow]) -> dict[tuple[str, str], float]:
    """The upper end of the interval over the lower one, by pair."""
    return {
        (row.baseline.mode, row.candidate.mode): (row.speedup.high or 0) / (row.speedup.low or 1)
        for row in rows
    }


def test_intervals_learn_from_other_trials_at_the_end_of_a_trial_and_when_rows_are_loaded(
    tmp_path: Path,
) -> None:
    assumed = widths(end(tmp_path, 1).comparisons)
    for number in range(10, 13):
        for replicate in range(3):
            times = {**TIMES, "xla": 0.19 * (1 + 0.02 * replicate)}
            save(tmp_path, number, call_s=times, replicate=replicate, seed=9 * number + replicate)
    ended, _ = rows_.end_trial(Store(tmp_path), trial(12))
    assert ended is not None
    assert same(kept(tmp_path), from_records(tmp_path))
    assert same(sorted(ended.comparisons, key=key), kept_of(tmp_path, 12))
    learned = widths(kept_of(tmp_path, 1))
    assert learned.keys() == assumed.keys()
    assert all(learned[pair] != pytest.approx(assumed[pair], rel=0.01) for pair in learned)
    for number in range(10, 13):
        shutil.rmtree(tmp_path / "records" / trial(number))
    assert same(kept(tmp_path), from_records(tmp_path))
    assert widths(kept(tmp_path)) == pytest.approx(assumed)


def test_trials_that_end_at_once_lose_nothing(tmp_path: Path) -> None:
    numbers = AA_PAIRS
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: end(tmp_path, number, call_s=aa(number)), numbers))
        list(pool.map(lambda _: rows_.load(tmp_path), range(4)))
    ended = end(tmp_path, 40)
    assert same(kept(tmp_path), from_records(tmp_path))
    assert ended.comparisons[0].speedup.floor == pytest.approx(kept(tmp_path)[0].speedup.floor)


def test_kept_rows_of_the_previous_version_are_replaced(tmp_path: Path) -> None:
    save(tmp_path, 1)
    old = table.table_of(from_records(tmp_path))
    beside = b'{"facts":{"0000000000000001":[1,1,"d",[]]},"anchors":{}}'
    path = tmp_path / "cache" / "rows.parquet"
    path.parent.mkdir()
    pyarrow.parquet.write_table(old.replace_schema_metadata({b"xla_sweeps 1.1": beside}), path)
    before = path.read_bytes()
    assert same(kept(tmp_path), from_records(tmp_path))
    assert path.read_bytes() != before


def test_records_in_short_follow_those_that_are_added_or_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(3):
        save(tmp_path, number)
    assert len(list(rows_.load_runs(store).all())) == 3
    save(tmp_path, 2, replicate=1)
    (store.records_dir / trial(1) / "0.json").write_bytes(b"{")
    os.utime(store.records_dir / trial(1))
    again = rows_.load_runs(store)
    counts = {name: len(runs) for name, runs in again.by_trial.items()}
    assert counts == {trial(0): 1, trial(1): 0, trial(2): 2}
    assert "moved to" in again.problems[0]
    (tmp_path / "cache" / "rows.parquet").write_bytes(b"PAR1")
    assert len(list(rows_.load_runs(store).all())) == 3


def test_records_in_short_are_read_again_when_they_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    save(tmp_path, 1)
    path = store.records_dir / trial(1) / "0.json"
    content = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_regular", failing)
        runs = rows_.load_runs(store)
        assert (runs.by_trial[trial(1)], len(runs.problems)) == ((), 1)
    assert len(list(rows_.load_runs(store).all())) == 1
    newer = seal(json.loads(content) | {"schema_version": SCHEMA_VERSION + 1})
    for text, count in ((newer, 0), (newer, 0), (content, 1)):  # the last: after the upgrade
        path.write_bytes(text)
        os.utime(path.parent, (count + 2, count + 2))
        runs = rows_.load_runs(store)
        assert (len(runs.by_trial[trial(1)]), len(runs.problems)) == (count, 1 - count)


def failing(path: Path, limit: int = 0) -> bytes:
    raise OSError(errno.EIO, "Input/output error", str(path))


def test_a_copy_of_a_results_folder_is_read_again(tmp_path: Path) -> None:
    save(tmp_path / "first", 1)
    rows_.load(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    record = tmp_path / "copy" / "records" / trial(1) / "0.json"
    record.write_text("{")
    shutil.copystat(tmp_path / "first" / "records" / trial(1), record.parent)
    for folder, count in (("first", 1), ("copy", 0)):
        assert len(list(rows_.load_runs(Store(tmp_path / folder)).all())) == count


def test_a_trial_that_cannot_be_summarized_counts_as_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    with monkeypatch.context() as patch:
        patch.setattr(summary, "measured_of", unsummarized)
        for _ in range(2):
            loaded, runs = rows_.load(tmp_path), rows_.load_runs(Store(tmp_path))
            assert (loaded.trials, loaded.records, loaded.table.num_rows) == (0, 0, 0)
            assert len(list(runs.all())) == len(runs.problems) == 2
    assert rows_.load(tmp_path).trials == 2


def unsummarized(records: object) -> None:
    raise ValueError("not these")


def test_summaries_have_the_floor_and_the_drift_of_the_rows(tmp_path: Path) -> None:
    save_anchors(tmp_path, {3: 0.2, 5: 0.3})
    for number in range(10, 30):
        save(tmp_path, number, call_s=aa(number - 9))
    save(tmp_path, 3, started_at="2026-01-01T04:00:00+00:00")
    loaded = rows_.load(tmp_path)
    records, summaries, problems = rows_.summaries(tmp_path, loaded)
    assert problems == ()
    rows = sorted((row for judged in summaries.values() for row in judged.comparisons), key=key)
    assert same(kept(tmp_path), rows)
    assert "drift" in summaries[trial(3)].flags
    only, _, _ = rows_.summaries(tmp_path, loaded, only=[trial(3)])
    assert only == {trial(3): records[trial(3)]}


def test_the_floor_at_the_end_of_a_trial_comes_from_the_pairs_of_its_device(tmp_path: Path) -> None:
    for number in AA_PAIRS:
        save(tmp_path, number, call_s=aa(number))
    end(tmp_path, 30, call_s=aa(6), device={"kind": "cpu", "name": "Another CPU"})
    ended = end(tmp_path, 40)
    floor = ended.comparisons[0].speedup.floor
    assert floor > 0.05
    assert {row.speedup.floor for row in kept(tmp_path) if row.trial.device == "Some CPU"} == {
        floor
    }
    assert same(sorted(ended.comparisons, key=key), kept_of(tmp_path, 40))
    another = end(tmp_path, 41, device={"kind": "cpu", "name": "Another CPU"})
    assert another.comparisons[0].speedup.floor == 0.01


def test_of_each_figure_only_its_spread_is_kept_beside_the_rows(tmp_path: Path) -> None:
    """As the logs of every replicate took a third of what each reader unpacks."""
    for replicate in range(3):
        save(tmp_path, 1, replicate=replicate, seed=replicate)
    (fact,) = rows_.load(tmp_path).facts.values()
    assert {one.replicates for one in fact.figures if one.name == "speedup"} == {3}
    assert not any(one.values or one.errors for one in fact.figures)
    estimates = rows_.load(tmp_path).table["replicate_log_speedups"].to_pylist()
    assert {len(text.split()) for text in estimates} == {3}
