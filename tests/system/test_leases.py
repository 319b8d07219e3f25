"""Leases of devices: who waits comes next, and nobody waits for ever."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from xla_sweeps.system.devices import Device
from xla_sweeps.system.leases import (
    LEASES,
    Leases,
    lease_names,
    whole_replicate,
    without_leases,
)

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
