"""The scenarios: what one timed call does, in each execution mode."""

from __future__ import annotations

from collections.abc import Mapping

from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.scenarios.detect import DetectBench
from xla_sweeps.backends.tensorflow.scenarios.fit import FitBench
from xla_sweeps.backends.tensorflow.scenarios.predict import PredictBench
from xla_sweeps.backends.tensorflow.scenarios.train import TrainBench
from xla_sweeps.schema.modes import Scenario

BENCHES: Mapping[Scenario, type[Bench]] = {
    Scenario.CALL: Bench,
    Scenario.DETECT: DetectBench,
    Scenario.PREDICT: PredictBench,
    Scenario.TRAIN_STEP: TrainBench,
    Scenario.FIT: FitBench,
}
"""The bench of each scenario."""
