"""Run a trial, or several with `-m`; the arguments are Hydra overrides.

Every trial is composed and checked before any runs, and what was checked is what runs. What Hydra
composes for a job of `-m` afterwards is only kept in its output folder.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from xla_sweeps.cli import hydra_line
from xla_sweeps.cli.server_json import expand_json
from xla_sweeps.config.combinations import choices
from xla_sweeps.config.compose import (
    compose_config,
    compose_run,
    composing,
    sweeper_params,
    without_own_files,
)
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.scenario import remarks_of
from xla_sweeps.config.settings import Settings, settings_of
from xla_sweeps.report.terminal import console
from xla_sweeps.report.terminal.console import complain, warn
from xla_sweeps.schema.overrides import key_of, keys_of, repeating
from xla_sweeps.system.environment import dropped_flags
from xla_sweeps.system.files import own_file
from xla_sweeps.system.leases import without_leases
from xla_sweeps.system.process import Assignment
from xla_sweeps.system.text import count_noun
from xla_sweeps.trial.tracking import tracker_named

if TYPE_CHECKING:  # the runner loads SciPy, for which a mistake in the request need not wait
    from xla_sweeps.store.rows import Runs
    from xla_sweeps.trial.runner import Prepared, TrialResult

_End = tuple[int, str]
"""The end of a job: its exit code, and its trial where something was recorded, else ""."""


@dataclass(frozen=True)
class _Job:
    """One trial of the request: its overrides, and its configuration as plain data."""

    words: tuple[str, ...]
    document: dict[str, Any]
    config_dir: OwnFolder | None

    @cached_property
    def settings(self) -> Settings:
        """Its settings on the machine that runs it."""
        asked = settings_of(self.document, explicit=keys_of(self.words))
        hidden = asked.device.kind == "cpu" and "CUDA_VISIBLE_DEVICES" in os.environ
        own = without_own_files(self.words, self.document, self.config_dir)
        place = str(self.config_dir.path) if self.config_dir else ""
        words = repeating(own, config_dir=place, on_cpu=hidden)
        return replace(asked, words=words)

    @cached_property
    def prepared(self) -> Prepared:
        """Its id, and the results folder that can be written."""
        from xla_sweeps.trial import runner

        return runner.prepare(self.settings)

    def __getstate__(self) -> dict[str, Any]:
        """Without what the machine that runs it decides, for a launcher of Hydra's."""
        return {name: getattr(self, name) for name in ("words", "document", "config_dir")}

    @property
    def results_dir(self) -> Path:
        """The results folder that it names."""
        return Path(str(self.document["results_dir"]))

    @property
    def again(self) -> str:
        """The command that resumes it."""
        place = self.config_dir.words if self.config_dir else ()
        return shlex.join(["python", "-m", "xla_sweeps", *place, *self.words])


def trial_command(arguments: list[str]) -> int:
    """Validate the whole request, so that a mistake writes nothing; then let Hydra run it."""
    assignment = Assignment.take(os.environ)
    folders = [word for word in assignment.words if word.startswith("--")]
    words = [word for word in assignment.words if word not in folders]
    others = (word for word in arguments if key_of(word) not in keys_of(words))
    asked = hydra_line.parse(expand_json([*others, *words]))
    if folders:
        asked.config_dir = hydra_line.parse(folders).config_dir
    if hydra_line.show(asked):
        return 0
    if assignment.counted:
        from xla_sweeps.cli.agents import run_checked

        return run_checked(asked, assignment, _run_one)
    return (_run_several if asked.multirun else _run_one)(asked, assignment)


def _check(jobs: Sequence[_Job]) -> None:
    """Check, before any runs, that each trial can be measured and kept."""
    for name in {job.settings.tracker.name for job in jobs}:
        tracker_named(name).require()
    for job in jobs:
        job.prepared  # noqa: B018
    remarks = (line for job in jobs for line in remarks_of(job.document, job.settings.trial))
    warn(*remarks, *filter(None, [without_leases()]))
    if dropped := dropped_flags(os.environ):
        warn(f"ignored {' '.join(dropped)}: a trial's flags name no files and hold no secrets")


