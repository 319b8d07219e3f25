"""Calls on new inputs that take long: a mode that compiles for them, or one that keeps answers."""

from __future__ import annotations

import pytest

from xla_sweeps.schema.measurement import Block, ModeOutcome, Status
from xla_sweeps.worker.replicate import _compiles
from xla_sweeps.worker.timing import WarmUp


@pytest.mark.parametrize(("first_call_s", "compiles"), [(0.5, True), (2.0, True), (5.0, False)])
def test_a_mode_recompiles_only_if_new_inputs_cost_about_what_the_first_call_did(
    first_call_s: float, compiles: bool
) -> None:
    """XLA compiles for seconds; a mode that keeps answers computes for much less."""
    blocks = [
        Block(mode="", calls=1, elapsed_ns=round(1e9 * call_s), enqueue_ns=0)
        for call_s in (0.5, 0.5, 0.001, 0.001)
    ]
    warm = WarmUp(blocks=tuple(blocks), call_s=0.001, trend=None)
    assert warm.recompiles
    assert _compiles(warm, ModeOutcome(status=Status.OK, first_call_s=first_call_s)) is compiles
