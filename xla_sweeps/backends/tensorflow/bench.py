"""A model of TensorFlow, its inputs, and the outputs of eager execution; satisfies `Model`."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.tensorflow import devices, macs, models, modes, synchronization
from xla_sweeps.backends.tensorflow.fingerprint import fingerprint
from xla_sweeps.backends.tensorflow.pictures import Feed
from xla_sweeps.backends.tensorflow.training import Trainer
from xla_sweeps.errors import ConfigError
from xla_sweeps.measure import agreement, protocol, timing
from xla_sweeps.measure.failures import error_line
from xla_sweeps.schema.measurement import Agreement, Flag, Flagged, Phase
from xla_sweeps.schema.modes import ExecutionMode, Scenario, mode_of
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import Counted, InputSpec, ReplicateJob, Trial

INPUT_BATCHES = 1 + timing.NEW_INPUTS
REFERENCE_IMAGES = 2

NUDGE = 1e-6
"""Relative change of the inputs, as small as rounding."""

_IMAGE_RANK = 3

Tell = Callable[[protocol.Event], None]


@dataclass
class Bench:
    """The model on its device, its inputs, and the outputs that every mode must reproduce."""

    trial: Trial
    device: str
    built: models.BuiltModel
    inputs: Sequence[Any]
    facts: ModelFacts
    counted: Counted | None
    make: Callable[[Any, ExecutionMode], modes.ModeExecutable]
    """Binds this bench to a mode, as the trial's scenario calls the model."""
    eager: list[np.ndarray] = field(default_factory=list)
    deterministic: bool = True
    reference: list[np.ndarray] | None = None
    nudged: list[np.ndarray] | None = None
    """Eager outputs on the first inputs changed by rounding; computed only for detections."""
    trainer: Trainer | None = None
    """What every mode trains, in scenarios that do."""
    sync_by_reading: bool = False
    """Wait by reading a result, on a device where `sync_devices` does not wait."""
    samples: tuple[np.ndarray, ...] = ()
    """All inputs in NumPy, one array for each of the model's; empty until a mode takes them."""
    seconds: dict[str, float] = field(default_factory=dict)

    def synchronization(self) -> Mapping[str, Any]:
        """The self-test of the synchronization; not needed on a CPU, where calls do not queue."""
        if "GPU" not in self.device:
            return dict(synchronization.TRIVIAL)
        sync = synchronization.self_test(map(mode_of, self.trial.modes))
        self.sync_by_reading = sync["by_reading"]
        return sync

    def run_eagerly(self, tell: Tell) -> None:
        """Run the model eagerly twice, before anything is traced."""
        if self.facts.eager_is_graph:
            tell(protocol.Caveat(Flagged(Flag.EAGER_IS_GRAPH)))
        if self.trainer:
            self.deterministic = self.trainer.run_eagerly()
            if self.trainer.random_layers:
                tell(protocol.Caveat(Flagged(Flag.RANDOM_LAYERS)))
            return
        first = eager_outputs(self.built, self.inputs[:1])
        self.eager = eager_outputs(self.built, self.inputs[: self.trial.batches])
        again = [head[: len(once)] for once, head in zip(first, self.eager, strict=True)]
        self.deterministic = agreement.deterministic(first, again)

    def add_reference(self, tell: Tell) -> bool:
        """Compute outputs of the same weights in float64, unless that was tried.

        Detections are compared with eager only.
        """
        if "reference" in self.seconds or self.trial.scenario is Scenario.DETECT:
            return False
        tell(protocol.Stage(phase=Phase.VERIFY, detail="float64 reference"))
        begun = time.perf_counter()
        try:
            if self.trainer:
                self.trainer.add_reference(self.trial, self.built)
            else:
                few = tf.nest.map_structure(
                    lambda tensor: tensor[:REFERENCE_IMAGES], self.inputs[0]
                )
                self.reference = models.float64_reference(self.trial.model, self.built, few)
        except Exception as error:  # modes are then compared with eager only, and flagged
            traceback.print_exc()
            tell(protocol.Caveat(Flagged(Flag.NO_REFERENCE, note=error_line(error))))
        gc.collect()  # the float64 model, which would count as memory of the next mode
        self.seconds["reference"] = time.perf_counter() - begun
        return True

    def bind(self, mode: str) -> modes.ModeExecutable:
        """The model in a mode, as its scenario calls it; graph modes are traced here."""
        executable = self.make(self, mode_of(mode))
        executable.sync_by_reading = self.sync_by_reading
        return executable

    def prove(self, executable: modes.ModeExecutable) -> Mapping[str, Any]:
        """What is really in force of a mode."""
        return executable.effective(device=self.device)

    def comparison(self, executable: modes.ModeExecutable) -> Callable[[], Agreement]:
        """Run what is to be verified of a mode; returns what compares it with what is known."""
        if executable.mode is ExecutionMode.INPUT:  # it computes nothing that could be wrong
            return partial(Agreement, rmse_rel=None, top1_match=None, ok=True)
        if self.trainer:
            again = partial(self.make, self, executable.mode)
            return partial(self.trainer.compare, self.trainer.first_steps(executable, again))
        return partial(self._compare, executable.outputs())

    def _compare(self, outputs: list[np.ndarray]) -> Agreement:
        if self.trial.scenario is Scenario.DETECT:
            if self.nudged is None:
                nudged = tf.nest.map_structure(lambda tensor: tensor * (1 + NUDGE), self.inputs[0])
                self.nudged = eager_outputs(self.built, [nudged])
            return agreement.compare_detections(
                outputs, self.eager, self.nudged, precision=self.trial.precision
            )
        return agreement.compare(
            outputs,
            self.eager,
            self.reference,
            precision=self.trial.precision,
            classes=self.trial.model.task == "classification",
        )

    def note_build(self, executable: modes.ModeExecutable, tell: Tell) -> None:
        """Note what was built, from the first mode that is traced, and what graph mode made of it.

        Under XLA, multiply-accumulates of a forward pass are counted.
        """
        concrete = executable.concrete
        if executable.mode is ExecutionMode.GRAPH:
            self.facts = replace(self.facts, graph_operations=executable.operations)
        if concrete is not None and not self.facts.fingerprint:
            try:
                self.facts = replace(self.facts, fingerprint=fingerprint(concrete))
            except Exception:  # a graph of more than 2 GiB; its parameters still tell models apart
                traceback.print_exc()
            tell(protocol.Built(model=self.facts))
        if concrete is not None and models.library_functions_with_xla(concrete):
            tell(protocol.Caveat(Flagged(Flag.CONTAINS_XLA)))
        if executable.mode is ExecutionMode.XLA and not self.trainer:
            self.count_macs(tell, executable)

    def count_macs(self, tell: Tell, xla: modes.ModeExecutable | None = None) -> None:
        """Count multiply-accumulates in the XLA mode's HLO, or without that mode in the model's.

        What an earlier replicate counted of the same build is taken instead.
        """
        if self.facts.macs is not None:
            return
        tell(protocol.Stage(phase=Phase.VERIFY, detail="multiply-accumulates"))
        begun, known = time.perf_counter(), self.counted
        counted: dict[str, Any]
        try:
            if known and (known.params, known.fingerprint) == (
                self.facts.params,
                self.facts.fingerprint,
            ):
                counted = asdict(known)
            else:
                count = (
                    macs.count_macs(modes.hlo_text(xla)).of_each(self.trial.batch_size)
                    if xla
                    else models.macs(self.built)
                )
                counted = {
                    "macs": count.total,
                    "macs_note": macs.AT_LEAST_NOTE if count.at_least else "",
                    "macs_by_type": dict(count.by_type),
                }
        except Exception as error:
            traceback.print_exc()
            counted = {"macs_note": error_line(error)}
        self.seconds["macs"] = time.perf_counter() - begun
        self.facts = replace(self.facts, **counted)
        tell(protocol.Built(model=self.facts))

    def runs_away(self, executable: modes.ModeExecutable, calls: int) -> str:
        """Why calls in a row are no training: the loss is not finite at their end; else ""."""
        return self.trainer.runs_away(executable, calls) if self.trainer else ""

    def reset_steady_memory(self) -> None:
        """Start `steady_memory_bytes` again."""
        devices.reset_steady_memory(self.device)

    def steady_memory_bytes(self) -> int | None:
        """The most that the allocator had handed out since the reset."""
        return devices.steady_memory_bytes(self.device)


