"""The trials of a sweep that are still to be measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from factories import MODEL, make_record

from xla_sweeps.results.derive import record_facts
from xla_sweeps.results.rows import Runs, load_runs
from xla_sweeps.results.store import Store
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.sweep.compose import Task
from xla_sweeps.sweep.plan import assign_records, costs_of, counting, final_outcome, missing


def test_what_is_missing_of_a_trial_does_not_depend_on_the_order_of_its_records() -> None:
    outcomes = [Status.CRASHED, Status.OK, Status.CONTAMINATED]
    for order in (outcomes, outcomes[::-1]):
        assert missing(order, replicates=1) == 0
        assert missing(order, replicates=2) == 1
        assert final_outcome(order) is Status.OK
    assert counting(outcomes, [Status.CRASHED]) == [Status.OK]


def test_accepted_records_need_no_repetition() -> None:
    accepted = (Status.OK, Status.CONTAMINATED)
    assert missing([Status.CONTAMINATED], replicates=1) == 1
    assert missing([Status.CONTAMINATED], replicates=1, accepted=accepted) == 0
    assert missing([Status.CONTAMINATED] * 4, replicates=5) == 0
    assert missing([Status.CONTAMINATED] * 4, replicates=5, accepted=accepted) == 1
    assert counting([Status.CONTAMINATED], ()) == []
    assert counting([Status.CONTAMINATED], (), accepted=accepted) == [Status.CONTAMINATED]
    assert counting([Status.CONTAMINATED], accepted, accepted=accepted) == []


def test_contaminated_records_tell_how_long_a_trial_takes_and_unfinished_ones_do_not() -> None:
    records = [
        make_record(status=Status(word)) for word in ("contaminated", "infra", "interrupted")
    ]
    entries = {word: [record_facts(record)] for word, record in zip("abc", records, strict=True)}
    assert costs_of(Runs(entries)) == {"resnet50": 60.0}
    del entries["a"]
    assert costs_of(Runs(entries)) == {}


def built(params: int) -> Record:
    return make_record(model=replace(MODEL, params=params))


def test_replicates_of_an_earlier_build_are_measured_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    task = Task(words=(), key="", model="", effort="", replicates=3, request_id="")
    task.trial_ids = (built(1).trial_id,)
    for params, wanted in ((1, 2), (1, 1), (2, 2), (2, 1)):
        store.save(built(params))
        assign_records([task], load_runs(store), software={}, retry=())
        assert task.wanted == wanted
