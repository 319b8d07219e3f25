"""When a device has failed too often."""

from __future__ import annotations

from xla_sweeps.sweep.forecast import BREAKER, Breaker


def test_too_many_losses_in_a_row_on_one_device_disable_it() -> None:
    breaker = Breaker()
    assert [breaker.lost("gpu:0", now=0.0) for _ in range(BREAKER)] == [False] * (BREAKER - 1) + [
        True
    ]
    assert not breaker.lost("gpu:1", now=0.0)


def test_a_job_that_ran_to_its_end_clears_its_own_device() -> None:
    breaker = Breaker()
    for where in ("gpu:0", "gpu:1", "gpu:0", "gpu:1"):
        assert not breaker.lost(where, now=0.0)
    breaker.worked("gpu:0")
    assert not breaker.lost("gpu:0", now=0.0)
    assert breaker.lost("gpu:1", now=0.0)


def test_losses_close_together_are_one_event_and_a_chain_of_them_is_not() -> None:
    breaker = Breaker(together_s=10.0)
    assert not any(breaker.lost("", now=second / 10) for second in range(100))
    assert [breaker.lost("", now=float(second)) for second in (10, 15, 19, 20)] == [
        False,
        False,
        False,
        True,
    ]
