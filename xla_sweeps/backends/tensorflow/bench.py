"""A model of TensorFlow, its inputs, and the outputs of eager execution; satisfies `Model`.

`Bench` is the scenario `call`; a scenario is a subclass that changes what differs.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.tensorflow import (
    devices,
    macs,
    memory,
    models,
    modes,
    synchronization,
)
from xla_sweeps.backends.tensorflow.hlo import Module
from xla_sweeps.backends.tensorflow.operations import compiled_inside, fingerprint
from xla_sweeps.errors import ConfigError
from xla_sweeps.measure import agreement, protocol, timing
from xla_sweeps.measure.failures import error_line
from xla_sweeps.schema.measurement import Agreement, Flag, Flagged, Phase
from xla_sweeps.schema.modes import Execution, Mode, mode_of
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import InputSpec, ReplicateJob, Trial
from xla_sweeps.worker.backend import Tell

INPUT_BATCHES = timing.INPUTS
REFERENCE_IMAGES = 2

_IMAGE_RANK = 3

_TRACED_CALLS = 2
"""Calls whose memory is traced: the second one frees what the first one has allocated."""

_TRACED_BATCHES = 4
"""Batches whose memory is traced at least, where a call has so many."""

_TRACED_S = 1.0
"""Tracing ends after so long, unless these batches take longer."""


@dataclass
class Bench:
    """The model on its device, its inputs, and the outputs that every mode must reproduce."""

    trial: Trial
    device: str
    built: models.BuiltModel
    facts: ModelFacts
    inputs: Sequence[Any] = ()
    eager: list[np.ndarray] = field(default_factory=list)
    """Outputs of eager execution on the first inputs."""
    later: list[list[np.ndarray]] = field(default_factory=list)
    """Outputs of eager execution on each batch after these, in the precision of the model."""
    deterministic: bool = True
    reference: list[np.ndarray] | None = None
    """Outputs in float64 for the first samples of the first inputs."""
    later_references: dict[int, list[np.ndarray]] = field(default_factory=dict)
    """The same for later inputs, by position; only where a mode needed them."""
    sync_by_reading: bool = False
    """Wait by reading a result, on a device where `sync_devices` does not wait."""
    seconds: dict[str, float] = field(default_factory=dict)

    step = staticmethod(models.forward_of)
    """Makes one call on a batch; raises `ConfigError` where the model lacks the scenario."""

    compared_inputs = INPUT_BATCHES
    """Inputs on which outputs are compared."""

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

    def begin(self) -> None:
        """Set up what needs the final weights."""

    def synchronization(self) -> Mapping[str, Any]:
        """The self-test of the synchronization; not needed on a CPU, where calls do not queue."""
        if "GPU" not in self.device:
            return dict(synchronization.TRIVIAL)
        sync = synchronization.self_test(map(mode_of, self.trial.modes))
        self.sync_by_reading = sync["by_reading"]
        return sync

    def run_eagerly(self, tell: Tell) -> None:
        """Compute what every mode must reproduce, before anything is traced."""
        if self.facts.eager_is_graph:
            tell(protocol.Caveat(Flagged(Flag.EAGER_IS_GRAPH)))
        self.call_eagerly(tell)

    def call_eagerly(self, tell: Tell) -> None:
        """Run the model eagerly on all inputs, on the first one twice."""
        first = eager_outputs(self.built, self.inputs[:1])
        self.eager = eager_outputs(self.built, self.inputs[: self.trial.batches])
        self.later = [
            native_outputs(self.built, batch) for batch in self.inputs[self.trial.batches :]
        ]
        again = [head[: len(once)] for once, head in zip(first, self.eager, strict=True)]
        self.deterministic = agreement.deterministic(first, again)

    def add_reference(self, tell: Tell, position: int = 0) -> bool:
        """Compute outputs of the same weights in float64, unless that was tried.

        Not where two eager runs differ: their random numbers would count as eager's own error, by
        which a mode's is judged.
        """
        if not self.deterministic:
            return False
        tried = "reference" in self.seconds
        if tried and (not position or self.reference is None or position in self.later_references):
            return False
        tell(protocol.Stage(phase=Phase.VERIFY, detail="float64 reference"))
        begun = time.perf_counter()
        try:
            if not tried:
                self.compute_reference()
            if position:
                self.later_references[position] = self.reference_of(position)
        except Exception as error:  # modes are then compared with eager only, and flagged
            traceback.print_exc()
            tell(protocol.Caveat(Flagged(Flag.NO_REFERENCE, note=error_line(error))))
        gc.collect()  # the float64 model, which would count as memory of the next mode
        spent_s = time.perf_counter() - begun
        self.seconds["reference"] = self.seconds.get("reference", 0.0) + spent_s
        return True

    def compute_reference(self) -> None:
        """Compute `reference`; raises what TensorFlow raises, or where dtypes are fixed."""
        self.reference = self.reference_of(0)

    def reference_of(self, position: int) -> list[np.ndarray]:
        """Outputs in float64 for the first samples of an input."""
        few = tf.nest.map_structure(lambda tensor: tensor[:REFERENCE_IMAGES], self.inputs[position])
        return models.float64_reference(self.trial.model, self.built, few)

    def eager_of(self, position: int) -> list[np.ndarray]:
        """Outputs of eager execution on the call that begins with this input, in float64."""
        if not position:
            return self.eager
        batches, size = self.trial.batches, self.trial.batch_size
        later = self.later[max(0, position - batches) : position]
        heads = []
        for place, head in enumerate(self.eager):
            parts = [head[position * size :]] if position < batches else []
            parts += [outputs[place].astype(np.float64) for outputs in later]
            heads.append(np.concatenate(parts) if len(parts) > 1 else parts[0])
        return heads

    def bind(self, mode: str) -> modes.ModeExecutable:
        """The model in a mode, as its scenario calls it."""
        executable = self.make(mode_of(mode))
        executable.sync_by_reading = self.sync_by_reading
        return executable

    def prove(self, executable: modes.ModeExecutable) -> Mapping[str, Any]:
        """Evidence of what is in force of a mode."""
        return executable.effective(device=self.device)

    def comparison(
        self, executable: modes.ModeExecutable, position: int = 0
    ) -> Callable[[], Agreement]:
        """Run what is to be verified of a mode; returns what compares it with eager.

        Of a later input than the first, the mode's last call is what is verified.
        """
        outputs = executable.last_outputs() if position else executable.outputs()
        return partial(self.compare, outputs, position)

    def compare(self, outputs: list[np.ndarray], position: int = 0) -> Agreement:
        """Compare a mode's outputs with those of eager, and with the float64 reference."""
        return agreement.compare(
            outputs,
            self.eager_of(position),
            self.later_references.get(position) if position else self.reference,
            precision=self.trial.precision,
            classes=self.trial.model.task == "classification",
            gpu="GPU" in self.device,
        )

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
                count = models.macs(self.built)
            else:
                module = Module.of(xla.function, xla.inputs[0])
                count = macs.count_macs(module).of_each(self.trial.batch_size)
            self.facts = replace(
                self.facts,
                macs=count.total,
                macs_note=macs.AT_LEAST_NOTE if count.at_least else "",
                macs_by_type=dict(count.by_type),
            )
        except Exception as error:
            traceback.print_exc()
            self.facts = replace(self.facts, macs_note=error_line(error))
        self.seconds["macs"] = time.perf_counter() - begun
        tell(protocol.Built(model=self.facts))

    def runs_away(self, executable: modes.ModeExecutable, calls: int) -> str:
        """Reason why calls in a row are no steady state; "" where they are."""
        return ""

    def reset_steady_memory(self) -> None:
        """Start `steady_memory_bytes` again."""
        memory.reset_peak(self.device)

    def steady_memory_bytes(self, executable: modes.ModeExecutable, *, call_s: float) -> int | None:
        """The most that the allocator had handed out since the reset, weights included.

        On a CPU without oneDNN it does not count. There two more calls are traced.
        """
        counted = memory.peak_bytes(self.device)
        if counted is not None:
            return counted

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
    built = models.build(spec, precision=trial.precision, seed=trial.seed, step=kind.step)
    _check_batch(built, trial)
    rng = np.random.default_rng(trial.seed)
    bench = kind(
        trial=trial,
        device=devices.tf_device(trial.device),
        built=built,
        facts=facts_of(trial, built),
    )
    bench.place(bench.drawn(rng))
    if spec.weights == "random":
        models.calibrate(built, models.draw(built.inputs, max(4, trial.batch_size), rng))
    bench.begin()
    return bench


