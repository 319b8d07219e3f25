"""Leases of devices: who waits comes next, and nobody waits for ever."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from xla_sweeps.system.devices import Device
from xla_sweeps.system.leases import LEASES, Leases, lease_names, whole_replicate, without_leases

ME = f"(pid {os.getpid()})"


def lease(holder: str, *names: str) -> Leases:
    return Leases(names or ("core-0", "core-1"), holder=holder)


def test_who_waits_comes_before_who_gives_the_lease_back_and_wants_it_again() -> None:
    first, second, again = lease("a"), lease("b"), lease("a")
    assert first.take() == ""
    assert second.take() == f"a {ME}"
    first.close()
    assert again.take() == f"b {ME}", "the other one is next"
    assert second.take() == ""
    assert again.take() == f"b {ME}"
    second.close()
    assert again.take() == ""
    again.close()


def test_who_ends_its_wait_gives_up_its_place() -> None:
    with lease("a") as first, lease("b") as second, lease("c") as third:
        first.take()
        second.take()
        second.close()
        first.close()
        assert third.take() == ""


def test_those_that_want_overlapping_leases_all_get_them_in_the_end() -> None:
    waiting = [lease(f"{i}", f"core-{i}", f"core-{(i + 1) % 4}") for i in range(4)]
    for _ in range(4):
        done = next(each for each in waiting if not each.take())
        waiting.remove(done)
        done.close()
    assert not waiting


def test_a_command_that_builds_on_a_gpu_waits_for_the_one_that_uses_it() -> None:
    gpu, other = (Device(kind="gpu", index=0, name="", uuid=uuid) for uuid in ("GPU-a", "GPU-b"))
    with (
        lease("a", *whole_replicate(gpu)) as first,
        lease("b", *whole_replicate(gpu)) as second,
        lease("c", *whole_replicate(other)) as elsewhere,
        lease("a", *lease_names(gpu)) as to_measure,
    ):
        assert first.take() == ""
        assert second.take() == f"a {ME}"
        assert elsewhere.take() == to_measure.take() == ""


@pytest.mark.parametrize("names", [[], ["core-0"]])
def test_there_is_nothing_to_wait_for_where_no_temporary_folder_can_be_written(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LEASES)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    assert Leases(names, holder="a").take() == ""
    assert without_leases().startswith("the leases of devices are off, so two commands may")


def test_a_folder_that_somebody_else_made_turns_no_lease_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LEASES)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "login"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"xla-sweeps-{os.getuid()}").write_text("theirs")
    assert without_leases()
    (tmp_path / "login").mkdir()
    assert without_leases() == ""
    with lease("a", "core-0") as first, lease("b", "core-0") as second:
        assert first.take() == ""
        assert second.take() == f"a {ME}"


def sharer(holder: str) -> Leases:
    return Leases(["core-0", "core-1"], holder=holder, shared=True)


def test_some_share_a_lease_and_who_wants_it_alone_comes_before_further_ones() -> None:
    first, second, alone, late = sharer("a"), sharer("b"), lease("c"), sharer("d")
    assert first.take() == second.take() == ""
    assert alone.take(), "it is not alone"
    assert late.take(), "the one that wants it alone is next"
    first.close()
    assert alone.take()
    second.close()
    assert alone.take() == ""
    assert late.take() == f"c {ME}"
    alone.close()
    assert late.take() == ""
    late.close()


def test_one_that_shares_gets_it_alone_in_its_turn_and_shares_it_again() -> None:
    with sharer("a") as first, sharer("b") as second:
        assert first.take() == second.take() == ""
        first.want(shared=False)
        assert first.take(), "the other one still prepares"
        second.want(shared=False)
        assert first.take() == ""
        assert second.take() == f"a {ME}"
        first.want(shared=True)
        assert set(first.held) == {"core-0", "core-1"}, "at once, with no gap"
        assert second.take(), "the first one still ends"
        first.close()
        assert second.take() == ""


WHOLE, TURN = ("use-core-0", "use-core-1"), ("core-0", "core-1")


def prepares(*names: str) -> Leases:
    return Leases(names or (*TURN, *WHOLE), holder="job", shared=True)


def test_a_trial_that_builds_and_a_sweep_that_prepares_ahead_do_not_wait_for_each_other() -> None:
    """A trial takes its replicate's leases first, its turn's later; a sweep takes both at once."""
    with lease("trial", *WHOLE) as whole, lease("trial", *TURN) as turn, prepares() as job:
        assert whole.take() == ""
        assert job.take() == f"trial {ME}"
        assert turn.take() == "", "nobody who waits for the trial has its turn"


def test_a_trial_that_waits_for_a_sweep_does_not_keep_it_from_measuring() -> None:
    with lease("trial", *WHOLE) as whole, lease("trial", *TURN) as turn, prepares() as late:
        with prepares(*WHOLE) as job, prepares(*TURN) as its_turn:
            assert job.take() == its_turn.take() == ""
            assert whole.take() == f"job {ME}"
            assert late.take() == f"trial {ME}"
            its_turn.want(shared=False)
            assert its_turn.take() == ""
        assert whole.take() == turn.take() == ""
        assert late.take() == f"trial {ME}"


def test_nobody_is_told_to_wait_for_itself() -> None:
    """The name in a shared lease is that of the last one that took it."""
    with sharer("a") as first, sharer("b") as second:
        assert first.take() == second.take() == ""
        second.want(shared=False)
        assert second.take() == "another process"


def test_one_that_waits_alone_between_two_that_share_is_not_passed_by_them() -> None:
    """It gets its turn even if another always shares."""
    with sharer("a") as first, sharer("b") as second, lease("c") as alone:
        assert first.take() == ""
        for _ in range(5):
            assert alone.take()
            assert second.take()
        first.close()
        assert alone.take() == ""


def test_a_lease_that_is_handed_over_is_held_by_the_new_process_until_it_ends() -> None:
    with sharer("a") as mine, lease("c") as alone:
        assert mine.take() == ""
        child = subprocess.Popen(["sleep", "600"], pass_fds=mine.held.values())
        try:
            mine.hand_over()
            assert not mine.held
            assert alone.take()
        finally:
            child.kill()
            child.wait()
        assert alone.take() == ""


def test_inherited_leases_are_shared_until_they_are_wanted_alone_and_no_child_gets_them() -> None:
    with sharer("a") as given, lease("c") as alone:
        assert given.take() == ""
        copies = {name: os.dup(descriptor) for name, descriptor in given.held.items()}
        for copy in copies.values():
            os.set_inheritable(copy, True)
        given.hand_over()
        with Leases(["core-0", "core-1", "core-2"], holder="b", inherited=copies) as taken:
            assert taken.shared
            assert taken.take() == "", "the third one, shared too"
            child = subprocess.Popen(["sleep", "600"], close_fds=False)
            try:
                assert alone.take()
                taken.want(shared=False)
                assert alone.take() == "", "no child holds what was given back"
            finally:
                child.kill()
                child.wait()


def test_one_that_somebody_passed_while_it_wanted_to_share_again_waits_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel gives no promise that nobody comes between the two locks."""
    with sharer("a") as first, lease("b") as passing:
        assert first.take() == ""
        first.want(shared=False)
        assert first.take() == ""
        convert = fcntl.flock

        def pass_by(descriptor: int, kind: int) -> None:
            monkeypatch.setattr(fcntl, "flock", convert)
            convert(descriptor, fcntl.LOCK_UN)
            with lease("c", "core-0") as other:
                assert other.take() == ""
                convert(descriptor, kind)

        monkeypatch.setattr(fcntl, "flock", pass_by)
        first.want(shared=True)
        assert not first.held
        assert passing.take() == ""
        assert first.take() == f"b {ME}"
        passing.close()
        assert first.take() == ""
        assert set(first.held) == {"core-0", "core-1"}
