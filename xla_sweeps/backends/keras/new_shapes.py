"""New shapes: what the first call of each shape takes in a function that met none before.

A stream is a new function of a mode, called on a batch of each shape, and then again on each. So a
mode that makes a program for each shape pays for each, and one that makes a program for all pays
once. Only the shape of a batch counts: a size that is given twice is met once.
"""

from __future__ import annotations

import gc
import time
import traceback
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.compared import REFERENCE_IMAGES, E
from xla_sweeps.backends.keras.rounding import errors_elsewhere, moves_on
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.sources.inputs import draw, name_leaves, place_inputs
from xla_sweeps.config.own_files import IMAGE_SIZES
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.measurement import Agreement, Block, Phase
from xla_sweeps.schema.modes import Execution, Mode, mode_of
from xla_sweeps.schema.trial import LATER, InputSpec, Precision, Trial, parse_shape
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker import agreement, timing
from xla_sweeps.worker.backend import Tell

LATER_CALLS = 3
"""Later calls of a shape that are timed at least."""

LATER_S = 0.03
"""Seconds for which they are timed at least."""

_CHANNELS = 4
"""The most channels of an image that has them first."""

_UNLIKE = -1
"""A size that no input has."""


@dataclass
class ShapesBench(KerasBench[E]):
    """The model, and a batch of each shape of the trial."""

    shape_batches: dict[str, Any] = field(default_factory=dict)
    """A batch of each shape, by its name."""
    shape_references: dict[str, list[np.ndarray] | None] = field(default_factory=dict)
    """Float64 outputs of its first samples, where they were needed; None if that failed."""
    shape_firsts: dict[str, list[np.ndarray]] = field(default_factory=dict)
    """Outputs of eager execution on the same samples."""

    @abstractmethod
    def new_function(self, mode: Mode) -> E:
        """The model in a mode as a function that is new and takes any shape; nothing is traced.

        Its `traces` are the programs that it has made so far.
        """

    def without_caches(self) -> AbstractContextManager[object]:
        """Nothing, where a function that is new finds nothing that another has compiled."""
        return nullcontext()

    def begin(self) -> None:
        """Draw a batch of each shape, and call the model on each; `ConfigError` if it fails."""
        super().begin()
        rng, given = np.random.default_rng(self.trial.seed), self.built.inputs
        for name in dict.fromkeys(self.trial.shapes):
            size, count = parse_shape(name)
            inputs = resize(given, size) if size else given
            batch = draw(inputs, count or self.trial.batch_size, rng)
            self.shape_batches[name] = self.place_tensors(batch)
            refusal = f"shapes: {self.trial.model.name} does not take {name}"
            if count and self.built.loaded.batch not in (None, count):
                raise ConfigError(f"{refusal}: it was saved for b{self.built.loaded.batch}")
            try:
                self.eager_of_shape(name)
            except Exception as error:
                if count or [*inputs] == [*given]:  # memory may not suffice, or values are wrong
                    raise
                raise ConfigError(f"{refusal}: {error_line(error)}") from error

    @cached_property
    def free_model(self) -> BuiltModel:
        """The model with free sizes, where the shapes have other ones."""
        if not any(parse_shape(name)[0] for name in self.trial.shapes):
            return self.built
        return free_sizes(self.built, self.trial, narrowed=self.engine.narrow)

    def reference_of_shape(self, name: str) -> list[np.ndarray] | None:
        """Outputs in float64 of the first samples of a shape's batch; None where there are none.

        Those of all shapes are computed at the first need.
        """

        def change(twin: BuiltModel) -> BuiltModel:
            free = self.free_model is not self.built
            return free_sizes(twin, self.trial, narrowed=lambda each: each) if free else twin

        if not self.shape_references:
            self.shape_references = dict.fromkeys(self.shape_batches)
            try:
                for some in self.by_float64_model(self.shape_references):
                    batches = [self.shape_batches[each] for each in some]
                    eager = [
                        [head[:REFERENCE_IMAGES].copy() for head in self.eager_of_shape(each)]
                        for each in some
                    ]
                    outputs = self.references_for(batches, eager, change)
                    self.shape_firsts.update(zip(some, eager, strict=True))
                    self.shape_references.update(zip(some, outputs, strict=True))
            except Exception:  # dtypes are fixed, or memory does not suffice
                traceback.print_exc()
        return self.shape_references[name]

    def eager_of_shape(self, name: str) -> list[np.ndarray]:
        """Outputs of eager execution on a shape's batch, in float64."""
        return self.eagerly(self.shape_batches[name], self.free_model)

    def stream(self, label: str) -> Block:
        """Time a stream: parts `NAME` for first calls, `NAME_later` for a later one of each."""
        clock = time.perf_counter_ns
        gc.collect()
        with self.without_caches(), timing.garbage_collection_off():
            executable, parts = self.new_function(mode_of(label)), dict[str, int]()
            executable.prepare()
            for name, batch in self.shape_batches.items():
                executable.inputs, executable.position = [batch], 0
                parts[name] = timing.measure_block(executable, label, 1, clock=clock).elapsed_ns
            for name, batch in self.shape_batches.items():
                executable.inputs, executable.position = [batch], 0
                once = timing.measure_block(executable, label, LATER_CALLS, clock=clock)
                calls = max(LATER_CALLS, round(LATER_S / once.call_s))
                later = timing.measure_block(executable, label, calls, clock=clock)
                parts[f"{name}{LATER}"] = round(later.call_s * 1e9)
        return Block(
            mode=label, calls=1, elapsed_ns=sum(parts.values()), enqueue_ns=0, parts_ns=parts
        )

    def check_stream(self, label: str) -> tuple[Mapping[str, int], Agreement]:
        """Programs that each shape of a stream makes, and the worst agreement with eager."""
        made, seen = dict[str, int](), list[Agreement]()
        with self.without_caches():
            executable = self.new_function(mode_of(label))
            for name, batch in self.shape_batches.items():
                before = executable.traces()
                executable.prepare()  # after the eager calls of the shape before
                self.reset_state()
                outputs = executable.read(executable.run(batch))
                made[name] = executable.traces() - before
                agreed = self._compare_at(name, outputs)
                seen.append(replace(agreed, reason=agreed.reason and f"at {name}: {agreed.reason}"))
        return made, agreement.worst(seen)

    def forward_pass(self, mode: Mode) -> tuple[type[KerasBench[E]], Mode | None]:
        """Itself, with each shape."""
        return type(self), None if mode.execution is Execution.EAGER else mode

    def agreement_of(self, mode: Mode, tell: Tell) -> Agreement:
        """Agreement of a mode with eager on the first inputs and on each shape; the worst counts.

        Raises:
            XlaSweepsError: its layers have types of their own where sizes are free.
        """
        self.begin()
        proved = super().agreement_of(mode, tell)
        is_free = self.free_model is not self.built
        if is_free and building.float_types(self.free_model.loaded) - {str(Precision.FLOAT32)}:
            raise XlaSweepsError("the model sets its own dtypes, so its sizes cannot be free")
        tell(protocol.Stage(phase=Phase.VERIFY, mode=str(mode), detail="in float32, each shape"))
        _, agreed = self.check_stream(str(mode))
        is_rounding = agreement.is_no_further(agreed, proved)
        return proved if is_rounding else agreement.worst((proved, agreed))

    def _compare_at(self, name: str, outputs: list[np.ndarray]) -> Agreement:
        """Compare outputs with eager's at a shape; with float64 too where they differ."""
        eager, facts = self.eager_of_shape(name), self.trial
        compare = partial(
            agreement.compare,
            outputs,
            eager,
            precision=self.built.precision,
            classes=facts.model.task == "classification",
            gpu=facts.on_accelerator,
        )
        agreed = compare(may_refer=self.deterministic)
        if agreed.ok or not self.deterministic:
            return agreed
        reference = self.reference_of_shape(name)
        moves = errors_elsewhere(self.shape_references, self.shape_firsts.__getitem__, name)
        agreed = compare(reference, moves=agreement.worst_moves(moves))
        if agreed.ok:
            return agreed
        eagerly = partial(self.eagerly, built=self.free_model)
        batches, precision = [self.shape_batches[name]], self.built.precision
        moves += filter(None, [moves_on(batches, eagerly, precision, seed=facts.seed)])
        return compare(reference, moves=agreement.worst_moves(moves))


