"""Run one trial: claim it, open its run, measure its replicates in new processes, save, analyse."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from xla_sweeps.analysis.summary import headline_clear, headline_failed
from xla_sweeps.config.local_model import require_same_files
from xla_sweeps.config.settings import Settings, identify
from xla_sweeps.errors import ALREADY_MEASURED, ConfigError, LockedError, XlaSweepsError
from xla_sweeps.schema.measurement import Flag, Flagged, Status
from xla_sweeps.schema.modes import SCENARIOS
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.store.claim import claim_trial
from xla_sweeps.store.rows import end_trial
from xla_sweeps.store.store import Store, folder_below
from xla_sweeps.system import environment
from xla_sweeps.system.leases import Leases, lease_names, whole_replicate
from xla_sweeps.system.process import Assignment, StopSignals
from xla_sweeps.trial import conductor, monitor
from xla_sweeps.trial.recording import make_record, make_stamp, now, save, take_in
from xla_sweeps.trial.replicate import WAITING, Screen, Setting
from xla_sweeps.trial.tracking import Tracker, TrackerReport, run_header
from xla_sweeps.trial.workers import commands_of

_ENDS_TRIAL = (Status.INFRA, Status.BUILD_ERROR)


@dataclass(slots=True, kw_only=True)
class TrialResult:
    """End of a trial.

    Attributes:
        exit_code: 0; 1 where a candidate could not be measured; 128 + the signal that stopped it.
        summary: over all records of the trial, earlier ones included; None where nothing was
            recorded.
    """

    trial_id: str
    exit_code: int = 0
    summary: TrialSummary | None = None
    records: list[Record] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    tracking: TrackerReport | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A trial whose results folder can be written, its id, and the facts of this machine."""

    store: Store
    trial_id: str
    facts: dict[str, Any]


@dataclass
class _Session:
    """State that all replicates of one command share."""

    settings: Settings
    prepared: Prepared
    screen: Screen
    tracker: Tracker
    title: str
    stop: StopSignals
    assignment: Assignment
    result: TrialResult
    leases: Leases | None = None
    """Those of the last replicate, still shared: it ends, and saves, while nobody measures."""


def prepare(settings: Settings) -> Prepared:
    """Check, before anything starts, that the results folder can be written; else `StoreError`."""
    store = Store(settings.results_dir)
    store.check_writable()
    facts = environment.environment()
    identifier = identify(settings, facts)
    folder_below(settings.results_dir, "logs", identifier)
    return Prepared(store, identifier, facts)


def check_free(prepared: Prepared, assignment: Assignment) -> None:
    """Check that no other process measures a trial that starts later, or has measured it.

    Raises:
        StoreError: the trial is being measured into the same folder.
        LockedError: there are more records than the sweep knew of.
    """
    with claim_trial(prepared.store.results_dir, prepared.trial_id):
        _require_unmeasured(assignment, prepared.store, prepared.trial_id)


def run_trial(
    settings: Settings,
    *,
    screen: Screen,
    tracker: Tracker,
    assignment: Assignment | None = None,
    prepared: Prepared | None = None,
) -> TrialResult:
    """Measure one trial: all its replicates, or what a launcher's assignment says.

    Raises:
        ConfigError: the model takes no such request, and no sweep waits for the trial.
        StoreError: the results folder cannot be used, or the same trial is being measured into it.
        LockedError: there are more records than the sweep knew of.
    """
    prepared = prepared or prepare(settings)
    store, identifier, assignment = prepared.store, prepared.trial_id, assignment or Assignment()
    replicates = 1 if assignment.known_records is not None else settings.trial.effort.replicates
    with (
        claim_trial(settings.results_dir, identifier),
        stop_signals() as stop,
    ):
        if assignment.stopped:
            signal.raise_signal(assignment.stopped)
        take_in(store, warn=screen.warn)
        _require_unmeasured(assignment, store, identifier)
        header = run_header(
            settings.trial,
            settings.tracker,
            trial_id=identifier,
            device_kind=settings.device.kind,
            device_name=settings.device.name,
            environment=prepared.facts,
            results_dir=settings.results_dir,
        )
        title, result = header.name, TrialResult(trial_id=identifier)
        session = _Session(settings, prepared, screen, tracker, title, stop, assignment, result)
        tracker.open(header)
        _run_all(session, replicates)
        result = _conclude(session)
        if assignment.counted and session.leases:  # an agent's: a twin may follow, which has all
            session.leases.close()
        return result


def _run_all(session: _Session, count: int) -> None:
    """Measure replicates until a signal, or one that shows that the others would fail too."""
    try:
        for _ in range(count):
            _run_replicate(session)
            if session.stop.number or session.result.records[-1].status in _ENDS_TRIAL:
                return
    except XlaSweepsError as error:
        session.tracker.finish(session.result.records, None, exit_code=error.exit_code)
        raise


def _require_unmeasured(assignment: Assignment, store: Store, identifier: str) -> None:
    """Refuse a sweep's trial that another process has measured since it was planned."""
    planned = assignment.known_records
    if planned is not None and len(store.keys(identifier)) > planned:
        raise LockedError(f"{ALREADY_MEASURED}; skipped (trial {identifier})")


