"""Detection: the forward pass, decoding and non-max suppression in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.sources.inputs import nudge_batch
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.trial import ModelSpec
from xla_sweeps.worker.backend import Tell
from xla_sweeps.worker.detections import compare_detections


@dataclass
class DetectBench(Bench):
    """A detector whose boxes are compared.

    Attributes:
        nudged: eager outputs on the inputs changed by rounding, by position; computed when needed.
    """

    nudged: dict[int, list[np.ndarray]] = field(default_factory=dict)

    is_forward = False

    @staticmethod
    def step(loaded: LoadedModel, spec: ModelSpec) -> Callable[[Any], Any]:
        """The forward pass, and the boxes from it."""
        decode = loaded.decode
        if decode is None:
            raise ConfigError(
                f"scenario=detect: {spec.name} from source={spec.source} does not decode boxes"
            )
        return lambda batch: decode(loaded.forward(batch), batch)

    def add_reference(self, tell: Tell) -> bool:
        """None: detections are compared with eager only."""
        return False

    def compare(self, outputs: list[np.ndarray], position: int = 0) -> Agreement:
        """Compare boxes with those of eager, as far as rounding leaves them alone."""
        if position not in self.nudged:
            rng = np.random.default_rng(self.trial.seed)
            moved = nudge_batch(self.inputs[position], self.built.precision, rng)
            self.nudged[position] = self.eager_outputs([moved])
        return compare_detections(
            outputs, self.eager_of(position), self.nudged[position], precision=self.built.precision
        )
