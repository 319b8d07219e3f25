"""A pair of a guard with TensorFlow: each side runs the model of its own folder."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from conducting import Notes
from real_trials import SHORT

from xla_sweeps.system.process import Stop
from xla_sweeps.trial.guard import Pairs, Plan
from xla_sweeps.trial.sides import differences, side_of

pytestmark = [pytest.mark.tf, pytest.mark.timeout(300)]

MODEL = """
import tensorflow as tf

def build():
    weights = tf.random.stateless_normal((256, 256), (1, 2)) / 16
    def call(batch):
        for _ in range({depth}):
            batch = tf.tanh(batch @ weights)
        return batch
    return call
"""

REQUEST = (
    *("model=local", "path=models.py:build", "trust_code=true", "device=cpu", "modes=[graph]"),
    *("input_spec=[{shape:[256]}]", *SHORT),
)


@pytest.mark.exhaustive
def test_each_side_runs_the_model_of_its_own_folder(tmp_path: Path) -> None:
    sides = []
    for name, depth in (("before", 1), ("after", 300)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "models.py").write_text(MODEL.format(depth=depth))
        sides.append(side_of(name, f"{sys.executable}@{folder}", REQUEST))
    before, after = sides
    plan = Plan(
        before=before,
        after=after,
        modes={"graph": ("graph", "graph")},
        budget_s=600.0,
        detect=0.05,
        logs=tmp_path / "logs",
    )
    with Stop() as stop:
        measured = Pairs(plan, Notes(), stop).measure(before_first=False)
    assert measured.failures("graph") == {}
    ratio = measured.ratio("graph")
    assert ratio is not None
    assert ratio > math.log(3)
    models = {name: side.built[copy - 1] for name, (side, copy) in measured.seen.items()}
    named = differences(before, after, models)
    assert {"model file", "operations"} <= named.keys()
    assert "TensorFlow" not in named
