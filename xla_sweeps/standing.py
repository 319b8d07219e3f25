"""Whether a trial is done, from what its records say alone: one rule for planning, retrying and resuming. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from xla_sweeps.measurement import Status
from xla_sweeps.record import Record
from xla_sweeps.trial import baseline_of, headline_candidates

WEAK = (Status.CONTAMINATED, Status.INFRA, Status.INTERRUPTED)
"""Says nothing about the configuration: measured again on resume, however often it was tried."""

ATTEMPTS: Mapping[Status, int] = {
    Status.NONDETERMINISTIC: 2,
    Status.TRACE_ERROR: 2,
    Status.COMPILE_ERROR: 2,
    Status.RUN_ERROR: 2,
    Status.OOM_HOST: 2,
    Status.TIMEOUT: 2,
    Status.CRASHED: 2,
    Status.CONTAMINATED: 4,
}
"""Records of a status, other than `ok`, after which the trial is left; 1 where it is not named."""


def outcome_of(record: Record) -> Status:
    """A record's status; where it is `ok`, that of the first headline mode that has no valid number."""
    if record.status is not Status.OK:
        return record.status
    labels = list(record.modes)
    headline = (baseline_of(labels), *headline_candidates(labels)) if len(labels) > 1 else labels
    return next((status for label in headline if (status := record.modes[label].status) is not Status.OK), Status.OK)


def missing(outcomes: Sequence[Status], *, replicates: int) -> int:
    """How many replicates are still wanted.

    Args:
        outcomes: of the trial's records that count, in any order.
        replicates: how many good ones are asked for.
    """
    if all(status is Status.OK for status in outcomes):
        return max(0, replicates - len(outcomes))
    counts = Counter(outcomes)
    for status, count in counts.items():
        if status in (Status.OK, Status.INFRA, Status.INTERRUPTED):
            continue
        if count >= ATTEMPTS.get(status, 1):
            return 0
    return max(0, replicates - counts[Status.OK])


def final_outcome(outcomes: Sequence[Status]) -> Status | None:
    """What a trial's records amount to: `ok` beats all, then results beat what is weak; None without records."""
    if not outcomes:
        return None
    if Status.OK in outcomes:
        return Status.OK
    return next((status for status in reversed(outcomes) if status not in WEAK), outcomes[-1])


def counting(outcomes: Sequence[Status], retry: Collection[Status]) -> list[Status]:
    """The outcomes that count when a sweep begins: not the weak ones, and not those that are to be tried again."""
    return [status for status in outcomes if status not in retry and status not in WEAK]