def resize(inputs: Sequence[InputSpec], size: int) -> list[InputSpec]:
    """Inputs with another height and width of the images or videos; without any, of the first size.

    Images have their few channels first, as in PyTorch, or last.
    """
    images = any(len(given.shape) >= IMAGE_SIZES for given in inputs)
    resized = []
    for given in inputs:
        sizes = list(given.shape)
        if len(sizes) < IMAGE_SIZES:
            places = [] if images else [0][: len(sizes)]
        else:
            first = len(sizes) > IMAGE_SIZES or sizes[0] <= _CHANNELS < sizes[2]
            places = [1, 2] if first else [0, 1]
        for place in places:
            sizes[place] = size
        resized.append(replace(given, shape=tuple(sizes)))
    return resized


def _keep(layer: Any) -> Any:
    """The layer itself, so that the weights are the same."""
    return layer


def free_sizes(built: BuiltModel, trial: Trial, *, narrowed: Callable[[Any], Any]) -> BuiltModel:
    """The model's layers called on free sizes; the model itself where that is not possible."""
    loaded, model = built.loaded, built.loaded.keras_model
    fixed = getattr(model, "inputs", None)
    if not fixed:
        return built
    library = building.keras_library_of(model)
    inputs, given = [], list(loaded.inputs)
    nest = fixed[0] if isinstance(model, library.Sequential) else model.input
    names = list(name_leaves(keras.tree.flatten_with_path(nest)))
    given = [given[place] for place in place_inputs(given, names, trial.model.name)]
    for tensor, own, other in zip(fixed, given, resize(given, _UNLIKE), strict=True):
        sizes = zip(own.shape, other.shape, strict=True)
        shape = [None if one != two else one for one, two in sizes]
        inputs.append(library.Input(shape=shape, dtype=tensor.dtype, name=own.name or None))
    try:
        nested = keras.tree.pack_sequence_as(nest, inputs)
        free = library.models.clone_model(model, nested, clone_function=_keep)
    except Exception:  # it has a fixed size; calling it then says why
        traceback.print_exc()
        return built
    freed = LoadedModel.of_keras(free, loaded.inputs, pack=loaded.pack)
    call = building.call_of(built.step(freed, trial.model), narrowed)
    return replace(built, loaded=freed, call=call)
