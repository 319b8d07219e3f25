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

from xla_sweeps.backends.tensorflow import devices, modes
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.scenarios import keras_jit
from xla_sweeps.schema.modes import Entry, ExecutionMode, entry_of

COPIES = 10
"""Copies that are timed alone, in each direction."""

_INSIDE = {
    ExecutionMode.CALL_HOST: ExecutionMode.EAGER,
    ExecutionMode.GRAPH_HOST: ExecutionMode.GRAPH,
    ExecutionMode.XLA_HOST: ExecutionMode.XLA,
}
"""What executes the model in the modes that take NumPy."""

_JIT = {"": keras_jit.UNCOMPILED, "auto": "auto", "graph": False, "xla": True}
"""What Keras's `jit_compile` is in a mode, by the word after its entry."""


@dataclass
class Repeated(modes.ModeExecutable):
    """A call runs the model on several batches, one after the other."""

    given: Sequence[Any] = ()
    """What `run` takes: batches on the device, NumPy batches, or all of a call's in one array."""
    times: int = 1
    """How often a call runs it."""
    from_host: bool = False
    """Whether `given` is NumPy."""

    def step(self) -> None:
        """Start one call, on the inputs from the next one on."""
        self.last = [self.run(item) for item in self._of_call(self.position)]
        self.position = (self.position + 1) % len(self.given)

    def outputs(self, position: int = 0) -> list[np.ndarray]:
        """Outputs of the call on the inputs from `position` on: one float64 array per head."""
        self.prepare()
        calls = [tf.nest.flatten(self.run(item)) for item in self._of_call(position)]
        return [
            np.concatenate([np.asarray(tf.cast(head, tf.float64)) for head in heads])
            for heads in zip(*calls, strict=True)
        ]

    def placement(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Where a call ran; outputs in NumPy do not say so, so that the function is called."""
        if self.function is not None:
            self.last = self.function(self.inputs[0])
        return super().placement(device)

    def copies_s(self) -> dict[str, float]:
        """Median seconds of copying a call's input to the device, and its output to NumPy."""
        if not self.from_host:
            return {}
        call = self.function or self.run
        into, out = [], []
        for index in range(COPIES):
            started = time.perf_counter()
            for item in self._of_call(index % len(self.given)):
                tf.nest.map_structure(tf.convert_to_tensor, item)
            devices.synchronize()
            into.append(time.perf_counter() - started)
            # New outputs each time: TensorFlow keeps the copy of a tensor that was read.
            results = [call(batch) for batch in self.inputs[: self.times]]
            devices.synchronize()
            started = time.perf_counter()
            tf.nest.map_structure(np.array, results)
            out.append(time.perf_counter() - started)
        return {"input": statistics.median(into), "output": statistics.median(out)}

    def _of_call(self, position: int) -> Sequence[Any]:
        if self.times == 1:
            return (self.given[position],)
        count = len(self.given)
        return [self.given[(position + index) % count] for index in range(self.times)]


@dataclass
class KerasCalls(Repeated):
    """`predict` or `predict_on_batch` of a model with its own setting of `jit_compile`."""

    model: Any = None
    asked: Any = None

    def placement(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Where the operations of the first call ran."""
        return keras_jit.placement(self.places, device)

    def compilation(self) -> tuple[dict[str, Any], list[str]]:
        """What Keras made of `jit_compile`."""
        self.function = self.model.predict_function
        functions = keras_jit.concrete_functions(self.function)
        found, problems = keras_jit.evidence(self.model, functions, self.asked)
        if not found["jit_compile"]:  # what XLA compiles in it, the model brings
            self.concrete = next(iter(functions), None)
        return found, problems


def make_executable(bench: Bench, mode: ExecutionMode) -> modes.ModeExecutable:
    """Bind the model to a mode; Keras's modes are traced in their first call."""
    entry, call, batches = entry_of(mode), bench.built.call, bench.trial.batches
    if entry in (Entry.PREDICT, Entry.PREDICT_ON_BATCH):
        return _keras_calls(bench, mode, entry)
    inside = _INSIDE.get(mode, mode)
    plain = modes.make_executable(call, inside, bench.inputs)
    if inside is mode and batches == 1:
        return plain
    function, from_host = plain.run, inside is not mode
    reads = from_host and inside is not ExecutionMode.EAGER
    return Repeated(
        mode=inside,
        run=(lambda batch: tf.nest.map_structure(_read, function(batch))) if reads else function,
        inputs=bench.inputs,
        function=plain.function,
        concrete=plain.concrete,
        trace_s=plain.trace_s,
        given=_host_batches(bench, batches=1) if from_host else bench.inputs,
        times=batches,
        from_host=from_host,
    )


def _keras_calls(bench: Bench, mode: ExecutionMode, entry: Entry) -> KerasCalls:
    word, _, steps = mode.removeprefix(entry).removeprefix("_").partition("_")
    model = keras_jit.wrapped(bench.built.loaded.keras_model, bench.built.call)
    asked, batches, size = _JIT[word], bench.trial.batches, bench.trial.batch_size
    if asked != keras_jit.UNCOMPILED:
        model.compile(jit_compile=asked, steps_per_execution=batches if steps else 1)
    whole = entry is Entry.PREDICT
    return KerasCalls(
        mode=mode,
        run=(lambda samples: model.predict(samples, batch_size=size, verbose=0))
        if whole
        else model.predict_on_batch,
        inputs=bench.inputs,
        given=_host_batches(bench, batches=batches if whole else 1),
        times=1 if whole else batches,
        model=model,
        asked=asked,
    )


def _host_batches(bench: Bench, *, batches: int) -> list[Any]:
    """The inputs in NumPy, so many batches in each; they share their memory."""
    if not bench.samples:
        flat = zip(*map(tf.nest.flatten, bench.inputs), strict=True)
        bench.samples = tuple(np.concatenate(list(map(np.asarray, parts))) for parts in flat)
    size, structure = bench.trial.batch_size, bench.inputs[0]
    starts = range(0, (len(bench.inputs) - batches + 1) * size, size)
    return [
        tf.nest.pack_sequence_as(
            structure, [array[start : start + batches * size] for array in bench.samples]
        )
        for start in starts
    ]


def _read(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.numpy())
