"""PyTorch, loaded; satisfies `worker.backend.Framework`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import torch

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import INPUT_BATCHES, check_batch, facts_of
from xla_sweeps.backends.torch.bench import TorchBench, draw, narrowed
from xla_sweeps.backends.torch.predict import PredictBench
from xla_sweeps.backends.torch.training import TrainBench
from xla_sweeps.errors import DeviceError
from xla_sweeps.schema.modes import Execution, Scenario, mode_of
from xla_sweeps.schema.trial import ReplicateJob, Trial
from xla_sweeps.worker.stand_in import stands_in

BENCHES: Mapping[Scenario, type[TorchBench]] = {
    Scenario.CALL: TorchBench,
    Scenario.PREDICT: PredictBench,
    Scenario.TRAIN_STEP: TrainBench,
}
"""The bench of each scenario."""


class Torch:
    """PyTorch, loaded; satisfies `worker.backend.Framework`."""

    def configure(self, trial: Trial) -> None:
        """Set TF32 and seeds for the whole process."""
        torch.backends.cuda.matmul.allow_tf32 = trial.tf32
        torch.backends.cudnn.allow_tf32 = trial.tf32
        keras.utils.set_random_seed(trial.seed)

    def environment(self) -> Mapping[str, Any]:
        """Versions and settings as PyTorch reports them."""
        return {
            "torch": str(torch.__version__),
            "keras": keras.__version__,
            "numpy": np.__version__,
            "tf32": torch.backends.cuda.matmul.allow_tf32,
            "threads": torch.get_num_threads(),
        }

    def device(self, trial: Trial) -> AbstractContextManager[object]:
        """Within it, what is built and called is on the trial's device."""
        device: AbstractContextManager[object] = keras.device(_device(trial))
        return device

    def build(self, job: ReplicateJob) -> TorchBench:
        """Build the model and place it and its inputs on the device."""
        trial, spec, device = job.trial, job.trial.model, _device(job.trial)
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
            device=device,
            built=built,
            facts=facts_of(trial, built),
            modes=job.modes,
        )
        count = INPUT_BATCHES + trial.batches - 1
        bench.inputs = [draw(built.inputs, trial.batch_size, rng, device) for _ in range(count)]
        if spec.weights == "random" and not job.adopts:
            bench.calibrate(rng)
        bench.begin()
        if any(mode_of(mode).execution is not Execution.EAGER for mode in job.modes):
            _start_compiler(device)
        return bench


def _start_compiler(device: str) -> None:
    """Pay what the first compilation of a process for a device pays, before any mode.

    Some 10 s on a CPU, whose compiler a GPU does not need.
    """
    with contextlib.suppress(Exception):  # a mode says what is wrong
        torch.compile(torch.sin)(torch.zeros(1, device=device))


def _device(trial: Trial) -> str:
    if not trial.on_accelerator or stands_in():
        return "cpu"
    if not torch.cuda.is_available():
        raise DeviceError(
            f"device={trial.device}: PyTorch {torch.__version__}, built for CUDA "
            f"{torch.version.cuda}, sees no GPU: pip install --force-reinstall torch"
        )
    return "cuda"
