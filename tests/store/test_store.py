"""Records on disk: complete or absent, the first writer wins, damaged ones are quarantined."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import make_record
from programs import run_program

from xla_sweeps.errors import StoreError
from xla_sweeps.schema.record import SCHEMA_VERSION, Record, seal
from xla_sweeps.store import rows
from xla_sweeps.store.store import Store, folder_below

TRIAL_ID = make_record().trial_id


def save_many(results_dir: Path, count: int, note: str) -> None:
    store = Store(results_dir)
    for _ in range(count):
        store.save(make_record(log=note))


def test_a_saved_record_reads_back_equal(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored, path = store.save(make_record())
    assert path == tmp_path / "records" / stored.trial_id / "0.json"
    assert store.load().records == {stored.trial_id: [stored]}


def test_replicates_are_numbered_in_the_order_they_are_saved(tmp_path: Path) -> None:
    store = Store(tmp_path)
    numbers = list(range(12))
    assert [store.save(make_record(replicate=99))[0].replicate for _ in numbers] == numbers
    assert [record.replicate for record in store.load().records[TRIAL_ID]] == numbers


def test_processes_that_save_the_same_trial_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=save_many, args=(tmp_path, 20, f"writer {index}"))
        for index in range(3)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    records = Store(tmp_path).load().records[TRIAL_ID]
    assert sorted(record.replicate for record in records) == list(range(60))
    assert {record.log for record in records} == {"writer 0", "writer 1", "writer 2"}
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_record_truncated_at_any_byte_is_quarantined_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    store.save(make_record())
    _, path = store.save(make_record())
    content = path.read_bytes()
    for length in [*random.Random(0).sample(range(len(content)), 60), 0, 1, len(content) - 1]:
        path.write_bytes(content[:length])
        loaded = store.load()
        assert [record.replicate for record in loaded.records[TRIAL_ID]] == [0]
        assert len(loaded.problems) == 1
        assert "quarantine" in loaded.problems[0]
        assert not path.exists()


def test_flipped_bits_never_raise(tmp_path: Path) -> None:
    content = make_record().to_json()
    source = random.Random(1)
    folder = tmp_path / "records" / TRIAL_ID
    folder.mkdir(parents=True)
    store = Store(tmp_path)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        (folder / "0.json").write_bytes(bytes(damaged))
        loaded = store.load()
        assert len(loaded.problems) + sum(map(len, loaded.records.values())) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"schema_version": SCHEMA_VERSION + 1},
            f"schema {SCHEMA_VERSION + 1} is newer than this version's {SCHEMA_VERSION}",
        ),
        ({"modes": {"later": {"status": "ok"}}}, "mode later is unknown to this version"),
    ],
)
def test_a_record_of_a_later_version_is_reported_and_not_moved(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    store = Store(tmp_path)
    _, path = store.save(make_record())
    path.write_bytes(seal(json.loads(path.read_bytes()) | change))
    loaded = store.load()
    assert loaded.records == {}
    assert loaded.problems == (f"{path}: {says}: update xla_sweeps to read it",)
    assert path.exists()


def test_unknown_fields_of_a_record_are_ignored(tmp_path: Path) -> None:
    document = json.loads(make_record().to_json()) | {"a_later_field": 1}
    assert Record.from_json(seal(document)) == make_record()


def test_values_that_json_lacks_are_replaced_and_the_record_is_saved(tmp_path: Path) -> None:
    hostile = {  # in what has no types of its own
        "nan": float("nan"),
        "inf": float("inf"),
        "big": 2**80,
        "surrogate": "a\ud800b",
        "bytes": b"\xff",
        "set": {1},
    }
    _, path = Store(tmp_path).save(make_record(contamination=hostile))
    assert Record.from_json(path.read_bytes()).contamination == {
        "nan": None,
        "inf": None,
        "big": str(2**80),
        "surrogate": "a?b",
        "bytes": "b'\\xff'",
        "set": [1],
    }
    assert len(make_record(log="x" * 10**6).to_json()) < 200_000


def test_quarantined_numbers_are_not_used_again_for_other_records(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(make_record())
    _, path = store.save(make_record())
    assert store.next_replicate(TRIAL_ID) == 2
    path.write_bytes(b"{")
    assert len(store.load().problems) == 1
    assert store.next_replicate(TRIAL_ID) == 2
    assert store.next_replicate("f" * 16) == 0


@pytest.mark.parametrize(
    ("foreign", "number"),
    [
        ("9999.json", 10_000),
        ("20261121.json", 20_261_122),
        ("999999999.json", 1),
        ("9999999999999.json", 1),
        ("10000.json.bak", 1),
        ("\u00b2.json", 1),
        ("\u0663.json", 1),
        ("007.json", 1),
        ("-3.json", 1),
        ("notes.json", 1),
    ],
)
def test_a_foreign_file_never_keeps_a_record_from_being_saved(
    tmp_path: Path, foreign: str, number: int
) -> None:
    store = Store(tmp_path)
    _, path = store.save(make_record())
    (path.parent / foreign).write_text("somebody else's")
    assert store.save(make_record())[0].replicate == number
    assert len(store.load().records[TRIAL_ID]) == 2
    if not foreign.startswith(("9999.", "20261121.", "999999999.")):  # a record's name
        assert (path.parent / foreign).read_text() == "somebody else's"


def test_a_record_in_the_folder_of_another_trial_is_not_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _, path = store.save(make_record())
    path.parent.rename(store.records_dir / ("e" * 16))
    loaded = store.load()
    assert loaded.records == {}
    assert f"it is a record of trial {TRIAL_ID}; moved to" in loaded.problems[0]


def test_what_a_killed_process_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _, path = store.save(make_record())
    left = [path.parent / ".abc.tmp", store.records_dir / ".probe-abc"]
    for place in left:
        place.write_text("")
        place.with_name(place.name.replace("abc", "new")).write_text("")
        os.utime(place, (1, 1))
    store.check_writable()
    store.save(make_record())
    assert not [place for place in left if place.exists()]
    assert all(place.with_name(place.name.replace("abc", "new")).exists() for place in left)


@pytest.mark.parametrize("linked", ["records", "records/0123456789abcdef", "quarantine", "logs"])
def test_nothing_is_written_through_a_link(tmp_path: Path, linked: str) -> None:
    (tmp_path / "outside").mkdir()
    store = Store(tmp_path / "r")
    place = store.results_dir / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "outside")
    if linked.startswith("records"):
        with pytest.raises(StoreError, match="is a link"):
            store.save(make_record())
    elif linked == "logs":
        with pytest.raises(StoreError, match="is a link"):
            folder_below(store.results_dir, "logs", TRIAL_ID)
    else:
        _, path = store.save(make_record())
        path.write_bytes(b"{")
        assert "moved to nowhere (quarantine is a link or no folder)" in store.load().problems[0]
        assert path.exists()
    assert not list((tmp_path / "outside").iterdir())


AS_ANYBODY = """
import os
from pathlib import Path
from xla_sweeps.errors import StoreError
from xla_sweeps.store.store import Store
if os.geteuid() == 0:  # who may write anywhere
    os.setegid(65534)
    os.seteuid(65534)
