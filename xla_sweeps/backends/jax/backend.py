"""JAX, loaded; satisfies `worker.backend.Framework`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np

from xla_sweeps.backends.jax import modes
from xla_sweeps.backends.jax.bench import JaxBench, draw, narrowed
from xla_sweeps.backends.jax.predict import PredictBench
from xla_sweeps.backends.jax.training import TrainBench
from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import INPUT_BATCHES, check_batch, facts_of
from xla_sweeps.errors import DeviceError
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import ReplicateJob, Trial
from xla_sweeps.worker.stand_in import stands_in

BENCHES: Mapping[Scenario, type[JaxBench]] = {
    Scenario.CALL: JaxBench,
    Scenario.PREDICT: PredictBench,
    Scenario.TRAIN_STEP: TrainBench,
}
"""The bench of each scenario."""


class Jax:
    """JAX, loaded; satisfies `worker.backend.Framework`."""

    def configure(self, trial: Trial) -> None:
        """Set TF32 and seeds for the whole process, and listen to compilations.

        Raises:
            DeviceError: JAX does not see the trial's GPU.
        """
        _device(trial)
        modes.listen()
        precision = None if trial.tf32 else "float32"
        jax.config.update("jax_default_matmul_precision", precision)
        keras.utils.set_random_seed(trial.seed)

    def environment(self) -> Mapping[str, Any]:
        """Versions and settings as JAX reports them."""
        return {
            "jax": jax.__version__,
            "keras": keras.__version__,
            "numpy": np.__version__,
            "tf32": jax.config.jax_default_matmul_precision != "float32",
            "devices": [str(device) for device in jax.devices()],
        }

    def device(self, trial: Trial) -> AbstractContextManager[object]:
        """Within it, what is built and called is on the trial's device."""
        device: AbstractContextManager[object] = jax.default_device(_device(trial))
        return device

    def build(self, job: ReplicateJob) -> JaxBench:
        """Build the model and place it and its inputs on the device."""
        trial, spec = job.trial, job.trial.model
        built = building.build(
            spec,
            precision=trial.precision,
            seed=trial.seed,
            batch_size=trial.batch_size,
            narrowed=narrowed,
        )
        check_batch(built, trial)
        rng = np.random.default_rng(trial.seed)
        bench = BENCHES[trial.scenario](
            trial=trial,
            device=str(_device(trial)),
            built=built,
            facts=facts_of(trial, built),
            modes=job.modes,
        )
        count = INPUT_BATCHES + trial.batches - 1
        bench.inputs = [draw(built.inputs, trial.batch_size, rng) for _ in range(count)]
        if spec.weights == "random" and not job.adopts:
            bench.calibrate(rng)
        bench.begin()
        _start_compiler()
        return bench


def _start_compiler() -> None:
    """Pay what the first convolution of a process pays, before any mode."""
    jax.lax.conv(jnp.ones((1, 8, 8, 8)), jnp.ones((8, 8, 3, 3)), (1, 1), "SAME").block_until_ready()


def _device(trial: Trial) -> Any:
    if not trial.on_accelerator or stands_in():
        return jax.devices("cpu")[int(trial.on_accelerator)]
    try:
        return jax.devices("gpu")[0]
    except (AssertionError, RuntimeError) as error:
        why = " ".join(str(error).split())[:200] or "its plugin for CUDA is missing"
        raise DeviceError(
            f"device={trial.device}: JAX {jax.__version__} sees no GPU ({why}); "
            "install CUDA for it: pip install 'jax[cuda13]'"
        ) from error
