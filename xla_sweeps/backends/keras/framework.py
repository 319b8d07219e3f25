"""A framework that runs Keras models, loaded: what is the same of each engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

import keras
import numpy as np

from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.sources.inputs import as_batch
from xla_sweeps.config.own_inputs import values_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.measurement import OWN_INPUT
from xla_sweeps.schema.modes import SCENARIOS, Scenario
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import InputSpec, ReplicateJob, Trial

B = TypeVar("B", bound=KerasBench[Any])


class KerasFramework(ABC, Generic[B]):
    """A framework, loaded; satisfies `worker.backend.Framework`."""

    benches: ClassVar[Mapping[Scenario, type[Any]]]
    """The bench of each scenario that it runs."""

    @abstractmethod
    def name_of_device(self, trial: Trial) -> str:
        """The trial's device as the engine names it; `DeviceError` if it does not see it."""

    def device(self, trial: Trial) -> AbstractContextManager[object]:
        """Context in which the trial's device builds and calls models."""
        device: AbstractContextManager[object] = keras.device(self.name_of_device(trial))
        return device

    def configure(self, trial: Trial) -> None:
        """Set the seeds of the whole process."""
        keras.utils.set_random_seed(trial.seed)

    def environment(self) -> dict[str, Any]:
        """Versions as the libraries report them."""
        return {"keras": keras.__version__, "numpy": np.__version__}

    def build(self, job: ReplicateJob) -> B:
        """Build the model and place it and its inputs on the device.

        `ConfigError` if the model does not take the trial's batch size.
        """
        trial = job.trial
        kind = self.benches[trial.scenario]
        built = kind.build_model(trial)
        if built.loaded.batch not in (None, trial.batch_size):
            raise ConfigError(
                f"batch_size={trial.batch_size}: {trial.model.name} was saved for batches of "
                f"{built.loaded.batch}; use batch_size={built.loaded.batch}"
            )
        rng = np.random.default_rng(trial.seed)
        bench: B = kind(
            trial=trial,
            device=self.name_of_device(trial),
            built=built,
            facts=facts_of(trial, built),
            modes=job.modes,
            adopts=job.adopts,
        )
        batches = bench.draw_batches(rng)
        own = trial.model.recipe.get("inputs")
        if own and not trial.data:
            batches[OWN_INPUT] = as_batch(values_of(own, built.inputs), built.inputs)
        bench.place(batches)
        if trial.model.weights == "random" and not job.adopts:
            bench.calibrate(rng)
        bench.begin()
        if not SCENARIOS[trial.scenario].starts_processes:
            self.start_compiler(job)
        return bench

    def start_compiler(self, job: ReplicateJob) -> None:
        """Pay what the first compilation of a process pays, before any mode, if it is much."""


def facts_of(trial: Trial, built: BuiltModel) -> ModelFacts:
    """Facts of the model before it is traced."""
    loaded, asked = built.loaded, ModelFacts.of(trial.model)
    return replace(
        asked,
        resolution_px=asked.resolution_px or _side(built.inputs),
        params=built.params,
        trainable_params=built.trainable_params,
        eager_is_graph=loaded.eager_is_graph,
        replica_of=loaded.replica_of,
        inputs=tuple(f"{given.name}{list(given.shape)} {given.dtype}" for given in built.inputs),
    )


def _side(inputs: Sequence[InputSpec]) -> int:
    """Side of the image that a model takes, px; 0 if its input is not one image."""
    shape = inputs[0].shape
    return shape[-2] if len(inputs) == 1 and len(shape) in (3, 4) else 0
