"""TensorFlow in the measuring process, and the scenarios: what one timed call does in each mode."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.tensorflow import devices
from xla_sweeps.backends.tensorflow.bench import Bench, build
from xla_sweeps.backends.tensorflow.scenarios import cold_start
from xla_sweeps.backends.tensorflow.scenarios.detect import DetectBench
from xla_sweeps.backends.tensorflow.scenarios.fit import FitBench
from xla_sweeps.backends.tensorflow.scenarios.predict import PredictBench
from xla_sweeps.backends.tensorflow.scenarios.train import TrainBench
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import ReplicateJob, Trial

BENCHES: Mapping[Scenario, type[Bench]] = {
    Scenario.CALL: Bench,
    Scenario.DETECT: DetectBench,
    Scenario.PREDICT: PredictBench,
    Scenario.TRAIN_STEP: TrainBench,
    Scenario.FIT: FitBench,
}
"""The bench of each scenario."""


class TensorFlow:
    """TensorFlow, loaded; satisfies `worker.backend.Framework`."""

    def configure(self, trial: Trial) -> None:
        """Set GPU memory, TF32 and seeds for the whole process."""
        devices.configure(tf32=trial.tf32, seed=trial.seed)

    def environment(self) -> Mapping[str, Any]:
        """Versions and settings as TensorFlow reports them."""
        return devices.loaded_environment()

    def device(self, trial: Trial) -> AbstractContextManager[object]:
        """Within it, what is built and called is on the trial's device."""
        device: AbstractContextManager[object] = tf.device(devices.tf_device(trial.device))
        return device

    def build(self, job: ReplicateJob) -> Bench:
        """Build the model and place it and its inputs on the device."""
        if job.trial.scenario is Scenario.COLD_START:
            return cold_start.build(job)
        return build(job, BENCHES[job.trial.scenario])