def _dry_run(jobs: Sequence[_Job]) -> int:
    """Check trials as if they were to run, and show them with the time that they may take."""
    from xla_sweeps.report.terminal.sweep_summary import time_words
    from xla_sweeps.store.rows import load_runs
    from xla_sweeps.sweeps.plan import costs_of
    from xla_sweeps.sweeps.progress import time_left

    left, timed_s = [], 0.0
    with _leaving_no_folder(jobs):
        _check(jobs)
        stores = {job.results_dir: job.prepared.store for job in jobs}
        recorded = {place: load_runs(store) for place, store in stores.items()}
        for job in jobs:
            trial, runs = job.settings.trial, recorded[job.results_dir]
            for line in (job.again, *(f"  {fact}" for fact in _facts_of(job, runs))):
                console.say(line)
            left.append((trial.model.name, trial.effort.replicates))
            timed_s += trial.effort.timed_s(len(trial.modes)) * trial.effort.replicates
    costs = {model: cost for runs in recorded.values() for model, cost in costs_of(runs).items()}
    estimated = sum(model in costs for model, _ in left)
    left_s = time_left(left, past=costs, slots=1) if estimated else None
    console.paragraph(time_words(left_s, timed_s, f"{estimated:,} of {len(jobs):,}"))
    return 0


def _facts_of(job: _Job, runs: Runs) -> Iterator[str]:
    """Lines on what a trial would measure, and where."""
    settings, trial, trial_id = job.settings, job.settings.trial, job.prepared.trial_id
    model, effort = trial.model, trial.effort
    shapes = ", ".join("×".join(map(str, each.shape)) for each in model.inputs)
    yield f"{model.name} from {model.source}, inputs {shapes or 'of its own'}"
    yield f"{trial.scenario}, batch {trial.batch_size}, {trial.precision}: {', '.join(trial.modes)}"
    recorded = f"{len(runs.by_trial.get(trial_id, ()))} recorded so far"
    count = f"effort {effort.name}: {count_noun(effort.replicates, 'replicate')}, {recorded}"
    yield f"on {settings.device.label} ({settings.device.name}), {count}"
    yield f"trial {trial_id} in {settings.results_dir}, tracker {settings.tracker.name}"


@contextlib.contextmanager
def _leaving_no_folder(jobs: Sequence[_Job]) -> Iterator[None]:
    """Remove the empty results folders that are made during a `with` block."""
    tops = {job.settings.results_dir for job in jobs}
    folders = (each for top in tops for each in (top / "logs", top / "records", top, *top.parents))
    missing = [folder for folder in folders if not folder.exists()]
    try:
        yield
    finally:
        done = [job for job in jobs if "prepared" in vars(job)]
        logs = [job.results_dir / "logs" / job.prepared.trial_id for job in done]
        for folder in (*logs, *missing):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _run_one(asked: argparse.Namespace, assignment: Assignment) -> int:
    """Compose one trial, check it, and run it as Hydra does."""
    document, run = compose_run(asked.overrides, config_dir=asked.config_dir)
    job = _Job(tuple(asked.overrides), document, asked.config_dir)
    if asked.dry_run:
        return _dry_run([job])
    _check([job])
    with hydra_line.output_below(asked, [job.results_dir]):
        code, _ = run(lambda config: _run_to_end(job, assignment, ""))
    return int(code)


