"""Make the record of a replicate, also of one whose own process died."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from xla_sweeps.config.settings import Settings
from xla_sweeps.measure.replicate import ReplicateResult
from xla_sweeps.results.store import Store
from xla_sweeps.schema.backend import backend_of
from xla_sweeps.schema.measurement import Failure, Flag, Flagged, ModeOutcome, Phase, Status
from xla_sweeps.schema.record import ModelFacts, Record
from xla_sweeps.schema.trial import ModelSpec, request_id
from xla_sweeps.system import environment
from xla_sweeps.system.devices import Device


def make_record(
    settings: Settings,
    identifier: str,
    number: int,
    result: ReplicateResult,
    facts: Mapping[str, Any],
) -> Record:
    """The record of a replicate; modes that were not reached are `skipped`."""
    trial = settings.trial
    modes = {label: result.modes.get(label) or _unreached(result) for label in trial.modes}
    status, failure = _overall(result, modes)
    flags = list(result.flags)
    if result.rounds and not result.finished:
        flags.append(Flagged(Flag.CUT_SHORT))
    device = settings.device
    return Record(
        trial_id=identifier,
        replicate=number,
        status=status,
        trial=trial,
        model=result.model or _as_asked(trial.model),
        environment={
            **facts,
            "id": environment.environment_id(device, facts, backend_of(trial)),
            "loaded": result.environment,
        },
        device=_facts_of(device),
        modes=modes,
        rounds=tuple(result.rounds),
        flags=tuple(flags),
        failure=failure,
        contamination=result.contamination,
        gpu=result.gpu,
        sync=result.sync,
        seconds=result.seconds,
        request_id=request_id(trial),
        words=settings.words,
        process=result.process,
        tracker=settings.tracker,
    )


def record_death(settings: Settings, identifier: str, store: Store, detail: str) -> Record:
    """Record that the trial's own process died without a record; returns the record as stored.

    Raises:
        StoreError: it could not be stored.
    """
    failure = Failure(
        phase=Phase.RECORD,
        kind="died",
        message=f"the trial's own process died: {detail}",
        hint="its log is in logs/sweeps; the kernel's log may name what killed it",
    )
    result = ReplicateResult(status=Status.CRASHED, failure=failure)
    record = make_record(settings, identifier, 0, result, environment.environment())
    return store.save(replace(record, started_at=now(), finished_at=now()))[0]


def now() -> str:
    """The time, UTC, for a record."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _as_asked(spec: ModelSpec) -> ModelFacts:
    """Facts of a model that was not built."""
    return ModelFacts(
        name=spec.name,
        family=spec.family,
        variant=spec.variant,
        source=spec.source,
        task=spec.task,
        resolution_px=spec.resolution_px or 0,
    )


def _facts_of(device: Device) -> dict[str, Any]:
    return {
        "kind": device.kind,
        "name": device.name,
        "uuid": device.uuid,
        "memory_bytes": device.memory_bytes,
        **(asdict(device.settings) if device.kind == "gpu" else {}),
    }


def _unreached(result: ReplicateResult) -> ModeOutcome:
    """The outcome of a mode that the process did not reach before it ended."""
    cause = result.failure
    message = f"not reached: {cause.message}" if cause else "not reached"
    hint = cause.hint if cause else ""
    status = result.status if result.status is Status.INTERRUPTED else Status.SKIPPED
    return ModeOutcome(
        status=status,
        failure=Failure(phase=Phase.BUILD, kind="not_reached", message=message, hint=hint),
    )


def _overall(
    result: ReplicateResult, modes: Mapping[str, ModeOutcome]
) -> tuple[Status, Failure | None]:
    """The replicate's own status: that of its modes only where no mode was measured."""
    if result.finished:
        usable = [outcome for outcome in modes.values() if outcome.latencies_s]
        if usable:
            return (Status.CONTAMINATED if result.contaminated else Status.OK), None
        first = next(iter(modes.values()))
        return first.status, first.failure
    return result.status, result.failure
