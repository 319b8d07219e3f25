"""Keras's `predict` and `predict_on_batch`, and what people call instead, on the same samples.

One timed call handles `batches` batches: one `predict` gets them all, the other ways loop over
them. `verbose=0` throughout.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.predict import Predicting
from xla_sweeps.backends.keras.sources.inputs import mix_inputs
from xla_sweeps.backends.tensorflow import devices, modes
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.scenarios import keras_jit
from xla_sweeps.backends.tensorflow.scenarios.keras_jit import KerasExecutable
from xla_sweeps.schema.measurement import INPUTS
from xla_sweeps.schema.modes import Entry, Execution, Mode

COPIES = 10
"""Copies that are timed alone, in each direction."""

FEWEST_COPIES = 2

COPYING_S = 1.0
"""Seconds after which no more than the fewest are: each needs a call, which may be long."""


@dataclass
class Repeated(modes.ModeExecutable):
    """A call runs the model on several batches, one after the other."""

    given: Sequence[Any] = ()
    """Inputs of `run`: batches on the device, NumPy batches, or all of a call's in one array."""
    times: int = 1
    """Number of runs in a call."""
    from_host: bool = False
    """True if `given` is NumPy."""

    takes_numpy = True

    def step(self) -> None:
        """Start one call, on the inputs from the next one on."""
        self.last = [self.run(batch) for batch in self._of_call(self.position)]
        self.position = (self.position + 1) % INPUTS

    def renew(self) -> bool:
        """Replace the inputs of `run` by new ones."""
        self.unmixed = self.unmixed or self.given
        self.given = mix_inputs(self.unmixed, select=self.select)
        return True

    def outputs(self, position: int = 0) -> list[np.ndarray]:
        """Outputs of the call on the inputs from `position` on: one array per head."""
        self.prepare()
        return self._join([self.run(batch) for batch in self._of_call(position)])

    def last_outputs(self) -> list[np.ndarray]:
        """Outputs of the last call, of all its batches: one array per head."""
        return self._join(self.last)

    def _join(self, calls: Sequence[Any]) -> list[np.ndarray]:
        return [np.concatenate(parts) for parts in zip(*map(self.read, calls), strict=True)]

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of where a call ran and what compiled it.

        Outputs in NumPy do not tell the place, so the function is called.
        """
        if self.function is not None:
            self.last = self.function(self.inputs[0])
        return super().proof(device)

    def extras(self) -> dict[str, Any]:
        """Median seconds of copying a call's input to the device, and its output to NumPy."""
        if not self.from_host:
            return {}
        call = self.function or self.run
        into, out = [], []
        began = time.perf_counter()
        for index in range(COPIES):
            if index >= FEWEST_COPIES and time.perf_counter() - began > COPYING_S:
                break
            started = time.perf_counter()
            for batch in self._of_call(index % len(self.given)):
                tf.nest.map_structure(tf.convert_to_tensor, batch)
            devices.synchronize()
            into.append(time.perf_counter() - started)
            # New outputs each time: TensorFlow keeps the copy of a tensor that was read.
            results = [call(batch) for batch in self.inputs[: self.times]]
            devices.synchronize()
            started = time.perf_counter()
            tf.nest.map_structure(np.array, results)
            out.append(time.perf_counter() - started)
        copies_s = {"input": statistics.median(into), "output": statistics.median(out)}
        return {"copies_s": copies_s}

    def _of_call(self, position: int) -> Sequence[Any]:
        if self.times == 1:
            return (self.given[position],)
        count = len(self.given)
        return [self.given[(position + index) % count] for index in range(self.times)]


@dataclass
class KerasCalls(KerasExecutable, Repeated):
    """`predict` or `predict_on_batch` of a model with its own setting of `jit_compile`."""


class PredictBench(Predicting[modes.ModeExecutable], Bench):
    """Batches that start in NumPy, or lie on the device."""

    def make(self, mode: Mode) -> modes.ModeExecutable:
        """Bind the model to a mode; Keras's modes are traced in their first call."""
        if mode.entry.is_method:
            return self._keras_calls(mode)
        batches, from_host = self.trial.batches, mode.entry is Entry.HOST
        if not from_host and batches == 1:
            return Bench.make(self, mode)
        executable = Repeated.bind(
            self.built.call,
            mode,
            self.inputs,
            given=self.host_batches(batches=1) if from_host else self.inputs,
            times=batches,
            from_host=from_host,
        )
        if from_host and (function := executable.function) is not None:
            executable.run = lambda batch: tf.nest.map_structure(_read, function(batch))
        return executable

    def _keras_calls(self, mode: Mode) -> KerasCalls:
        model = building.wrap_model(self.built.loaded.keras_model, self.built.call)
        batches, size = self.trial.batches, self.trial.batch_size
        if mode.execution is not Execution.UNCOMPILED:
            model.compile(
                jit_compile=keras_jit.JIT_COMPILE[mode.execution],
                steps_per_execution=batches if mode.steps else 1,
            )
        whole = mode.entry is Entry.PREDICT
        return KerasCalls(
            mode=mode,
            run=(lambda samples: model.predict(samples, batch_size=size, verbose=0))
            if whole
            else model.predict_on_batch,
            inputs=self.inputs,
            given=self.host_batches(batches=batches if whole else 1),
            times=1 if whole else batches,
            model=model,
            made="predict_function",
        )


def _read(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.numpy())