def _run_several(asked: argparse.Namespace, assignment: Assignment) -> int:
    """Compose and check every trial, and have Hydra's launcher run them, here or elsewhere."""
    asked.overrides = [*sweeper_params(asked.overrides, asked.config_dir), *asked.overrides]
    each = choices(asked.overrides, asked.config_dir)
    jobs = [
        _Job(words, compose_config(words, config_dir=asked.config_dir), asked.config_dir)
        for words in itertools.product(*each)
    ]
    asked.overrides = [
        ",".join((first, *(word.partition("=")[2] for word in others))) for first, *others in each
    ]
    if asked.dry_run:
        return _dry_run(jobs)
    _check(jobs)
    if len(jobs) > 1:
        from xla_sweeps.trial import runner

        for job in jobs:
            runner.check_free(job.prepared, assignment)
    ended: list[_End] = []

    def task(config: DictConfig) -> _End:
        number = int(HydraConfig.get().job.num)
        end = _run_to_end(jobs[number], assignment, f"{number + 1} of {len(jobs)}")
        ended.append(end)
        if end[0] >= 128:
            sys.exit(end[0])
        return end

    os.environ["PYTHONSAFEPATH"] = "1"  # for the processes of a launcher of Hydra's
    code, words = 0, [*asked.overrides, "hydra.mode=MULTIRUN"]
    try:
        with (
            hydra_line.output_below(asked, [job.results_dir for job in jobs]),
            composing(asked.config_dir) as (own, name),
        ):
            batches = own.multirun(name, task, words)
            ended = [job.return_value for batch in batches for job in batch]
    except SystemExit as stop:
        code = int(stop.code or 0)
    measured = [trial_id for _, trial_id in ended if trial_id]
    if len(measured) > 1:
        _show_all(jobs, measured)
    return max(code, *(end for end, _ in ended))


def _show_all(jobs: Sequence[_Job], trial_ids: Sequence[str]) -> None:
    """Show the headlines of these trials in their order, from the rows that they kept."""
    from xla_sweeps.report.terminal.sweep_summary import show_headlines
    from xla_sweeps.store import rows, table

    for folder in dict.fromkeys(job.results_dir for job in jobs):
        headlines = list(table.headlines(rows.load(folder).table, trial_ids))
        headlines.sort(key=lambda row: trial_ids.index(row.trial.trial_id))
        show_headlines(headlines, folder)


def _run_to_end(job: _Job, assignment: Assignment, part: str) -> _End:
    """Run one job to its end: an error ends this job and no other."""
    try:
        return _measure(job, assignment, part)
    except Exception as error:
        return complain(error, results_dir=job.results_dir), ""


def _measure(job: _Job, assignment: Assignment, part: str) -> _End:
    """Run one trial, and show its result."""
    from xla_sweeps.report.json_progress import JsonProgress
    from xla_sweeps.report.terminal.progress import TrialProgress
    from xla_sweeps.report.terminal.tables import show_trial
    from xla_sweeps.trial import runner
    from xla_sweeps.trial.neighbours import cause_of

    settings = job.settings
    told = JsonProgress(part=part) if settings.ui == "json" else None
    with told or TrialProgress(ui=settings.ui, part=part) as screen:
        result = runner.run_trial(
            settings,
            screen=screen,
            tracker=tracker_named(settings.tracker.name),
            assignment=assignment,
            prepared=None if part else job.prepared,  # a moment ago, unless others ran before it
        )
        for warning in result.tracking.warnings if result.tracking else ():
            screen.warn(warning)
        if result.exit_code >= 128:
            screen.warn(f"stopped; what was measured is saved. Resume with: {job.again}")
    if assignment.recorded:
        with os.fdopen(own_file(Path(assignment.recorded)), "a", encoding="utf-8") as handle:
            handle.writelines(f"{path.resolve()}\n" for path in result.paths)

    def show() -> None:
        if result.summary is not None:
            others = "".join(map(cause_of, result.records[-1:]))
            show_trial(result.summary, places=_places(result, settings), others=others)

    if told is None:
        show()
    else:
        told.end(
            exit_code=result.exit_code,
            trial_id=result.trial_id,
            records=result.paths,
            logs=result.logs,
            summary=result.summary,
            show=show,
        )
    return result.exit_code, result.trial_id if result.summary else ""


def _places(result: TrialResult, settings: Settings) -> dict[str, str]:
    """Paths of the trial's files, and the command that shows it again."""
    places = {}
    if result.paths:
        more = f" and {len(result.paths) - 1} more" if len(result.paths) > 1 else ""
        places["record"] = f"{result.paths[0]}{more}"
    if result.logs:
        places["log"] = str(result.logs[-1])
    if result.tracking and result.tracking.place:
        place = result.tracking.place  # an address, or the absolute path of a folder
        below = Path(place).is_relative_to(Path.cwd())
        name = tracker_named(settings.tracker.name).title or settings.tracker.name
        places[name] = os.path.relpath(place) if below else place
    places["table"] = f"xla-sweeps results {shlex.quote(str(settings.results_dir))}"
    return places