try:
    Store(Path("results")).check_writable()
except StoreError as error:
    print(error)
"""
"""Finds out whether a folder below the working folder can be written."""


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (
            0o555,
            "results_dir=results cannot be written: Permission denied. "
            "Choose another: results_dir=PATH\n",
        ),
        (0o777, ""),
    ],
)
def test_a_folder_without_permission_is_refused_in_one_line(
    tmp_path: Path, mode: int, said: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    done = run_program(sys.executable, "-c", AS_ANYBODY, cwd=folder)
    assert (done.stdout, done.stderr) == (said, "")


@pytest.mark.parametrize("function", ["write", "fsync", "link"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_is_reported_and_leaves_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, code: int
) -> None:
    store = Store(tmp_path)
    store.save(make_record())

    def fail(*arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(StoreError, match=os.strerror(code)):
            store.save(make_record())
    assert not list(tmp_path.rglob("*.tmp"))
    store.save(make_record())
    assert len(store.load().records[TRIAL_ID]) == 2
    assert not store.load().problems


@pytest.mark.parametrize("failure", [errno.EEXIST, errno.EIO, errno.ETIMEDOUT])
def test_a_record_whose_link_reply_was_lost_counts_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: int
) -> None:
    real: Callable[..., None] = os.link

    def link_and_lose_the_reply(source: object, target: object) -> None:
        real(source, target)
        raise OSError(failure, os.strerror(failure))

    monkeypatch.setattr(os, "link", link_and_lose_the_reply)
    store = Store(tmp_path)
    store.check_writable()
    stored, _ = store.save(make_record())
    assert stored.replicate == 0
    assert store.load().records == {stored.trial_id: [stored]}


def test_what_is_linked_is_saved_though_its_folder_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, real = Store(tmp_path), os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    assert store.save(make_record())[0].replicate == 0
    assert len(store.keys(TRIAL_ID)) == 1


def test_a_folder_whose_name_is_none_of_a_trial_is_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored, _ = store.save(make_record())
    strange = os.fsencode(store.records_dir) + b"/b\xff"
    os.mkdir(strange)  # noqa: PTH102
    (store.records_dir / "with a blank").mkdir()
    assert [name for name, _ in store.folders()] == [stored.trial_id]
    assert rows.load(tmp_path).records == rows.load(tmp_path).trials == 1
    assert os.path.isdir(strange)  # noqa: PTH112


def test_a_record_with_more_rounds_than_can_be_asked_for_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_sweeps.schema.record.MAX_ROUNDS", 20)
    store = Store(tmp_path)
    (measured,) = make_record().rounds[:1]
    _, path = store.save(make_record(rounds=(measured,) * 21))
    loaded = store.load()
    assert not loaded.records
    assert "more than 20 rounds" in loaded.problems[0]
    assert not path.exists()
