"""PyTorch, loaded; satisfies `worker.backend.Framework`."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import torch

from xla_sweeps.backends.keras.framework import KerasFramework
from xla_sweeps.backends.torch.bench import ColdStartBench, NewShapesBench, PredictBench, TorchBench
from xla_sweeps.backends.torch.training import TrainBench
from xla_sweeps.errors import DeviceError
from xla_sweeps.schema.modes import Execution, Scenario, mode_of
from xla_sweeps.schema.trial import ReplicateJob, Trial
from xla_sweeps.system.installation import install
from xla_sweeps.worker.stand_in import stands_in


class Torch(KerasFramework[TorchBench]):
    """PyTorch, loaded."""

    benches: ClassVar = {
        Scenario.CALL: TorchBench,
        Scenario.PREDICT: PredictBench,
        Scenario.TRAIN_STEP: TrainBench,
        Scenario.COLD_START: ColdStartBench,
        Scenario.NEW_SHAPES: NewShapesBench,
    }

    def configure(self, trial: Trial) -> None:
        """Set TF32 and seeds for the whole process."""
        torch.backends.cuda.matmul.allow_tf32 = trial.tf32
        torch.backends.cudnn.allow_tf32 = trial.tf32
        super().configure(trial)

    def environment(self) -> dict[str, Any]:
        """Versions and settings as PyTorch reports them."""
        return {
            "torch": str(torch.__version__),
            **super().environment(),
            "tf32": torch.backends.cuda.matmul.allow_tf32,
            "threads": torch.get_num_threads(),
        }

    def name_of_device(self, trial: Trial) -> str:
        """The trial's device as PyTorch names it."""
        if not trial.on_accelerator or stands_in():
            return "cpu"
        if not torch.cuda.is_available():
            raise DeviceError(
                f"device={trial.device}: PyTorch {torch.__version__}, built for CUDA "
                f"{torch.version.cuda}, sees no GPU: {install('torch', again=True)}"
            )
        return "cuda"

    def start_compiler(self, job: ReplicateJob) -> None:
        """Pay what the first compilation of a process for a device pays, before any mode.

        Some 10 s on a CPU, whose compiler a GPU does not need.
        """
        if all(mode_of(mode).execution is Execution.EAGER for mode in job.modes):
            return
        with contextlib.suppress(Exception):  # a mode says what is wrong
            torch.compile(torch.sin)(torch.zeros(1, device=self.name_of_device(job.trial)))