def build(job: ReplicateJob, make: Callable[[Any, ExecutionMode], modes.ModeExecutable]) -> Bench:
    """Build the model and place it and its inputs on the trial's device; see `Bench.make`."""
    trial, spec = job.trial, job.trial.model
    built = models.build(spec, precision=trial.precision, seed=trial.seed, scenario=trial.scenario)
    _check_batch(built, trial)
    rng = np.random.default_rng(trial.seed)
    device = devices.tf_device(trial.device)
    feed = Feed(trial, built.inputs) if trial.training and trial.training.data else None
    given = feed.first(INPUT_BATCHES) if feed else _drawn(built, trial, rng)
    placed = tf.nest.map_structure(lambda tensor: models.placed(tensor, device), given)
    batches, labels = map(list, zip(*placed, strict=True)) if feed else (placed, [])
    if spec.weights == "random":
        models.calibrate(built, models.draw(built.inputs, max(4, trial.batch_size), rng))
    trainer = Trainer(built, trial, batches, feed=feed, labels=labels) if trial.training else None
    return Bench(
        trial=trial,
        device=device,
        built=built,
        inputs=batches,
        facts=facts_of(trial, built),
        counted=job.counted,
        make=make,
        trainer=trainer,
    )


def _drawn(built: models.BuiltModel, trial: Trial, rng: np.random.Generator) -> list[Any]:
    count = INPUT_BATCHES + trial.batches - 1
    return [models.draw(built.inputs, trial.batch_size, rng) for _ in range(count)]


