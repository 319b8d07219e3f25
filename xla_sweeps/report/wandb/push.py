"""Upload records that are not on W&B yet."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from xla_sweeps.analysis.summary import headline_failed
from xla_sweeps.report.run_content import run_content
from xla_sweeps.report.wandb import tracker
from xla_sweeps.report.wandb.client import Helper
from xla_sweeps.schema.columns import STATISTICS_VERSION
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.store.claim import lock_file
from xla_sweeps.store.store import try_trial
from xla_sweeps.system import files
from xla_sweeps.trial.tracking import RunHeader, run_header


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """The outcome of a push: counts, and a line for each run that could not be uploaded."""

    sent: int
    already: int
    failed: tuple[str, ...]
    not_tried: int = 0


def push(
    trials: Sequence[tuple[RunHeader, Sequence[Record], TrialSummary]],
    *,
    log: Path,
    force: bool = False,
) -> PushReport:
    """Upload the missing parts of each trial's run; repeating it changes nothing.

    A run keeps its id. If the server does not answer, the remaining trials are not tried. `force`
    uploads even runs that are marked as complete.
    """
    files.folder_in(log.parent.parent, log.parent.name)
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_file(log.with_suffix(".lock")))
        except BlockingIOError:
            why = f"another push of {log.parent} is running; wait for it, then push again"
            return PushReport(sent=0, already=0, failed=(why,))
        plan = [
            (header, summary, _unpublished_runs(header, records, force=force))
            for header, records, summary in trials
        ]
        waiting = [trial for trial in plan if trial[2]]
        sent, failed, not_tried = 0, list[str](), 0
        if not waiting:
            return PushReport(sent=0, already=len(plan), failed=())
        helper = Helper(log)
        stack.callback(helper.end)
        for tried, (header, summary, runs) in enumerate(waiting, start=1):
            problem, reachable = _push_trial(helper, header, summary, runs)
            sent += not problem
            if problem:
                failed.append(f"{header.trial_id} ({header.name}): {problem}")
            if not reachable:
                not_tried = len(waiting) - tried
                break
    already = len(plan) - len(waiting)
    return PushReport(sent=sent, already=already, failed=tuple(failed), not_tried=not_tried)


def _push_trial(
    helper: Helper, header: RunHeader, summary: TrialSummary, runs: Mapping[str, Sequence[Record]]
) -> tuple[str, bool]:
    """Upload a trial's runs; returns the problem or "", and whether the server answers."""
    within_s = 2 * header.connect_timeout_s + header.finish_timeout_s
    for run_id, records in runs.items():
        sys.audit("xla_sweeps.push.before")
        document = {**tracker.header_document(header), "run_id": run_id}
        stopped = records[-1].status is Status.INTERRUPTED
        exit_code = 143 if stopped else int(headline_failed(records))
        content = run_content(header, records, summary, exit_code=exit_code)
        answer = helper.ask("push", within_s, header=document, within_s=within_s, **content)
        if answer is None:
            return f"no answer within {within_s:.0f} s", False
        if not answer["complete"]:
            return "; ".join(answer["warnings"]), answer.get("reachable", True)
        sys.audit("xla_sweeps.push.after")
        numbers = [record.replicate for record in records]
        tracker.note_run(header, run_id, numbers, confirmed=True, url=answer.get("url", ""))
        sys.audit("xla_sweeps.push.marked")
    return "", True


def _unpublished_runs(
    header: RunHeader, records: Sequence[Record], *, force: bool
) -> dict[str, list[Record]]:
    """The runs to upload, each with all its records; a record belongs to the run noted for it."""
    noted, own = tracker.noted_runs(tracker.marker_path(header)), tracker.own_run_id(header)
    owner = {number: run_id for run_id, run in noted.items() for number in run.replicates}
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(owner.get(record.replicate, own), []).append(record)

    def is_there(run_id: str, group: Sequence[Record]) -> bool:
        run = noted.get(run_id, tracker.Noted())
        confirmed = {record.replicate for record in group}.issubset(run.confirmed)
        return confirmed and run.statistics_version == STATISTICS_VERSION

    return {
        run_id: group for run_id, group in groups.items() if force or not is_there(run_id, group)
    }


def headers_of(
    results_dir: Path,
    records: Mapping[str, Sequence[Record]],
    *,
    project: str | None,
    entity: str | None,
) -> tuple[dict[str, RunHeader], list[str]]:
    """The header of each trial's run, and a line for each trial without; asked-for places win."""
    headers, problems = dict[str, RunHeader](), list[str]()
    for trial, group in records.items():
        record = group[0]
        read = partial(
            run_header,
            record.trial,
            record.tracker,
            trial_id=record.trial_id,
            device_kind=str(record.device.get("kind", "")),
            device_name=str(record.device.get("name", "")),
            environment=record.environment,
            results_dir=results_dir,
        )
        header, unusable = try_trial(results_dir / "records" / trial, read)
        problems += unusable
        if header is not None:
            own = header.tracker
            own = replace(own, project=project or own.project, entity=entity or own.entity)
            headers[trial] = replace(header, tracker=own)
    return headers, problems
