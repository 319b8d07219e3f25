"""A framework that runs Keras models, loaded: what is the same of each engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import keras
import numpy as np

from xla_sweeps.backends.keras.bench import KerasBench, build
from xla_sweeps.schema.scenarios import SCENARIOS, Scenario
from xla_sweeps.schema.trial import ReplicateJob, Trial

B = TypeVar("B", bound=KerasBench[Any])


class KerasFramework(ABC, Generic[B]):
    """A framework, loaded; satisfies `worker.backend.Framework` with a `device`."""

    benches: ClassVar[Mapping[Scenario, type[Any]]]
    """The bench of each scenario that it runs."""

    @abstractmethod
    def name_of_device(self, trial: Trial) -> str:
        """The trial's device as the engine names it.

        Raises:
            DeviceError: the engine does not see it.
        """

    def configure(self, trial: Trial) -> None:
        """Set the seeds of the whole process."""
        keras.utils.set_random_seed(trial.seed)

    def environment(self) -> dict[str, Any]:
        """Versions as the libraries report them."""
        return {"keras": keras.__version__, "numpy": np.__version__}

    def build(self, job: ReplicateJob) -> B:
        """Build the model and place it and its inputs on the device."""
        kind = self.benches[job.trial.scenario]
        bench: B = build(job, kind, device=self.name_of_device(job.trial))
        if not SCENARIOS[job.trial.scenario].starts_processes:
            self.start_compiler(job)
        return bench

    def start_compiler(self, job: ReplicateJob) -> None:
        """Pay what the first compilation of a process pays, before any mode, if it is much."""
