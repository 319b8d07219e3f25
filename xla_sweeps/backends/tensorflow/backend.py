"""TensorFlow in the measuring process; satisfies `worker.backend.Framework`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.tensorflow import bench, devices, scenarios
from xla_sweeps.schema.trial import ReplicateJob, Trial


class TensorFlow:
    """TensorFlow, loaded."""

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

    def build(self, job: ReplicateJob) -> bench.Bench:
        """Build the model and place it and its inputs on the device."""
        return bench.build(job, scenarios.BENCHES[job.trial.scenario])
