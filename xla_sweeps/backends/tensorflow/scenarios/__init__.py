"""TensorFlow in the measuring process, and the scenarios: what one timed call does in each mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf

from xla_sweeps.backends.keras.framework import KerasFramework
from xla_sweeps.backends.tensorflow import devices
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.scenarios.cold_start import ColdStartBench, adopt
from xla_sweeps.backends.tensorflow.scenarios.detect import DetectBench
from xla_sweeps.backends.tensorflow.scenarios.fit import FitBench
from xla_sweeps.backends.tensorflow.scenarios.new_shapes import NewShapesBench
from xla_sweeps.backends.tensorflow.scenarios.predict import PredictBench
from xla_sweeps.backends.tensorflow.scenarios.train import TrainBench
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import ReplicateJob, Trial


class TensorFlow(KerasFramework[Bench]):
    """TensorFlow, loaded."""

    benches: ClassVar = {
        Scenario.CALL: Bench,
        Scenario.DETECT: DetectBench,
        Scenario.PREDICT: PredictBench,
        Scenario.TRAIN_STEP: TrainBench,
        Scenario.FIT: FitBench,
        Scenario.COLD_START: ColdStartBench,
        Scenario.NEW_SHAPES: NewShapesBench,
    }

    def configure(self, trial: Trial) -> None:
        """Set GPU memory, TF32 and seeds for the whole process."""
        devices.configure(tf32=trial.tf32)
        super().configure(trial)

    def environment(self) -> dict[str, Any]:
        """Versions and settings as TensorFlow reports them."""
        versions = {"tensorflow": tf.__version__, **super().environment()}
        return {**versions, **devices.loaded_environment()}

    def build(self, job: ReplicateJob) -> Bench:
        """Build the model and place it and its inputs on the device."""
        if job.trial.scenario is Scenario.COLD_START and job.adopts:
            return adopt(job, self.name_of_device(job.trial))
        bench = super().build(job)
        bench.note_kept()
        if isinstance(bench, ColdStartBench):
            bench.share(Path(job.shared))
        return bench

    def name_of_device(self, trial: Trial) -> str:
        """The trial's device as TensorFlow names it."""
        return devices.tf_device(trial.device)
