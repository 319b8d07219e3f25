"""JAX, loaded; satisfies `worker.backend.Framework`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from xla_sweeps.backends.jax import modes
from xla_sweeps.backends.jax.bench import ColdStartBench, JaxBench, NewShapesBench, PredictBench
from xla_sweeps.backends.jax.declaration import BACKEND
from xla_sweeps.backends.jax.training import TrainBench
from xla_sweeps.backends.keras.framework import KerasFramework
from xla_sweeps.errors import DeviceError
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import ReplicateJob, Trial
from xla_sweeps.system.installation import install
from xla_sweeps.worker.stand_in import stands_in


class Jax(KerasFramework[JaxBench]):
    """JAX, loaded."""

    benches: ClassVar = {
        Scenario.CALL: JaxBench,
        Scenario.PREDICT: PredictBench,
        Scenario.TRAIN_STEP: TrainBench,
        Scenario.COLD_START: ColdStartBench,
        Scenario.NEW_SHAPES: NewShapesBench,
    }

    def configure(self, trial: Trial) -> None:
        """Set TF32 and seeds for the whole process, and listen to compilations.

        Raises:
            DeviceError: JAX does not see the trial's GPU.
        """
        _device(trial)
        modes.listen()
        precision = None if trial.tf32 else "float32"
        jax.config.update("jax_default_matmul_precision", precision)
        super().configure(trial)

    def environment(self) -> dict[str, Any]:
        """Versions and settings as JAX reports them."""
        return {
            "jax": jax.__version__,
            **super().environment(),
            "tf32": jax.config.jax_default_matmul_precision != "float32",
            "devices": [str(device) for device in jax.devices()],
        }

    def device(self, trial: Trial) -> AbstractContextManager[object]:
        """Context in which the trial's device builds and calls models."""
        device: AbstractContextManager[object] = jax.default_device(_device(trial))
        return device

    def name_of_device(self, trial: Trial) -> str:
        """The trial's device as JAX names it."""
        return str(_device(trial))

    def start_compiler(self, job: ReplicateJob) -> None:
        """Pay what the first convolution of a process pays, before any mode."""
        kernel = jnp.ones((8, 8, 3, 3))
        jax.lax.conv(jnp.ones((1, 8, 8, 8)), kernel, (1, 1), "SAME").block_until_ready()


def _device(trial: Trial) -> Any:
    if not trial.on_accelerator or stands_in():
        return jax.devices("cpu")[int(trial.on_accelerator)]
    try:
        return jax.devices("gpu")[0]
    except (AssertionError, RuntimeError) as error:
        why = " ".join(str(error).split())[:200] or "its plugin for CUDA is missing"
        raise DeviceError(
            f"device={trial.device}: JAX {jax.__version__} sees no GPU ({why}); "
            f"install CUDA for it: {install(BACKEND.for_gpu)}"
        ) from error
