"""Validity of the modes of a trial's headline, which decides its exit code."""

from __future__ import annotations

import pytest
from factories import failed_outcome, make_outcome, make_record

from xla_sweeps.analysis.summary import headline_failed
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record

FAILED = failed_outcome(Status.UNSUPPORTED_OP, "no kernel", "")


def record(**modes: bool) -> Record:
    """A record whose modes work or fail."""
    return make_record(
        dict.fromkeys(modes, 0.1),
        modes={name: make_outcome(0.1) if works else FAILED for name, works in modes.items()},
    )


@pytest.mark.parametrize(
    ("records", "failed"),
    [
        ([record(eager=True, graph=True, xla=True)], False),
        ([record(eager=False, graph=True, xla=True)], False),
        ([record(eager=True, graph=True, xla=False)], True),
        ([record(eager=True, graph=False, xla=True)], True),
        ([record(graph=True, xla=False), record(graph=True, xla=True)], False),
        ([record(graph=True, xla=False), record(graph=False, xla=True)], False),
        ([record(xla=True)], False),
        ([record(xla=False)], True),
        ([], True),
    ],
)
def test_the_headline_failed_if_one_of_its_modes_works_in_no_record(
    records: list[Record], failed: bool
) -> None:
    assert headline_failed(records) is failed


def test_modes_that_work_without_enough_rounds_have_no_verdict() -> None:
    for modes in ({"graph": 0.2, "xla": 0.1}, {"xla": 0.1}):
        assert headline_failed([make_record(modes, count=5)])
        assert not headline_failed([make_record(modes, count=20)])
