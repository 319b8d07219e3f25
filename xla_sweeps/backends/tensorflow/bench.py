"""A model of TensorFlow, its inputs, and the outputs of eager execution; satisfies `Model`.

A scenario is a subclass that changes what differs.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import (
    INPUT_BATCHES,
    TRIVIAL_SYNCHRONIZATION,
    KerasBench,
    busy_side,
    check_batch,
    facts_of,
)
from xla_sweeps.backends.keras.mac_count import AT_LEAST_NOTE
from xla_sweeps.backends.keras.macs import count_macs
from xla_sweeps.backends.tensorflow import (
    devices,
    memory,
    models,
    modes,
    synchronization,
)
from xla_sweeps.backends.tensorflow.operations import compiled_inside, fingerprint, lowered
from xla_sweeps.schema.measurement import Flag, Flagged, Phase
from xla_sweeps.schema.modes import Execution, Mode, mode_of
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker.backend import Tell

_TRACED_CALLS = 2
"""Calls whose memory is traced: the second one frees what the first one has allocated."""

_TRACED_BATCHES = 4
"""Batches whose memory is traced at least, where a call has so many."""

_TRACED_S = 1.0
"""Tracing ends after so long, unless these batches take longer."""


@dataclass
class Bench(KerasBench[modes.ModeExecutable]):
    """The scenario `call` in TensorFlow."""

    sync_by_reading: bool = False
    """Wait by reading a result, on a device where `sync_devices` does not wait."""

    not_counted_bytes: int = 0
    """What the device's allocator does not count of what is kept; see `note_kept`."""

    def make(self, mode: Mode) -> modes.ModeExecutable:
        """Bind the model to a mode; graph modes are traced here."""
        return modes.ModeExecutable.bind(self.built.call, mode, self.inputs)

    def drawn(self, rng: np.random.Generator) -> list[Any]:
        """Batches as the model takes them."""
        count = INPUT_BATCHES + self.trial.batches - 1
        return [models.draw(self.built.inputs, self.trial.batch_size, rng) for _ in range(count)]

    def place(self, batches: Sequence[Any]) -> None:
        """Place what `drawn` returned on the device, as `inputs`."""
        self.inputs = tf.nest.map_structure(
            lambda tensor: models.placed(tensor, self.device), batches
        )

    def calibrate(self, rng: np.random.Generator) -> None:
        """Give the model activations of order 1, by a batch that is not timed."""
        count = max(4, self.trial.batch_size)
        building.calibrate(self.built, models.draw(self.built.inputs, count, rng))

    def synchronization(self) -> Mapping[str, Any]:
        """The self-test of the synchronization; not needed on a CPU, where calls do not queue."""
        if not self.trial.on_accelerator:
            return TRIVIAL_SYNCHRONIZATION
        sync = synchronization.self_test(map(mode_of, self.modes), side=busy_side(self.trial))
        self.sync_by_reading = sync["by_reading"]
        return sync

    def eagerly(self, batch: Any) -> list[np.ndarray]:
        """Outputs of an eager call of a batch: one float64 array per head."""
        return modes.ModeExecutable.bind(self.built.call, Mode.EAGER, [batch]).outputs()

    def natively(self, batch: Any) -> list[np.ndarray]:
        """The same in the precision of the model."""
        modes.activate(Execution.EAGER)
        return [np.asarray(head) for head in tf.nest.flatten(self.built.call(batch))]

    def float64_outputs(self, few: Any) -> list[np.ndarray]:
        """Outputs of the same weights in float64."""
        return models.float64_reference(self.trial.model, self.built, few)

    def op_by_op(self) -> AbstractContextManager[None]:
        """Within it, each `tf.function` in the model runs as the Python that it is."""
        return modes.op_by_op()

    def bind(self, mode: str) -> modes.ModeExecutable:
        """The model in a mode, as its scenario calls it."""
        executable = self.make(mode_of(mode))
        executable.sync_by_reading = self.sync_by_reading
        return executable

    def prove(self, executable: modes.ModeExecutable) -> Mapping[str, Any]:
        """Evidence of what is in force of a mode."""
        return executable.effective(device=self.device)

    def note_build(self, executable: modes.ModeExecutable, tell: Tell) -> None:
        """Note what was built, from the first mode that is traced, and what graph mode made of it.

        Graphs that Keras traced have its own operations too, and do not count.
        """
        concrete, traced = executable.concrete, executable.trace_s is not None
        execution = executable.mode.execution
        if traced and execution is Execution.GRAPH:
            self.facts = replace(self.facts, graph_operations=executable.operations)
        if traced and not self.facts.fingerprint:
            try:
                self.facts = replace(self.facts, fingerprint=fingerprint(concrete))
            except Exception:  # a graph of more than 2 GiB; its parameters still tell models apart
                traceback.print_exc()
            tell(protocol.Built(model=self.facts))
        if concrete is not None and compiled_inside(concrete):
            tell(protocol.Caveat(Flagged(Flag.CONTAINS_XLA)))
        if traced and execution is Execution.XLA:
            self.count_macs(tell, executable)

    def count_macs(self, tell: Tell, xla: modes.ModeExecutable | None = None) -> None:
        """Count multiply-accumulates in the XLA mode's HLO, or without that mode in the model's."""
        if self.facts.macs is not None:
            return
        tell(protocol.Stage(phase=Phase.VERIFY, detail="multiply-accumulates"))
        begun = time.perf_counter()
        try:
            if xla is None:
                count = models.macs(self.built, self.device)
            else:
                module = lowered(xla.function, xla.inputs[0])
                count = count_macs(module).of_each(self.trial.batch_size)
            self.facts = replace(
                self.facts,
                macs=count.total,
                macs_note=AT_LEAST_NOTE if count.at_least else "",
                macs_by_type=dict(count.by_type),
            )
        except Exception as error:
            traceback.print_exc()
            self.facts = replace(self.facts, macs_note=error_line(error))
        self.seconds["macs"] = time.perf_counter() - begun
        tell(protocol.Built(model=self.facts))

    def reset_steady_memory(self) -> None:
        """Start `steady_memory_bytes` again."""
        memory.reset_peak(self.device)

    def steady_memory_bytes(self, executable: modes.ModeExecutable, *, call_s: float) -> int | None:
        """The most that the allocator had handed out since the reset, with all that is kept.

        On a CPU without oneDNN it does not count. There two more calls are traced.
        """
        peak = memory.counted_bytes(self.device, "peak")
        if peak is not None:
            return peak + self.not_counted_bytes

        def calls() -> None:
            for _ in range(_TRACED_CALLS):
                executable.step()
            executable.synchronize()
            executable.last = None

        at_most_s = max(_TRACED_S, _TRACED_BATCHES * call_s / self.trial.batches)
        try:
            traced = memory.traced_bytes(calls, at_most_s=at_most_s)
        except Exception:  # the mode is measured all the same
            traceback.print_exc()
            return None
        return traced + memory.bytes_of(self.kept())

    def note_kept(self) -> None:
        """Note what the allocator does not count of `kept`, before any mode is built.

        On a CPU a weight from NumPy may lie in memory that is not the allocator's, and a large one
        counts as the free piece that it was given.
        """
        counted = memory.counted_bytes(self.device, "current")
        self.not_counted_bytes = memory.bytes_of(self.kept()) - (counted or 0)

    def kept(self) -> list[Any]:
        """Variables and tensors that stay on the device between calls, whatever the mode."""
        return [*self.built.loaded.variables, *tf.nest.flatten(list(self.inputs))]


def build(job: ReplicateJob, kind: type[Bench]) -> Bench:
    """Build the model and place it and its inputs on the trial's device.

    Args:
        job: names the trial.
        kind: the bench of its scenario.
    """
    trial, spec = job.trial, job.trial.model
    built = models.build(
        spec,
        precision=trial.precision,
        seed=trial.seed,
        step=kind.step,
        batch_size=trial.batch_size,
    )
    check_batch(built, trial)
    rng = np.random.default_rng(trial.seed)
    bench = kind(
        trial=trial,
        device=devices.tf_device(trial.device),
        built=built,
        facts=facts_of(trial, built),
        modes=job.modes,
    )
    bench.place(bench.drawn(rng))
    if spec.weights == "random" and not job.adopts:
        bench.calibrate(rng)
    bench.begin()
    bench.note_kept()
    return bench
