"""Replicates of another build than the newest are told apart by what is known of both."""

from __future__ import annotations

from dataclasses import replace

from factories import MODEL, make_record

from xla_sweeps.schema.record import Build, build_of, differ, newest


def kept(*builds: Build) -> list[int]:
    same, _ = newest(list(enumerate(builds)), lambda pair: pair[1])
    return [place for place, _ in same]


def test_only_what_does_not_contradict_the_newest_is_kept() -> None:
    old, new = {"params": "1", "operations": "a"}, {"params": "1", "operations": "b"}
    assert kept(old, old, old) == [0, 1, 2]
    assert kept(old, new, old) == [0, 2]
    assert kept(old, old, new) == [2]
    assert kept() == []


def test_what_is_not_known_contradicts_nothing() -> None:
    before = {"params": "1"}
    assert kept(before, {}, {**before, "operations": "b"}) == [0, 1, 2]
    assert kept({"params": "2"}, {}, {**before, "operations": "b"}) == [1, 2]
    assert kept({"operations": "a"}, {"operations": "b"}, before) == [1, 2]
    assert not differ({}, before)


def test_a_build_is_the_parameters_the_operations_and_the_libraries() -> None:
    model = replace(MODEL, params=5, fingerprint="ab")
    environment = {"loaded": {"libraries": {"cudnn": "91002"}}}
    assert build_of(make_record(model=model, environment=environment)) == {
        "params": "5",
        "operations": "ab",
        "cudnn": "91002",
    }
    assert build_of(make_record(model=replace(MODEL, params=None), environment={})) == {}
