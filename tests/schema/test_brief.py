"""What rows need of a record, against the record read whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from factories import full, make_record
from paths import ROOT

from xla_sweeps.schema.brief import read_brief
from xla_sweeps.schema.record import SCHEMA_VERSION, Record, RecordFormatError, sealed


def same(brief: Any, whole: Any) -> bool:
    """Whether all members of the brief one are those of the whole one."""
    if isinstance(brief, msgspec.Struct):
        names = [name for name in brief.__struct_fields__ if name != "schema_version"]
        return all(same(getattr(brief, name), getattr(whole, name)) for name in names)
    if isinstance(brief, tuple):
        return len(brief) == len(whole) and all(map(same, brief, whole))
    if isinstance(brief, dict):
        return brief.keys() == whole.keys() and all(same(brief[key], whole[key]) for key in brief)
    return bool(brief == whole)


def is_brief(record: Any) -> bool:
    return isinstance(record, msgspec.Struct)


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "data" / "records").glob("*.json")))
def test_records_of_every_schema_say_the_same_in_brief(path: Path) -> None:
    text = path.read_bytes()
    assert same(read_brief(text), Record.from_json(text))


def test_everything_that_a_record_may_hold_says_the_same_in_brief() -> None:
    record = full(make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01))
    brief: Any = read_brief(record.to_json())
    assert same(brief, record)
    assert is_brief(brief)
    assert not same(brief, full(make_record({"graph": 0.2, "xla": 0.1}, noise=0.01)))


@pytest.mark.parametrize(
    "changes",
    [
        {"replicate": -1},
        {"status": "fine"},
        {"trial_id": "../x"},
        {"schema_version": SCHEMA_VERSION + 1},
        {"schema_version": None},
        {"modes": {"warp": {"status": "ok"}}},
        {"tracker": {"tags": 5}},
        {"rounds": [{"round": 0, "order": [], "blocks": [{"mode": "xla"}]}]},
    ],
)
def test_what_is_no_record_is_refused_in_the_same_words(changes: dict[str, Any]) -> None:
    text = sealed({**json.loads(make_record().to_json()), **changes})
    with pytest.raises(RecordFormatError) as whole:
        Record.from_json(text)
    with pytest.raises(type(whole.value)) as brief:
        read_brief(text)
    assert str(brief.value) == str(whole.value)


@pytest.mark.parametrize("content", [b"", b"{", make_record().to_json().replace(b"ok", b"ko", 1)])
def test_a_damaged_record_is_refused(content: bytes) -> None:
    with pytest.raises(RecordFormatError):
        read_brief(content)
