"""Workers that take weights and expected outputs of another one do not compute them again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from factories import TRIAL
from fake_backend import FakeModel, FakeWork

from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.trial import protocol
from xla_sweeps.worker.replicate import Replicate


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
        models[-1].deterministic = job.adopts
        return models[-1]

    monkeypatch.setenv("FAKE_BACKEND", "numpy")
    monkeypatch.setattr(FakeModel, "run_eagerly", run_eagerly)
    monkeypatch.setattr(FakeWork, "build", built)
    job = ReplicateJob(trial=replace(TRIAL, modes=modes), replicate=0, modes=modes, order_seed=1)
    for leads, name in ((True, "fake"), (False, "other")):
        replicate = Replicate(partial(FakeWork, name), lambda event: None, title=name)
        replicate.answer(protocol.SetUp(job=job, shared=str(tmp_path), leads=leads))
    first, second = models
    assert [model is second for model in ran] == [False, *[True] * runs]
    assert np.array_equal(second.weights, first.weights)
    assert np.array_equal(second.eager[0], first.eager[0])
    assert not second.deterministic, "as the first one is not"
