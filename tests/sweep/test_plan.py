"""The trials of a sweep that are still to be measured."""

from __future__ import annotations

from xla_sweeps.schema.measurement import Status
from xla_sweeps.sweep.plan import counting, final_outcome, missing


def test_what_is_missing_of_a_trial_does_not_depend_on_the_order_of_its_records() -> None:
    outcomes = [Status.CRASHED, Status.OK, Status.CONTAMINATED]
    for order in (outcomes, outcomes[::-1]):
        assert missing(order, replicates=1) == 0
        assert missing(order, replicates=2) == 1
        assert final_outcome(order) is Status.OK
    assert counting(outcomes, [Status.CRASHED]) == [Status.OK]