def _run_replicate(session: _Session) -> None:
    """Measure one replicate, and save its record however it ends."""
    settings, trial = session.settings, session.settings.trial
    store, identifier = session.prepared.store, session.prepared.trial_id
    number = store.next_replicate(identifier)
    seed = trial.seed * 1009 + number
    job = ReplicateJob(trial=trial, replicate=number, modes=trial.modes, order_seed=seed)
    folder = folder_below(store.results_dir, "logs", identifier)
    log = folder / f"{number}-{make_stamp()}.log"
    session.result.logs.append(log)
    if not session.result.records:
        session.screen.trial_started(session.title, replicates=trial.effort.replicates, log=log)
    turns = session.assignment.turns
    alone = {*lease_names(settings.device), *session.assignment.together}
    with _leases(session, whole_replicate(settings.device)) as whole:
        leases = _leases(session, alone)
        if session.leases:
            session.leases.close()
        session.leases = leases
        device, warn, limit = trial.device, session.screen.warn, trial.memory_limit_bytes
        for wanted in (whole, leases) if turns else (whole,):
            wanted.wait(session.stop, lambda who: warn(WAITING.format(device=device, holder=who)))
        started_at = now()
        try:
            setting = Setting(
                commands=commands_of(trial, settings.device, log),
                watch=partial(monitor.Sampler, device=settings.device, memory_limit_bytes=limit),
                stop=session.stop,
                leases=leases,
                screen=session.screen,
                tracker=session.tracker,
                quiet_s=monitor.WAIT_LIMIT_S if _was_contaminated(session) else 0.0,
            )
            result = conductor.measure(job, setting)
        finally:
            if not leases.shared:
                leases.close()
    require_same_files(trial.model)
    in_sweep = session.assignment.known_records is not None or "WANDB_SWEEP_ID" in os.environ
    refused = result.failure if not in_sweep and not session.result.records else None
    # In a sweep it is a row; with a hint the machine is at fault, as of a full disk.
    if refused and refused.kind == ConfigError.__name__ and not refused.hint:
        raise ConfigError(refused.message)
    if session.assignment.together and result.rounds:
        result.flag(Flagged(Flag.TOOK_TURNS))
    starts = SCENARIOS[trial.scenario].starts_processes
    if turns and result.modes and not (trial.shapes or starts):  # which compile while they measure
        result.flag(Flagged(Flag.COMPILED_AHEAD))
    record = replace(
        make_record(settings, identifier, number, result, session.prepared.facts),
        started_at=started_at,
        finished_at=now(),
        log=str(log.relative_to(settings.results_dir)),
    )
    sys.audit("xla_sweeps.supervisor.result")
    stored, path = save(record, store, stop=session.stop, warn=session.screen.warn)
    session.result.records.append(stored)
    session.result.paths.append(path)
    session.screen.replicate_done(
        stored.replicate, str(stored.status), stored.failure.message if stored.failure else ""
    )


def _leases(session: _Session, names: Collection[str]) -> Leases:
    """Leases of a replicate; the first one of a trial inherits those that it shares."""
    turns = session.assignment.turns
    return Leases(
        names,
        holder=session.title,
        shared=bool(turns),
        inherited={} if session.result.records else turns,
    )


def _was_contaminated(session: _Session) -> bool:
    """True if the next replicate waits: the latest did not, is contaminated and settles nothing."""
    trial_id, replicates = session.result.trial_id, session.result.records
    if not replicates:
        loaded = session.prepared.store.load(trial_id)
        replicates = loaded.records.get(trial_id, [])
        for problem in loaded.problems:  # a damaged record is moved away, and named only now
            session.screen.warn(problem)
    if not replicates or replicates[-1].status is not Status.CONTAMINATED:
        return False
    waited_s = replicates[-1].contamination.get("waited_s", 0.0)
    return waited_s < monitor.WAIT_LIMIT_S and not headline_clear(replicates)


def _conclude(session: _Session) -> TrialResult:
    """Analyse all records of the trial, close the run, and decide the exit code."""
    result, stopped = session.result, session.stop.number
    result.summary, problems = end_trial(session.prepared.store, result.trial_id)
    for problem in problems:
        session.screen.warn(problem)
    if stopped:
        result.exit_code = 128 + stopped
        if stopped == signal.SIGTERM:
            session.tracker.preempt()
    elif headline_failed(result.records):
        result.exit_code = 1
    result.tracking = session.tracker.finish(
        result.records, result.summary, exit_code=result.exit_code
    )
    return result


def stop_signals() -> StopSignals:
    """A signal ends the measuring process and saves; a Ctrl-C after it kills."""

    def kill() -> None:
        if os.isatty(2):
            os.write(2, b"\x1b[?25h\n")  # the live display hides the cursor
        os._exit(128 + signal.SIGINT)  # the measuring process dies with this one

    return StopSignals(on_kill=kill)
