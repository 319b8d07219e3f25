"""Multiply-accumulates are counted once for a build, and again wherever that is in doubt."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from factories import MODEL, TRIAL, make_record

from xla_sweeps.results import macs
from xla_sweeps.results.store import Store
from xla_sweeps.schema.trial import Counted, Precision, Trial

PACKAGES = {"tensorflow": "2.21.0", "keras": "3.15.1"}

BUILT = replace(MODEL, params=5, fingerprint="ab" * 8, macs=1234, macs_by_type={"f32": 1234})

COUNTED = Counted(
    params=5, fingerprint="ab" * 8, macs=1234, macs_note="", macs_by_type={"f32": 1234}
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A folder in which a trial's model is counted."""
    kept = Store(tmp_path / "results")
    kept.save(make_record())
    macs.keep(kept, TRIAL, PACKAGES, BUILT)
    return kept


def path_in(store: Store) -> Path:
    (path,) = (store.results_dir / "cache" / "macs").iterdir()
    return path


def test_what_was_counted_is_known_whatever_the_modes_and_the_effort(store: Store) -> None:
    longer = replace(TRIAL.effort, block_s=1.0)
    for trial in (TRIAL, replace(TRIAL, modes=("graph",), effort=longer, seed=9)):
        assert macs.known(store, trial, PACKAGES) == COUNTED


@pytest.mark.parametrize(
    "other",
    [
        replace(TRIAL, batch_size=3),
        replace(TRIAL, precision=Precision.MIXED_BFLOAT16),
        replace(TRIAL, model=replace(TRIAL.model, resolution_px=96)),
        replace(TRIAL, model=replace(TRIAL.model, source="hub")),
    ],
)
def test_another_model_size_source_or_batch_is_not_known(store: Store, other: Trial) -> None:
    assert macs.known(store, other, PACKAGES) is None


def test_other_versions_know_nothing(store: Store) -> None:
    assert macs.known(store, TRIAL, {**PACKAGES, "keras": "3.16.0"}) is None


def test_another_way_to_count_knows_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macs, "VERSION", macs.VERSION + 1)
    assert macs.known(store, TRIAL, PACKAGES) is None


def flipped(content: bytes) -> bytes:
    """Another number, which is as good as the right one."""
    return content.replace(b"1234", b"1235", 1)


@pytest.mark.parametrize(
    "damage", [flipped, lambda content: content[:-9], lambda content: b"", lambda content: b"[]"]
)
def test_what_is_damaged_is_not_believed(store: Store, damage: Callable[[bytes], bytes]) -> None:
    path = path_in(store)
    path.write_bytes(damage(path.read_bytes()))
    assert macs.known(store, TRIAL, PACKAGES) is None
    macs.keep(store, TRIAL, PACKAGES, BUILT)
    assert macs.known(store, TRIAL, PACKAGES) == COUNTED


def test_what_was_kept_elsewhere_is_not_believed(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.results_dir, tmp_path / "copy")
    assert macs.known(Store(tmp_path / "copy"), TRIAL, PACKAGES) is None


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    macs.keep(Store(tmp_path), TRIAL, PACKAGES, BUILT)
    assert macs.known(Store(tmp_path), TRIAL, PACKAGES) is None


def test_only_a_count_whose_build_is_known_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for model in (None, replace(BUILT, fingerprint=""), replace(BUILT, macs=None)):
        macs.keep(store, TRIAL, PACKAGES, model)
    assert not (tmp_path / "cache").exists()


def keep_often(results_dir: Path, count: int) -> None:
    for _ in range(count):
        macs.keep(Store(results_dir), TRIAL, PACKAGES, BUILT)


def test_trials_side_by_side_leave_a_whole_count(store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=keep_often, args=(store.results_dir, 50)) for _ in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert macs.known(store, TRIAL, PACKAGES) == COUNTED
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert path_in(store).suffix == ".json"
