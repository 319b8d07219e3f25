"""A worker's part of a replicate: what it computes and pays once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from factories import TRIAL
from fake_backend import FakeExecutable, FakeModel, FakeWork

from xla_sweeps.schema.measurement import Flag, Phase
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.trial import protocol
from xla_sweeps.worker.replicate import Replicate
from xla_sweeps.worker.timing import WarmUp

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
    """Unless building the model has paid it, as some backends' does. Each has a compiler's time."""
    calls, heard = list[str](), list[protocol.Message]()

    def first_call_s(executable: FakeExecutable) -> float:
        assert getattr(heard[-1], "phase", None) is Phase.COMPILE
        calls.append(executable.mode)
        executable.step()
        return 1.0 + (ONCE_S if len(calls) == 1 else 0.0)

    monkeypatch.setenv("FAKE_BACKEND", "numpy")
    monkeypatch.setattr(FakeExecutable, "first_call_s", first_call_s)
    monkeypatch.setattr(FakeModel, "starts_up", starts_up)
    trial = replace(TRIAL, modes=("eager", *modes), device=device)
    job = ReplicateJob(trial=trial, replicate=0, modes=trial.modes, order_seed=1)
    replicate = Replicate(FakeWork, heard.append, title="FakeWork")
    replicate.answer(protocol.SetUp(job=job))
    first, second = (replicate.answer(protocol.Prepare(mode=mode)) for mode in modes)
    assert isinstance(first, protocol.ModeReady)
    assert isinstance(second, protocol.ModeReady)
    assert first.outcome.first_call_s == 1.0 + paid
    assert second.outcome.first_call_s == 1.0


@pytest.mark.parametrize("note", ["", "the second call compiled 1 program"])
def test_a_mode_that_compiles_again_is_flagged_once(
    note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, prove = list[protocol.Message](), FakeModel.prove
    monkeypatch.setenv("FAKE_BACKEND", "numpy")
    monkeypatch.setattr(WarmUp, "recompiles", lambda warm, first_call_s: True)
    monkeypatch.setattr(FakeModel, "prove", lambda *given: {**prove(*given), "recompiles": note})
    trial = replace(TRIAL, modes=("eager", "xla"))
    job = ReplicateJob(trial=trial, replicate=0, modes=trial.modes, order_seed=1)
    replicate = Replicate(FakeWork, heard.append, title="FakeWork")
    for request in (
        protocol.SetUp(job=job),
        protocol.Prepare(mode="xla"),
        protocol.WarmUp(mode="xla"),
    ):
        replicate.answer(request)
    flags = [each.flagged for each in heard if isinstance(each, protocol.Caveat)]
    assert [each.note for each in flags if each.flag == Flag.RECOMPILES] == [note]


@pytest.mark.parametrize(("modes", "runs"), [(("xla",), 0), (("eager", "xla"), 1)])
def test_a_worker_runs_eagerly_only_what_it_measures_or_what_others_take(
    modes: tuple[str, ...], runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, models, run, build = [], [], FakeModel.run_eagerly, FakeWork.build

    def run_eagerly(model: FakeModel, tell: object) -> None:
        ran.append(model)
        run(model, lambda event: None)

    def built(work: FakeWork, job: ReplicateJob) -> FakeModel:
        models.append(build(work, job))
        models[-1].deterministic, models[-1].draws = job.adopts, not job.adopts
        return models[-1]

    monkeypatch.setenv("FAKE_BACKEND", "numpy")
    monkeypatch.setattr(FakeModel, "run_eagerly", run_eagerly)
    monkeypatch.setattr(FakeWork, "build", built)
    trial, shared = replace(TRIAL, modes=modes), str(tmp_path)
    job = ReplicateJob(trial=trial, replicate=0, modes=modes, order_seed=1, shared=shared)
    for adopts, name in ((False, "fake"), (True, "other")):
        replicate = Replicate(partial(FakeWork, name), lambda event: None, title=name)
        replicate.answer(protocol.SetUp(job=replace(job, adopts=adopts)))
    first, second = models
    assert [model is second for model in ran] == [False, *[True] * runs]
    assert np.array_equal(second.weights, first.weights)
    assert np.array_equal(second.eager[0], first.eager[0])
    assert not second.deterministic, "as the first one is not"
    assert second.draws, "as the first one does"
