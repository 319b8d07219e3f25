"""The index of records: it follows every change of the folder."""

from __future__ import annotations

import os
from pathlib import Path

from quick_trial import record

from xla_sweeps.results.index import read_index
from xla_sweeps.results.store import Store


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
