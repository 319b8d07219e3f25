"""Records as stored: damage is found, earlier schemas are upgraded, builds are told apart."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import MODEL, make_outcome, make_record
from paths import DATA

from xla_sweeps.schema import record as record_
from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.record import (
    SCHEMA_VERSION,
    Build,
    GpuSpan,
    NewerSchemaError,
    Record,
    RecordFormatError,
    build_of,
    differ,
    newest,
    seal,
)
from xla_sweeps.schema.trial import request_id
from xla_sweeps.schema.upgrade import UPGRADES

GOLDEN = DATA / "records"

SCHEMAS = (*UPGRADES, SCHEMA_VERSION)


def test_there_is_a_golden_record_of_every_schema_that_is_read() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {f"schema_{n}.json" for n in SCHEMAS}


@pytest.mark.parametrize("number", SCHEMAS)
def test_a_golden_record_is_read_as_one_of_today(number: int) -> None:
    text = (GOLDEN / f"schema_{number}.json").read_bytes()
    record = Record.from_json(text)
    assert record == Record.from_json((GOLDEN / f"schema_{SCHEMA_VERSION}.json").read_bytes())
    assert Record.from_json(record.to_json()) == record
    assert record.schema_version == SCHEMA_VERSION


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=str)
def test_an_upgraded_record_asks_for_the_trial_that_it_asked_for(path: Path) -> None:
    """So that a sweep over an old results folder measures nothing again."""
    stored, record = json.loads(path.read_bytes()), Record.from_json(path.read_bytes())
    assert record.trial_id == stored["trial_id"]
    assert record.request_id == stored["request_id"] == request_id(record.trial)
    again = Record.from_json(record.to_json())
    assert (again, request_id(again.trial)) == (record, stored["request_id"])


def test_a_scenario_of_a_later_version_is_kept_and_not_read() -> None:
    document = json.loads(make_record().to_json())
    document["trial"]["scenario"] = "later"
    with pytest.raises(NewerSchemaError, match="scenario later is unknown"):
        Record.from_json(seal(document))


def test_a_list_of_numbers_takes_one_line_and_texts_stay_as_they_are() -> None:
    log = "[\n 1,\n 2\n]"
    modes = {"xla": make_outcome(latencies_s=(0.1, 2e-05), latency_enqueue_ns=(7, 8))}
    record = make_record(modes=modes, log=log)
    text = record.to_json()
    assert b'"latencies_s": [0.1,2e-05],\n' in text
    assert Record.from_json(text) == record


def test_upgrades_are_applied_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def noting(word: str) -> Any:
        return lambda document: document | {"log": document["log"] + word}

    monkeypatch.setattr(record_, "SCHEMA_VERSION", 7)
    monkeypatch.setattr(record_, "UPGRADES", {number: noting(f" {number}") for number in (5, 6)})
    document = json.loads(make_record(log="made").to_json())
    for version, log in ((5, "made 5 6"), (6, "made 6"), (7, "made")):
        record = Record.from_json(seal(document | {"schema_version": version}))
        assert (record.log, record.schema_version) == (log, 7)


def test_each_of_hundreds_of_flipped_bits_is_found() -> None:
    content, source = make_record(noise=0.1).to_json(), random.Random(1)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[source.randrange(len(damaged))] ^= 1 << source.randrange(8)
        with pytest.raises(RecordFormatError) as caught:
            Record.from_json(bytes(damaged))
        assert not isinstance(caught.value, NewerSchemaError)


@pytest.mark.parametrize("version", [0, 3, -5, True, None, "2", 1.0])
def test_a_schema_that_never_was_is_refused(version: object) -> None:
    document = json.loads(make_record().to_json()) | {"schema_version": version}
    for text in (seal(document), json.dumps(document).encode()):
        with pytest.raises(RecordFormatError) as caught:
            Record.from_json(text)
        assert not isinstance(caught.value, NewerSchemaError)


def test_a_digest_that_is_missing_is_damage() -> None:
    document = json.loads(make_record().to_json())
    del document["digest"]
    for text in (json.dumps(document), json.dumps(document | {"digest": "0" * 64}, indent=1)):
        with pytest.raises(RecordFormatError, match="digest"):
            Record.from_json(text.encode())


@pytest.mark.parametrize("change", [{"status": "later"}, {"modes": {"later": {}}}, {"trial": 5}])
def test_what_a_newer_schema_holds_is_not_judged(change: dict[str, Any]) -> None:
    document = json.loads(make_record().to_json())
    newer = document | {"schema_version": SCHEMA_VERSION + 1} | change
    for text in (seal(newer), json.dumps(newer).encode()):
        with pytest.raises(NewerSchemaError, match="update xla_sweeps to read it"):
            Record.from_json(text)


def test_a_record_that_is_renumbered_has_a_digest_of_its_own() -> None:
    record = Record.from_json(make_record().to_json())
    assert Record.from_json(replace(record, replicate=7).to_json()).replicate == 7


def test_what_a_gpu_reported_is_kept() -> None:
    span = GpuSpan(rounds=(0, 3), elapsed_s=2.0, sm_mhz=1410.0, reasons=0x24, power_capped_s=0.5)
    record = replace(make_record(), gpu=(span,))
    assert Record.from_json(record.to_json()) == record


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("drift", Flagged(Flag.DRIFT)),
        ("recompiles_per_input:xla_2", Flagged(Flag.RECOMPILES, "xla_2")),
        ("graph_breaks:xla: a: b", Flagged(Flag.GRAPH_BREAKS, "xla", "a: b")),
        ("no_float64_reference: no kernel: x", Flagged(Flag.NO_REFERENCE, note="no kernel: x")),
    ],
)
def test_a_flag_is_written_as_rows_show_it_and_read_back(text: str, flagged: Flagged) -> None:
    assert Flagged.parse(text) == flagged
    assert str(flagged) == text


@pytest.mark.parametrize(
    ("label", "message", "expected"),
    [
        ("graph", "refused: why", (Status.UNVERIFIABLE, "why")),
        ("graph", "why", (Status.WRONG_RESULT, "why")),
        ("eager", "refused: why", (Status.OK, "")),
    ],
)
def test_a_mode_that_could_not_be_verified_is_no_wrong_result(
    label: str, message: str, expected: tuple[Status, str]
) -> None:
    document = json.loads((DATA / "records" / "schema_4.json").read_bytes())
    failure = {"phase": "verify", "kind": "disagreement", "message": message}
    document["modes"][label] |= {"status": "wrong_result", "failure": failure}
    outcome = Record.from_json(seal(document)).modes[label]
    assert (outcome.status, outcome.failure.message if outcome.failure else "") == expected


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
    known = {"params": "5", "operations": "ab", "cudnn": "91002"}
    assert build_of(make_record(model=model, environment=environment)) == known
    assert build_of(make_record(model=replace(MODEL, params=None), environment={})) == {}