def eager_outputs(built: models.BuiltModel, batches: Sequence[Any]) -> list[np.ndarray]:
    """Outputs of an eager call of each batch, together: one float64 array per head."""
    eager = modes.make_executable(built.call, ExecutionMode.EAGER, batches)
    outputs = [eager.outputs(index) for index in range(len(batches))]
    return [
        np.concatenate(parts) if len(parts) > 1 else parts[0]
        for parts in zip(*outputs, strict=True)
    ]


def _check_batch(built: models.BuiltModel, trial: Trial) -> None:
    if built.loaded.batch not in (None, trial.batch_size):
        raise ConfigError(
            f"batch_size={trial.batch_size}: {trial.model.name} was saved for batches of "
            f"{built.loaded.batch}; use batch_size={built.loaded.batch}"
        )


def facts_of(trial: Trial, built: models.BuiltModel) -> ModelFacts:
    """What is known of the model before it is traced."""
    spec, loaded = trial.model, built.loaded
    return ModelFacts(
        name=spec.name,
        family=spec.family,
        variant=spec.variant,
        source=spec.source,
        task=spec.task,
        resolution_px=spec.resolution_px or _side(built.inputs),
        params=built.params,
        trainable_params=built.trainable_params,
        eager_is_graph=loaded.eager_is_graph,
        replica_of=loaded.replica_of,
        inputs=tuple(f"{item.name}{list(item.shape)} {item.dtype}" for item in built.inputs),
    )


def _side(inputs: Sequence[InputSpec]) -> int:
    """Side of the image that a model takes, px; 0 if its input is not one image."""
    shape = inputs[0].shape
    return shape[-2] if len(inputs) == 1 and len(shape) in (_IMAGE_RANK, _IMAGE_RANK + 1) else 0
