"""A trial with two workers, killed at every point: nothing measured is lost, no process is left."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ended import processes, wait_for, wait_until
from in_process import command
from scripted_trials import records, start

from xla_sweeps.schema.measurement import Status

REQUEST = (
    *("model=mobilenet_v2", "resolution=32", "device=cpu", "ui=plain", "tracker=none"),
    *("modes=[graph,graph]", "copies=apart", "effort.rounds_min=8"),
)

IN_WORKER = [
    (point, how_many)
    if (point, how_many) in [("import", 1), ("block", 1)]
    else pytest.param(point, how_many, marks=pytest.mark.exhaustive)
    for point in ("import", "build", "compile", "warmup", "block", "finished")
    for how_many in (1, 2)
]

IN_PARENT = ("spawn.before", "spawn.after", "supervisor.result", "store.opened", "store.linked")


def workers(tag: str) -> list[int]:
    """The scripted workers that are alive and have this word in their script."""
    return processes("fake_worker", f" {tag} ")


def gone(tag: str) -> bool:
    return wait_until(lambda: not workers(tag), 30)


@pytest.mark.exhaustive
def test_its_record_says_that_the_copies_took_turns_and_results_shows_a_pair_of_its_own(
    tmp_path: Path,
) -> None:
    results = tmp_path / "r"
    in_one = [word for word in REQUEST if word != "copies=apart"]
    for words in (REQUEST, in_one):
        trial = start(results, *words)
        output = trial.finish()
        assert ("each in a process of its own" in output) is (words is REQUEST)
    apart, together = sorted(records(results), key=lambda record: record.trial.copies)
    assert (apart.trial.copies, together.trial.copies) == ("apart", "together")
    assert apart.trial_id != together.trial_id
    blocks = [block for round_ in apart.rounds for block in round_.blocks]
    assert {block.mode for block in blocks} == {"graph", "graph_2"}
    assert all(block.idle_cpu_ns is not None for block in blocks)
    assert all(block.idle_cpu_ns is None for round_ in together.rounds for block in round_.blocks)
    rows = json.loads(command("results", str(results), "--format", "json", cwd=tmp_path).stdout)
    assert sorted(row["copies"] for row in rows) == ["apart", "together"]


@pytest.mark.parametrize(("point", "how_many"), IN_WORKER)
def test_a_worker_that_is_killed_costs_its_own_mode_and_no_more(
    point: str, how_many: int, tmp_path: Path
) -> None:
    results, tag = tmp_path / "r", f"tag:{tmp_path.name}"
    once = f":{tmp_path / 'once'}" if how_many == 1 else ""
    times = 6 if point == "block" else 1
    fault = f"worker.{point}:kill:{times}{once}"
    trial = start(results, *REQUEST, script=tag, XLA_SWEEPS_FP=fault)
    output, _ = trial.communicate(timeout=300)
    all_measured = point == "finished" and how_many == 2
    assert trial.returncode == (0 if all_measured else 1), output
    assert gone(tag)
    (record,) = records(results)
    statuses = [outcome.status for outcome in record.modes.values()]
    if how_many == 2:
        assert record.status is Status.KILLED
        complete = {"block": 5, "finished": 8}.get(point, 0)
        assert len(record.rounds) == complete
        return
    assert sorted(statuses) == sorted([Status.KILLED, Status.OK]), output
    (alive,) = [label for label, outcome in record.modes.items() if outcome.status is Status.OK]
    assert record.modes[alive].latencies_s
    assert len([round_ for round_ in record.rounds if alive in round_.order]) >= 8
    together = [round_ for round_ in record.rounds if len(round_.order) == 2]
    assert len(together) == {"block": 5, "finished": 8}.get(point, 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("point", IN_PARENT)
def test_no_worker_outlives_a_parent_that_is_killed_and_the_next_command_measures(
    point: str, tmp_path: Path
) -> None:
    results, tag = tmp_path / "r", f"tag:{tmp_path.name}"
    trial = start(results, *REQUEST, script=tag, XLA_SWEEPS_FP=f"{point}:kill:1")
    trial.finish(-9)
    assert gone(tag)
    kept = len(records(results))
    assert kept == (point == "store.linked")
    again = start(results, *REQUEST, script=tag)
    again.finish()
    assert len(records(results)) == kept + 1


def test_no_worker_outlives_a_parent_that_is_killed_while_one_measures(tmp_path: Path) -> None:
    results, tag = tmp_path / "r", f"tag:{tmp_path.name}"
    trial = start(results, *REQUEST, script=f"wait-at:5 {tag}")
    wait_for(lambda: len(workers(tag)) >= 2)
    time.sleep(1.0)
    trial.kill()
    trial.communicate(timeout=60)
    assert gone(tag)
