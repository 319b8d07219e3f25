"""The index of records: it follows every change of the folder."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
from quick_trial import record

from xla_sweeps.results.index import read_index
from xla_sweeps.results.store import Store
from xla_sweeps.schema.record import SCHEMA_VERSION, sealed
from xla_sweeps.system import files


def test_the_index_follows_records_that_are_added_removed_or_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for number in range(5):
        store.save(record(f"t{number}", "ok", {}))
    assert len(list(read_index(store).all())) == 5
    (store.records_dir / "t1" / "0.json").write_bytes(b"{")
    os.utime(store.records_dir / "t1")
    again = read_index(store)
    assert sorted(again.entries) == ["t0", "t1", "t2", "t3", "t4"]
    assert again.entries["t1"] == []
    assert "moved to" in again.problems[0]
    (tmp_path / "cache" / "index.json").write_text("not json")
    assert len(list(read_index(store).all())) == 4


def test_what_could_not_be_read_is_read_again_when_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    _, path = store.save(record("t0", "ok", {}))
    content = path.read_bytes()
    os.utime(path.parent, (1, 1))
    with monkeypatch.context() as patch:
        patch.setattr(files, "read_regular", failing)
        index = read_index(store)
        assert (index.entries["t0"], len(index.problems)) == ([], 1)
    assert len(list(read_index(store).all())) == 1
    newer = sealed(json.loads(content) | {"schema_version": SCHEMA_VERSION + 1})
    for text, count in ((newer, 0), (newer, 0), (content, 1)):  # the last: after the upgrade
        path.write_bytes(text)
        os.utime(path.parent, (2, 2))
        index = read_index(store)
        assert (len(index.entries["t0"]), len(index.problems)) == (count, 1 - count)


def failing(path: Path) -> bytes:
    raise OSError(errno.EIO, "Input/output error", str(path))


def test_an_index_from_elsewhere_is_not_believed(tmp_path: Path) -> None:
    store = Store(tmp_path / "r")
    _, path = store.save(record("t0", "ok", {}))
    os.utime(path.parent, (1, 1))
    read_index(store)
    kept = tmp_path / "r" / "cache" / "index.json"
    kept.write_text(kept.read_text().replace('"ok"', '"timeout"'))
    assert [str(entry.outcome) for entry in read_index(store).all()] == ["timeout"]
    shutil.copytree(tmp_path / "r", tmp_path / "copy")
    assert [str(entry.outcome) for entry in read_index(Store(tmp_path / "copy")).all()] == ["ok"]
