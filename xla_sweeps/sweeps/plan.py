"""Plan a sweep: match its trials with the records by one rule, count what is left to measure."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xla_sweeps.config import foreign
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.columns import AA_TAG
from xla_sweeps.schema.measurement import UNFINISHED, Status
from xla_sweeps.schema.modes import DEFAULT_BACKEND, Mode
from xla_sweeps.schema.overrides import flatten, key_of
from xla_sweeps.schema.record import newest
from xla_sweeps.schema.row import COLUMNS, ComparisonRow, value_of
from xla_sweeps.store import rows, table
from xla_sweeps.store.derive import RecordFacts
from xla_sweeps.store.rows import Runs
from xla_sweeps.sweeps.compose import Task
from xla_sweeps.sweeps.definition import Sweep
from xla_sweeps.system import devices

DEVICE_RULE = "the launcher chooses the device: use --devices on this machine, or accelerator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The trials of a sweep, matched with the records.

    Attributes:
        repeated: number of the definition's trials that equal an earlier one.
        costs: seconds that a replicate took before, by model.
    """

    tasks: list[Task]
    repeated: int
    costs: Mapping[str, float]


def check_parameters(sweep: Sweep, path: Path) -> None:
    """Refuse parameters that a sweep file may not set, or that cannot differ between trials."""
    foreign.check_text(sweep.name, where=f"{path}: name")
    for key, parameter in sweep.parameters.items():
        line = sweep.lines.get(key)
        where = f"{path}:{line}" if line else str(path)
        if key == "device":
            raise ConfigError(f"{where}: {DEVICE_RULE}")
        foreign.check_value(key, None, where=where)
        for value in parameter.values:  # numbers are safe
            for flat, plain in flatten({key: value}).items():
                foreign.check_value(flat, plain, where=where)


def headline_rows(
    results_dir: Path, tasks: Sequence[Task], *, warn: Callable[..., None]
) -> list[ComparisonRow]:
    """The headline rows of the sweep's trials that have records."""
    ids = {identifier for task in tasks for identifier in task.trial_ids}
    requests = {task.request_id for task in tasks if not task.trial_ids}
    loaded = rows.load(results_dir)
    warn(*loaded.problems)
    return table.headlines(loaded.table, ids, requests=requests)


def want_again(
    tasks: Sequence[Task],
    runs: Runs,
    results_dir: Path,
    column: str,
    value: str,
    *,
    warn: Callable[..., None],
) -> None:
    """Add a replicate to trials whose headline row has that value."""
    if column not in COLUMNS:
        raise unknown_name("column in --rerun", column, COLUMNS)
    wanted = {
        row.trial.trial_id
        for row in headline_rows(results_dir, tasks, warn=warn)
        if str(value_of(row, column)).lower() == value.lower()
    }
    requests = {run.request_id for trial in wanted for run in runs.by_trial.get(trial, ())}
    for task in tasks:
        if wanted & set(task.trial_ids) or (not task.trial_ids and task.request_id in requests):
            task.outcomes = [status for status in task.outcomes if status in task.counted]
            task.replicates = max(task.replicates, len(task.outcomes) + 1)
            task.wanted = max(task.wanted, 1)


def costs_of(runs: Runs) -> dict[str, float]:
    """The median wall time of a model's replicates."""
    costs: dict[str, list[float]] = {}
    for run in runs.all():
        if run.outcome not in UNFINISHED and run.cost_s > 0:
            costs.setdefault(run.model, []).append(run.cost_s)
    return {model: statistics.median(seconds) for model, seconds in costs.items()}


AA_EVERY = 32
"""Trials of one effort per A/A twin: 6 % of the cost above effort quick, 3 % at quick."""

MIN_TRIALS_FOR_AA = 8
"""The fewest trials at effort quick that have a twin; above quick every sweep has one."""

QUICK = "quick"


def twin_words(task: Task) -> list[str]:
    """The overrides of a trial's A/A twin: the same trial with one mode against itself.

    That is graph mode, in which every scenario can be measured, or the baseline without TensorFlow.
    """
    # Above effort quick, twice the replicates make two A/A pairs of it: of copies in the same
    # processes, and of a copy in every second process against the other copy in the others.
    replaced = {"jit", "modes", "steps_per_execution", "tracker.tags"}
    several = []
    if task.effort != QUICK:
        replaced.add("effort.replicates")
        several = [f"effort.replicates={2 * task.replicates}"]
    kept = [word for word in task.words if key_of(word) not in replaced]
    mode = Mode.GRAPH if DEFAULT_BACKEND in task.backends else task.baseline
    return [*kept, f"modes=[{mode},{mode}]", *several, f"tracker.tags=[{AA_TAG}]"]


def with_aa(
    tasks: Sequence[Task], compose: Callable[[Sequence[str]], Task], *, warn: Callable[[str], None]
) -> list[Task]:
    """The tasks, with an A/A twin after the first of each effort and each 32nd after it.

    At effort quick, fewer than `MIN_TRIALS_FOR_AA` trials have none. A twin that is refused is left
    out: the trial itself is measured.
    """
    planned: list[Task] = []
    refused: dict[str, None] = {}
    keys = {task.key for task in tasks}
    efforts = Counter(task.effort for task in tasks)
    counts: Counter[str] = Counter()
    for task in tasks:
        planned.append(task)
        if task.effort == QUICK and efforts[QUICK] < MIN_TRIALS_FOR_AA:
            continue
        due = counts[task.effort] % AA_EVERY == 0
        counts[task.effort] += 1
        if not due:
            continue
        try:
            twin = compose(twin_words(task))
        except ConfigError as error:
            refused[f"no A/A twin: {error}"] = None
            continue
        if twin.key not in keys:
            keys.add(twin.key)
            planned.append(twin)
    for line in refused:
        warn(line)
    return planned


