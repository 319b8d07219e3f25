"""A claim is held by one process at a time, ends with it, and follows no link."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
import time
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from xla_sweeps.errors import LockedError, StoreError
from xla_sweeps.store.claim import claim_trial, is_claimed, remove_left


def refuse(folder: Path, why: str) -> None:
    with pytest.raises(StoreError, match=why), claim_trial(folder, "abc"):
        pytest.fail("claimed")


def test_the_same_trial_is_measured_by_one_process_at_a_time(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from xla_sweeps.store.claim import claim_trial\n"
    code += f"with claim_trial(Path({str(tmp_path)!r}), 'abc'):\n print('held', flush=True); "
    code += "sys.stdin.read()"
    holder = Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    refuse(tmp_path, rf"measured into .* by another process \(pid {holder.pid} on ")
    with claim_trial(tmp_path, "another"):
        pass
    holder.kill()
    holder.communicate()
    with claim_trial(tmp_path, "abc"):
        pass


def test_what_a_killed_process_left_is_removed_and_what_is_held_stays(tmp_path: Path) -> None:
    with claim_trial(tmp_path, "held"):
        (tmp_path / "claims" / "left.lock").write_text("")
        remove_left(tmp_path, ["left", "held", "never"])
        assert [path.name for path in (tmp_path / "claims").iterdir()] == ["held.lock"]


@pytest.mark.parametrize("kind", ["link", "dangling link", "hard link", "pipe", "folder"])
def test_a_claim_that_is_not_a_file_of_its_own_is_refused_and_left_alone(
    tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "target"
    path = tmp_path / "r" / "claims" / "abc.lock"
    path.parent.mkdir(parents=True)
    if kind != "dangling link":
        target.write_text("precious")
    if kind.endswith("link"):
        (path.hardlink_to if kind == "hard link" else path.symlink_to)(target)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    refuse(tmp_path / "r", r"abc\.lock cannot be locked")
    assert (target.read_text() if target.exists() else "") in ("precious", "")
    assert target.exists() == (kind != "dangling link")


def test_a_linked_folder_of_claims_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "claims").symlink_to(tmp_path / "outside")
    refuse(tmp_path / "r", "claims is a link or no folder")
    assert not list((tmp_path / "outside").iterdir())


def test_the_file_of_a_claim_is_removed_with_it(tmp_path: Path) -> None:
    with claim_trial(tmp_path, "abc"):
        (path,) = (tmp_path / "claims").iterdir()
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert not list((tmp_path / "claims").iterdir())


def test_who_opened_the_file_before_it_was_removed_does_not_hold_the_claim_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, waited = fcntl.flock, list[int]()

    def after_another_claim(handle: int, operation: int) -> None:
        if not waited:  # between opening and locking, another process claims, and ends
            waited.append(1)
            with claim_trial(tmp_path, "abc"):
                pass
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", after_another_claim)
    with claim_trial(tmp_path, "abc"):
        (path,) = (tmp_path / "claims").iterdir()
        with pytest.raises(LockedError), claim_trial(tmp_path, "abc"):
            pytest.fail("claimed twice")
        assert path.exists()


def test_many_that_claim_at_once_hold_it_one_after_the_other(tmp_path: Path) -> None:
    inside, most, held = 0, 0, 0
    guard = threading.Lock()

    def claim_often() -> None:
        nonlocal inside, most, held
        for _ in range(200):
            try:
                with claim_trial(tmp_path, "abc"):
                    with guard:
                        inside += 1
                        most = max(most, inside)
                        held += 1
                    with guard:
                        inside -= 1
            except LockedError:
                pass

    threads = [threading.Thread(target=claim_often) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert held > 0


def test_a_look_at_a_claim_makes_no_file_and_removes_none(tmp_path: Path) -> None:
    assert not is_claimed(tmp_path, "abc")
    assert not [*tmp_path.iterdir()]
    with claim_trial(tmp_path, "abc"):
        assert is_claimed(tmp_path, "abc")
        assert not is_claimed(tmp_path, "another")
        (path,) = (tmp_path / "claims").iterdir()
    path.touch()
    assert not is_claimed(tmp_path, "abc")
    assert path.exists()


def test_a_claim_that_meets_a_look_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "claims").mkdir()
    looking = os.open(tmp_path / "claims" / "abc.lock", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda seconds: os.close(looking))
    with claim_trial(tmp_path, "abc"):
        assert is_claimed(tmp_path, "abc")


def test_no_claim_fails_because_others_look(tmp_path: Path) -> None:
    done = threading.Event()

    def look_often() -> None:
        while not done.is_set():
            is_claimed(tmp_path, "abc")

    threads = [threading.Thread(target=look_often) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            with claim_trial(tmp_path, "abc"):
                pass
    finally:
        done.set()
        for thread in threads:
            thread.join()