def eager_outputs(built: models.BuiltModel, batches: Sequence[Any]) -> list[np.ndarray]:
    """Outputs of an eager call of each batch, together: one float64 array per head."""
    eager = modes.ModeExecutable.bind(built.call, Mode.EAGER, batches)
    outputs = [eager.outputs(index) for index in range(len(batches))]
    return [
        np.concatenate(parts) if len(parts) > 1 else parts[0]
        for parts in zip(*outputs, strict=True)
    ]


def native_outputs(built: models.BuiltModel, batch: Any) -> list[np.ndarray]:
    """Outputs of an eager call of a batch, one array per head, in their own precision."""
    modes.activate(Execution.EAGER)
    return [np.asarray(head) for head in tf.nest.flatten(built.call(batch))]


def _check_batch(built: models.BuiltModel, trial: Trial) -> None:
    if built.loaded.batch not in (None, trial.batch_size):
        raise ConfigError(
            f"batch_size={trial.batch_size}: {trial.model.name} was saved for batches of "
            f"{built.loaded.batch}; use batch_size={built.loaded.batch}"
        )


def facts_of(trial: Trial, built: models.BuiltModel) -> ModelFacts:
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
    return shape[-2] if len(inputs) == 1 and len(shape) in (_IMAGE_RANK, _IMAGE_RANK + 1) else 0