def count_for_twin(counted: Path, effort: str) -> bool:
    """Count one more trial of an agent, in its file; True if a twin follows, by the same rule."""
    with counted.open("a+", encoding="utf-8") as notes:  # of all agents of a device
        notes.write(f"{effort} ")
        notes.flush()
        mine = notes.tell()
        notes.seek(0)
        *earlier, _ = notes.read(mine).split()
    first = MIN_TRIALS_FOR_AA - 1 if effort == QUICK else 0
    return (earlier.count(effort) - first) % AA_EVERY == 0


def add_duplicates(tasks: Sequence[Task], *, whole: bool = True) -> None:
    """Have one in so many trials of a single replicate measured twice, as their effort says.

    What is measured chooses them, so that the choice is the same on every machine and on resuming,
    and never depends on figures. In a `whole` sweep they and the A/A twins are a quarter at most.
    """
    twins = sum(AA_TAG in task.tags for task in tasks)
    for every in {task.duplicates for task in tasks} - {0}:
        single = [task for task in tasks if task.duplicates == every and task.replicates == 1]
        chosen = [task for task in single if int(task.request_id, 16) % every == 0]
        most = max(0, len(single) // every - (twins if every > 1 else 0)) if whole else None
        for task in sorted(chosen, key=lambda task: task.request_id)[:most]:
            task.twice, task.replicates = True, 2


def assign_records(
    tasks: Sequence[Task], runs: Runs, *, software: Mapping[str, str], retry: Collection[Status]
) -> None:
    """Assign to each task its records, and the number of replicates still to be measured."""
    by_request: dict[str, list[RecordFacts]] = {}
    for run in runs.all():
        by_request.setdefault(run.request_id, []).append(run)
    for task in tasks:
        measured = [run for trial in task.trial_ids for run in runs.by_trial.get(trial, ())]
        if not task.trial_ids:
            measured = [
                run
                for run in by_request.get(task.request_id, ())
                if run.software == " ".join(software[name] for name in task.backends)
                and devices.is_accelerator(run.device_name, task.accelerator or "")
            ]
        task.seen = frozenset((run.trial_id, run.replicate) for run in measured)
        task.builds = {}
        outcomes = []
        task.clear = any(run.trial_id in runs.clear for run in measured)
        for identifier, group in itertools.groupby(measured, key=lambda run: run.trial_id):
            kept, task.builds[identifier] = newest(list(group), lambda run: run.build)
            outcomes += [run.outcome for run in kept]
        task.outcomes = counting(outcomes, retry, accepted=task.counted)
        task.wanted = missing(task.outcomes, replicates=task.replicates, accepted=task.counted)


INCONCLUSIVE = (Status.CONTAMINATED, Status.INFRA, Status.INTERRUPTED, Status.KILLED)
"""Statuses that say nothing about the configuration: measured again on every resume."""

TRIED_TWICE = (
    *(Status.NONDETERMINISTIC, Status.TRACE_ERROR, Status.COMPILE_ERROR, Status.RUN_ERROR),
    *(Status.OOM_HOST, Status.TIMEOUT, Status.CRASHED, Status.KILLED, Status.CACHE_DAMAGED),
)
"""Statuses that a second try may not have; the trial of any other is not tried again."""


def attempts(status: Status, *, replicates: int) -> int:
    """Records of a status after which the trial is not tried again by the same sweep.

    Contaminated are at most one more than the replicates that are wanted: a machine that is busy
    twice is seldom quiet the third time.
    """
    if status is Status.CONTAMINATED:
        return replicates + 1
    return 2 if status in TRIED_TWICE else 1


def missing(
    outcomes: Sequence[Status], *, replicates: int, accepted: Collection[Status] = (Status.OK,)
) -> int:
    """Number of replicates to measure until so many are accepted, whatever the records' order."""
    for status, count in Counter(outcomes).items():
        repeated = status in (*accepted, Status.INFRA, Status.INTERRUPTED)
        if not repeated and count >= attempts(status, replicates=replicates):
            return 0
    return max(0, replicates - sum(status in accepted for status in outcomes))


def final_outcome(outcomes: Sequence[Status]) -> Status | None:
    """The status of a trial from its records: `ok` if any, else the last conclusive one."""
    if not outcomes or Status.OK in outcomes:
        return Status.OK if outcomes else None
    conclusive = [status for status in outcomes if status not in INCONCLUSIVE]
    return (conclusive or outcomes)[-1]


def counting(
    outcomes: Sequence[Status],
    retry: Collection[Status],
    *,
    accepted: Collection[Status] = (Status.OK,),
) -> list[Status]:
    """The outcomes that count when a sweep begins: conclusive or accepted, and not in `retry`."""
    return [
        status
        for status in outcomes
        if status not in retry and (status not in INCONCLUSIVE or status in accepted)
    ]
