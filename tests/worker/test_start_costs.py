"""Costs that a process has once are no mode's compile time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from factories import TRIAL
from fake_backend import FakeExecutable, FakeModel, FakeWork

from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.trial import protocol
from xla_sweeps.worker.replicate import Replicate

ONCE_S = 30.0


@pytest.mark.parametrize(
    ("device", "starts_up", "paid"),
    [("gpu:0", False, 0.0), ("cpu", False, ONCE_S), ("gpu:0", True, ONCE_S)],
)
@pytest.mark.parametrize("modes", [("graph", "xla"), ("xla", "graph"), ("xla", "xla_2")])
def test_the_first_mode_on_a_gpu_does_not_pay_what_the_process_pays_once(
    modes: tuple[str, ...],
    device: str,
    starts_up: bool,
    paid: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless building the model has paid it, as some backends' does."""
    calls: list[str] = []

    def first_call_s(executable: FakeExecutable) -> float:
        calls.append(executable.mode)
        executable.step()
        return 1.0 + (ONCE_S if len(calls) == 1 else 0.0)

    monkeypatch.setenv("FAKE_BACKEND", "numpy")
    monkeypatch.setattr(FakeExecutable, "first_call_s", first_call_s)
    monkeypatch.setattr(FakeModel, "starts_up", starts_up)
    trial = replace(TRIAL, modes=("eager", *modes), device=device)
    job = ReplicateJob(trial=trial, replicate=0, modes=trial.modes, order_seed=1)
    replicate = Replicate(FakeWork, lambda event: None, title="FakeWork")
    replicate.answer(protocol.SetUp(job=job))
    first, second = (replicate.answer(protocol.Prepare(mode=mode)) for mode in modes)
    assert isinstance(first, protocol.ModeReady)
    assert isinstance(second, protocol.ModeReady)
    assert first.outcome.first_call_s == 1.0 + paid
    assert second.outcome.first_call_s == 1.0
