"""Set up a replicate: the model on its device, its inputs, and the outputs of eager execution."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from xla_sweeps.errors import ConfigError
from xla_sweeps.measure import agreement, protocol, timing
from xla_sweeps.measure.failures import error_line
from xla_sweeps.schema.measurement import Flag, Phase
from xla_sweeps.schema.modes import ExecutionMode, Scenario
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import Counted, InputSpec, ModelSpec, ReplicateJob, Trial, size_text
from xla_sweeps.tf import devices, macs, models, modes
from xla_sweeps.tf.fingerprint import fingerprint
from xla_sweeps.tf.pictures import Feed
from xla_sweeps.tf.training import Trainer

INPUT_BATCHES = 1 + timing.NEW_INPUTS
REFERENCE_IMAGES = 2

_IMAGE_RANK = 3


class Channel(Protocol):
    """The connection to the parent, whose side is `measure.process`."""

    def send(self, event: protocol.Event) -> None:
        """Send one event."""

    def wait_for_turn(self) -> None:
        """Return once this process may time something."""

    def report(self, progress: protocol.Progressed) -> None:
        """Send the progress and wait until it is shown."""

    def review(self, square: protocol.Square) -> protocol.Review:
        """Send a square's rounds and wait for their review."""


@dataclass
class Bench:
    """The model on its device, its inputs, and the outputs that every mode must reproduce."""

    trial: Trial
    device: str
    built: models.BuiltModel
    inputs: Sequence[Any]
    eager: list[np.ndarray]
    deterministic: bool
    reference: list[np.ndarray] | None
    facts: ModelFacts
    counted: Counted | None
    nudged: list[np.ndarray] | None = None
    """Eager outputs on the first inputs changed by rounding; computed only for detections."""
    trainer: Trainer | None = None
    """What every mode trains, in scenarios that do."""
    sync_by_reading: bool = False
    """Wait by reading a result, on a device where `sync_devices` does not wait."""
    samples: tuple[np.ndarray, ...] = ()
    """All inputs in NumPy, one array for each of the model's; empty until a mode takes them."""
    seconds: dict[str, float] = field(default_factory=dict)


def set_up(job: ReplicateJob, channel: Channel) -> Bench:
    """Build the model, run it eagerly twice, and compute the float64 reference where it always is.

    Elsewhere it is computed once a mode is not close to eager.
    """
    trial, spec = job.trial, job.trial.model
    channel.send(protocol.Stage(phase=Phase.BUILD, detail=_shown(spec)))
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
    facts = facts_of(trial, built)
    channel.send(protocol.Built(model=facts))
    if facts.eager_is_graph:
        channel.send(protocol.Flagged(flag=str(Flag.EAGER_IS_GRAPH)))
    channel.send(protocol.Stage(phase=Phase.VERIFY, mode=str(ExecutionMode.EAGER)))
    trainer = Trainer(built, trial, batches, feed=feed, labels=labels) if trial.training else None
    bench = Bench(
        trial=trial,
        device=device,
        built=built,
        inputs=batches,
        eager=[],
        deterministic=True,
        reference=None,
        facts=facts,
        counted=job.counted,
        trainer=trainer,
    )
    if trainer:
        bench.deterministic = trainer.run_eagerly()
        if trainer.random_layers:
            channel.send(protocol.Flagged(flag=str(Flag.RANDOM_LAYERS)))
    else:
        first = eager_outputs(built, batches[:1])
        bench.eager = eager_outputs(built, batches[: trial.batches])
        again = [head[: len(once)] for once, head in zip(first, bench.eager, strict=True)]
        bench.deterministic = agreement.deterministic(first, again)
    if job.measure and trial.effort.always_reference and job.replicate == 0:
        add_reference(bench, channel)
    return bench


def _drawn(built: models.BuiltModel, trial: Trial, rng: np.random.Generator) -> list[Any]:
    count = INPUT_BATCHES + trial.batches - 1
    return [models.draw(built.inputs, trial.batch_size, rng) for _ in range(count)]


def add_reference(bench: Bench, channel: Channel) -> None:
    """Compute outputs of the same weights in float64; detections are compared with eager only."""
    if bench.trial.scenario is Scenario.DETECT:
        return
    channel.send(protocol.Stage(phase=Phase.VERIFY, detail="float64 reference"))
    begun = time.perf_counter()
    try:
        if bench.trainer:
            bench.trainer.add_reference(bench.trial, bench.built)
        else:
            few = tf.nest.map_structure(lambda tensor: tensor[:REFERENCE_IMAGES], bench.inputs[0])
            bench.reference = models.float64_reference(bench.trial.model, bench.built, few)
    except Exception as error:  # modes are then compared with eager only, and flagged
        traceback.print_exc()
        channel.send(protocol.Flagged(flag=f"{Flag.NO_REFERENCE}: {error_line(error)}"))
    gc.collect()  # the float64 model, which would count as memory of the next mode
    bench.seconds["reference"] = time.perf_counter() - begun


def eager_outputs(built: models.BuiltModel, batches: Sequence[Any]) -> list[np.ndarray]:
    """Outputs of an eager call of each batch, together: one float64 array per head."""
    eager = modes.make_executable(built.call, ExecutionMode.EAGER, batches)
    found = [eager.outputs(index) for index in range(len(batches))]
    return [
        np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True)
    ]


def count_macs(bench: Bench, xla: modes.ModeExecutable | None, channel: Channel) -> None:
    """Count multiply-accumulates in the XLA mode's HLO, or without that mode in the model's own.

    What an earlier replicate counted of the same build is taken instead.
    """
    channel.send(protocol.Stage(phase=Phase.VERIFY, detail="multiply-accumulates"))
    begun, known = time.perf_counter(), bench.counted
    found: dict[str, Any]
    try:
        if known and (known.params, known.fingerprint) == (
            bench.facts.params,
            bench.facts.fingerprint,
        ):
            found = asdict(known)
        else:
            count = (
                macs.count_macs(modes.hlo_text(xla)).of_each(bench.trial.batch_size)
                if xla
                else models.macs(bench.built)
            )
            found = {
                "macs": count.total,
                "macs_note": macs.AT_LEAST_NOTE if count.at_least else "",
                "macs_by_type": dict(count.by_type),
            }
    except Exception as error:
        traceback.print_exc()
        found = {"macs_note": error_line(error)}
    bench.seconds["macs"] = time.perf_counter() - begun
    bench.facts = replace(bench.facts, **found)
    channel.send(protocol.Built(model=bench.facts))


def note_build(bench: Bench, executable: modes.ModeExecutable, channel: Channel) -> None:
    """Note what was built, from the first mode that is traced, and what graph mode made of it."""
    if executable.mode is ExecutionMode.GRAPH:
        bench.facts = replace(bench.facts, graph_operations=executable.operations)
    if executable.concrete is None or bench.facts.fingerprint:
        return
    try:
        bench.facts = replace(bench.facts, fingerprint=fingerprint(executable.concrete))
    except Exception:  # a graph of more than 2 GiB; its parameters still tell models apart
        traceback.print_exc()
    channel.send(protocol.Built(model=bench.facts))


def _shown(spec: ModelSpec) -> str:
    return " ".join(filter(None, (spec.name, size_text(spec.task, spec.resolution_px))))


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
