"""The trials of a sweep that are still to be measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from factories import MODEL, failed_outcome, make_contaminated, make_record

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.columns import AA_TAG
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.store.derive import record_facts
from xla_sweeps.store.rows import Runs, load_runs
from xla_sweeps.store.store import Store
from xla_sweeps.sweeps.compose import Composer, Task
from xla_sweeps.sweeps.plan import (
    add_duplicates,
    assign_records,
    costs_of,
    counting,
    final_outcome,
    missing,
    with_aa,
)
from xla_sweeps.system import environment


def test_what_is_missing_of_a_trial_does_not_depend_on_the_order_of_its_records() -> None:
    outcomes = [Status.CRASHED, Status.OK, Status.CONTAMINATED]
    for order in (outcomes, outcomes[::-1]):
        assert missing(order, replicates=1) == 0
        assert missing(order, replicates=2) == 1
        assert final_outcome(order) is Status.OK
    assert counting(outcomes, [Status.CRASHED]) == [Status.OK]


def test_a_trial_that_was_killed_twice_waits_for_the_next_run_which_measures_it_again() -> None:
    assert missing([Status.KILLED], replicates=1) == 1
    assert missing([Status.KILLED] * 2, replicates=1) == 0
    assert counting([Status.KILLED] * 2 + [Status.CRASHED], ()) == [Status.CRASHED]


def test_a_contaminated_record_is_not_accepted_where_a_mode_was_killed() -> None:
    modes = {"graph": make_record().modes["graph"], "xla": failed_outcome(Status.KILLED)}
    record = make_record(status=Status.CONTAMINATED, modes=modes)
    assert record_facts(record).outcome is Status.KILLED
    refused = replace(record, modes={**modes, "xla": failed_outcome(Status.UNSUPPORTED_OP)})
    assert record_facts(refused).outcome is Status.CONTAMINATED


def test_accepted_records_need_no_repetition() -> None:
    accepted = (Status.OK, Status.CONTAMINATED)
    assert missing([Status.CONTAMINATED], replicates=1) == 1
    assert missing([Status.CONTAMINATED], replicates=1, accepted=accepted) == 0
    assert missing([Status.CONTAMINATED] * 2, replicates=1) == 0
    assert missing([Status.CONTAMINATED] * 4, replicates=5) == 5
    assert missing([Status.CONTAMINATED] * 6, replicates=5) == 0
    assert missing([Status.CONTAMINATED] * 4, replicates=5, accepted=accepted) == 1
    assert counting([Status.CONTAMINATED], ()) == []
    assert counting([Status.CONTAMINATED], (), accepted=accepted) == [Status.CONTAMINATED]
    assert counting([Status.CONTAMINATED], accepted, accepted=accepted) == []


def test_contaminated_records_tell_how_long_a_trial_takes_and_unfinished_ones_do_not() -> None:
    records = [
        make_record(status=Status(word))
        for word in ("contaminated", "infra", "interrupted", "killed")
    ]
    entries = {word: [record_facts(record)] for word, record in zip("abcd", records, strict=True)}
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


@pytest.mark.parametrize(
    ("factor", "replicates", "wanted"), [(5.0, 1, 0), (1.5, 1, 1), (3.0, 1, 1), (3.0, 2, 0)]
)
def test_a_contaminated_trial_is_measured_again_only_where_its_answer_is_open(
    factor: float, replicates: int, wanted: int
) -> None:
    records = make_contaminated(factor, replicates)
    task = Task(words=(), key="", model="", effort="", replicates=1, request_id="")
    task.trial_ids = (records[0].trial_id,)
    runs = Runs.of({records[0].trial_id: records})
    assign_records([task], runs, software={}, retry=())
    assert (task.wanted, task.clear) == (wanted, not wanted)
    assign_records([task], runs, software={}, retry=[Status.CONTAMINATED])
    assert task.wanted == 1


def tasks(count: int, **facts: Any) -> list[Task]:
    """Tasks of effort quick, with the request ids 0, 1, 2 and so on."""
    usual = {"effort": "quick", "replicates": 1, "duplicates": 4, **facts}
    return [
        Task(words=(f"seed={n}",), key=str(n), model="", request_id=f"{n:016x}", **usual)
        for n in range(count)
    ]


def test_what_is_measured_chooses_the_trials_that_are_measured_twice() -> None:
    planned = tasks(16)
    add_duplicates(planned[::-1])
    assert [task.replicates for task in planned] == [2, 1, 1, 1] * 4
    add_duplicates(planned)
    assert [task.replicates for task in planned] == [2, 1, 1, 1] * 4
    for facts in ({"duplicates": 0}, {"replicates": 3}, {"replicates": 2}):
        others = tasks(16, **facts)
        add_duplicates(others)
        assert {task.replicates for task in others} == {tasks(1, **facts)[0].replicates}
        assert not any(task.twice for task in others)


@pytest.mark.parametrize(("count", "twins"), [(1, 0), (6, 0), (8, 1), (12, 1), (40, 2), (100, 4)])
def test_duplicates_and_twins_take_at_most_a_quarter_of_a_quick_sweep(
    count: int, twins: int
) -> None:
    """Even where chance, the hash of what is measured, would choose every trial."""
    planned = tasks(count + twins)
    for number, task in enumerate(planned):
        task.request_id = f"{4 * number:016x}"
        task.tags = (AA_TAG,) if number < twins else ()
    add_duplicates(planned)
    runs = sum(task.replicates for task in planned)
    assert runs - count <= runs / 4
    assert sum(task.twice for task in planned) == max(0, (count + twins) // 4 - twins)
    every = tasks(5, duplicates=1)
    add_duplicates(every)
    assert all(task.twice for task in every), "who asks for all gets them"
    (one,) = tasks(1)
    add_duplicates([one], whole=False)
    assert one.twice, "of trials that come one by one, every fourth"


@pytest.mark.parametrize(
    ("count", "facts", "places"),
    [
        (7, {}, []),
        (8, {}, [1]),
        (32, {}, [1]),
        (33, {}, [1, 34]),
        (1, {"effort": "standard", "replicates": 3, "duplicates": 0}, [1]),
        (33, {"effort": "standard", "replicates": 3, "duplicates": 0}, [1, 34]),
    ],
)
def test_a_sweep_has_an_aa_trial_and_one_more_for_each_further_32_trials(
    count: int, facts: dict[str, Any], places: list[int]
) -> None:
    def composed(words: Sequence[str]) -> Task:
        (twin,) = tasks(1, **facts)
        twin.words, twin.key, twin.tags = tuple(words), " ".join(words), (AA_TAG,)
        return twin

    planned = with_aa(tasks(count, **facts), composed, warn=pytest.fail)
    assert [place for place, task in enumerate(planned) if AA_TAG in task.tags] == places
    several = ("effort.replicates=6",) if facts else ()
    for place in places:
        first = planned[place - 1].words
        own = ("modes=[graph,graph]", *several, "tracker.tags=[aa]")
        assert planned[place].words == (*first, *own)
    assert len(planned) == count + len(places)


@pytest.mark.parametrize(
    ("words", "modes"),
    [
        (["model=mnist_mlp"], ("graph", "graph_2")),
        (["model=mnist_mlp", "modes=[eager,xla]"], ("graph", "graph_2")),
        (["model=mnist_mlp", "scenario=fit", "steps_per_execution=4"], ("graph", "graph_2")),
        (["model=mnist_mlp", "backend=jax"], ("jax_eager", "jax_eager_2")),
        (["model=mnist_mlp", "modes=[jax_xla,jax_eager]"], ("jax_eager", "jax_eager_2")),
        (["model=mnist_mlp", "modes=[jax_xla]"], ("jax_xla", "jax_xla_2")),
        (
            ["model=mnist_mlp", "backend=torch", "scenario=train_step"],
            ("torch_eager", "torch_eager_2"),
        ),
    ],
)
def test_a_twin_compares_a_mode_of_its_trials_backend_with_itself(
    words: list[str], modes: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda module: True)  # JAX and PyTorch
    composer = Composer([], slots=None, environ={})
    planned = [composer.of_words([*words, "effort=standard"])]
    _, twin = with_aa(planned, composer.of_words, warn=pytest.fail)
    assert composer.settings(twin.words).trial.modes == modes


def test_a_sweep_whose_twin_is_refused_has_none_and_says_so_once() -> None:
    def refused(words: Sequence[str]) -> Task:
        raise ConfigError("no such mode")

    said: list[str] = []
    planned = tasks(33)
    assert with_aa(planned, refused, warn=said.append) == planned
    assert said == ["no A/A twin: no such mode"]
