"""A Keras model and the outputs that every mode must reproduce: the scenario `call`."""

from __future__ import annotations

import gc
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import keras
import numpy as np

from xla_sweeps.backends.keras import building, weights
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.compared import ComparedModel, E
from xla_sweeps.backends.keras.mac_count import AT_LEAST_NOTE, MacCount
from xla_sweeps.backends.keras.sources import OWN, LoadedModel, Wrap
from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.backends.keras.synchronization import busy_side
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.measurement import INPUTS, Agreement, Failure, Flag, Flagged, Phase
from xla_sweeps.schema.modes import Entry, Execution, Mode, mode_in, mode_of
from xla_sweeps.schema.trial import Precision, Trial
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker import agreement
from xla_sweeps.worker.backend import Tell


@dataclass
class KerasBench(ComparedModel[E], ABC):
    """The model in every mode of the scenario; an engine's bench adds what touches its tensors."""

    step = staticmethod(building.forward_of)
    """Makes one call on a batch; raises `ConfigError` where the model lacks the scenario."""

    is_forward = True
    """True where a mode computes the model's forward pass alone."""

    starts_up = False
    """True where building the model pays what a process pays once, such as loading a compiler."""

    @classmethod
    def build_model(cls, trial: Trial, first: Wrap = lambda call: call) -> BuiltModel:
        """Build the model of a trial, first called as `first` makes it; see `building.build`."""
        return building.build(
            trial.model,
            precision=trial.precision,
            seed=trial.seed,
            step=cls.step,
            batch_size=trial.batch_size,
            narrowed=cls.engine.narrow,
            first=first,
        )

    @abstractmethod
    def make(self, mode: Mode) -> E:
        """Bind the model to a mode, as its scenario calls it; graph modes are traced here."""

    @abstractmethod
    def macs_in(self, executable: E | None) -> MacCount:
        """Multiply-accumulates of a sample: in what a mode made, or without one in the model."""

    def draw_batches(self, rng: np.random.Generator) -> list[Any]:
        """Batches as the model takes them."""
        count = INPUTS + self.trial.batches - 1
        return [draw(self.built.inputs, self.trial.batch_size, rng) for _ in range(count)]

    def place_tensors(self, tensors: Any) -> Any:
        """Place tensors in the memory of the device, where Keras has put them already."""
        return tensors

    def place(self, batches: Sequence[Any]) -> None:
        """Place what `draw_batches` returned on the device, as `inputs`."""
        self.inputs = self.place_tensors(batches)

    def calibrate(self, rng: np.random.Generator) -> None:
        """Give the model activations of order 1, by a batch that is not timed."""
        count = max(4, self.trial.batch_size)
        building.calibrate(self.built, count, rng, call=self.settle)

    def settle(self, loaded: LoadedModel, batch: Any) -> None:
        """Call a model, and keep what that changes."""
        loaded.forward(batch)

    def busy(self, modes: Iterable[Mode]) -> dict[str, Any]:
        """Executables, one a mode, that keep the device busy, not the host; it was called."""
        side = busy_side(self.trial)
        matrix = keras.ops.full((side, side), 1 / side)  # its square is itself
        executables = {}
        for mode in dict.fromkeys(modes):
            bound = self.engine.executables.bind(lambda one: one @ one, mode, [matrix])
            bound.first_call_s()
            executables[str(mode)] = bound
        return executables

    def bind(self, mode: str) -> E:
        """The model in the mode of this label, in its first state."""
        self.reset_state()
        return self.make(mode_of(mode))

    def prove(self, executable: E) -> Mapping[str, Any]:
        """Evidence of what is in force of a mode."""
        return executable.effective(device=self.device)

    def note_build(self, executable: E, tell: Tell) -> None:
        """Nothing, where what is known of the model is known before a mode."""

    def reset_steady_memory(self) -> None:
        """Nothing, where a program says what it needs."""

    def begin(self) -> None:
        """Set up what needs the final weights."""

    def run_eagerly(self, tell: Tell) -> None:
        """Compute what every mode must reproduce, before anything is traced."""
        if self.facts.eager_is_graph:
            tell(protocol.Caveat(Flagged(Flag.EAGER_IS_GRAPH)))
        self.call_eagerly(tell)
        own = self.trial.model.weights == "own" and self.built.loaded.keras_model is not None
        if own and self.eager and agreement.shows_nothing(self.eager):
            self.calibrate(np.random.default_rng(self.trial.seed))
            self.begin()
            self.call_eagerly(tell)
            if not agreement.shows_nothing(self.eager):
                tell(protocol.Caveat(Flagged(Flag.CALIBRATED)))

    def count_macs(self, tell: Tell, executable: E | None = None) -> None:
        """Count multiply-accumulates of a sample, unless they are known."""
        if self.facts.macs is not None:
            return
        mode = str(executable.mode) if executable else ""
        tell(protocol.Stage(phase=Phase.VERIFY, mode=mode, detail="multiply-accumulates"))
        begun = time.perf_counter()
        try:
            count = self.macs_in(executable)
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

    def find_flaw(self, executable: E, tell: Tell) -> Failure | None:
        """The failure of a mode that is wrong in float32, or never reads weights of an own model.

        A mode is compared with eager: if eager does not read them, no mode can be right.
        """
        if flaw := self.find_flaw_in_float32(executable.mode, tell):
            return flaw
        if self.trial.model.library != OWN or not (self.deterministic or self.draws):
            return None
        try:
            names = self.unread_names(executable)
        except Exception:  # a check that fails says nothing of the model
            traceback.print_exc()
            return None
        message, hint = weights.describe(names), weights.FIX
        kind = "weights_not_read"
        return Failure(phase=Phase.VERIFY, kind=kind, message=message, hint=hint) if names else None

    def find_flaw_in_float32(self, mode: Mode, tell: Tell) -> Failure | None:
        """The failure of a mode that differs from eager in float32 without TF32; None otherwise.

        TF32 and half precision would hide an error of a percent. Of a mode of Keras's own a call
        that is executed in the same way is compared.
        """
        exact = self.built.precision is Precision.FLOAT32 and not self.trial.tf32
        plain = self.forward_pass(mode)[1]
        if exact or plain is None or not self.deterministic:
            return None
        if plain not in self.flaws_in_float32:
            tell(protocol.Stage(phase=Phase.VERIFY, mode=str(mode), detail="in float32"))
            self.flaws_in_float32[plain] = self._compare_in_float32(plain, tell)
            gc.collect()
        return self.flaws_in_float32[plain]

    def _compare_in_float32(self, plain: Mode, tell: Tell) -> Failure | None:
        trial, (kind, _) = self.trial, self.forward_pass(plain)
        alone = replace(trial, precision=Precision.FLOAT32, tf32=False, batches=1)
        try:
            with self.engine.without_tf32():
                built = building.float64_twin(trial.model, self.built, "float32")
                twin = kind(alone, self.device, built, self.facts, inputs=self.inputs[:1])
                agreed = twin.agreement_of(plain, tell)
        except Exception:  # dtypes are fixed, or memory does not suffice: not known
            traceback.print_exc()
            return None
        if agreed.ok or agreed.refused:
            return None
        message = f"in float32: {agreed.reason}"
        return Failure(phase=Phase.VERIFY, kind="disagreement", message=message)

    def forward_pass(self, mode: Mode) -> tuple[type[KerasBench[E]], Mode | None]:
        """The bench that calls the model alone, and its mode of the same execution, if it has one.

        It is the one that names its engine.
        """
        kind = next(kind for kind in type(self).__mro__ if "engine" in vars(kind))
        none = not self.is_forward or mode.execution is Execution.EAGER
        role = Entry.FUNCTION, mode.execution, False
        return kind, None if none else mode_in(mode.backend, role)

    def agreement_of(self, mode: Mode, tell: Tell) -> Agreement:
        """Agreement of a mode with eager on the first inputs; neither has run yet.

        Raises:
            XlaSweepsError: two eager calls differ, so that it tells nothing.
        """
        self.call_eagerly(tell)
        if not self.deterministic:
            raise XlaSweepsError("two eager calls differ")
        executable = self.bind(str(mode))
        executable.first_call_s()
        self.reset_state()
        return self.verify_outputs(executable.outputs(), tell)

    def unread_names(self, executable: E) -> list[str]:
        """Names of the weights that eager execution or a mode never reads."""
        return self.unread_eagerly or self._weights.unread_by(partial(self.outputs_now, executable))

    @cached_property
    def unread_eagerly(self) -> list[str]:
        """Names of the weights that eager execution never reads."""
        return self._weights.unread_by(self._weights.eagerly)

    @cached_property
    def _weights(self) -> weights.Weights:
        return weights.Weights(
            self.built.loaded.variables,
            lambda: self.eager_outputs(self.inputs[: self.trial.batches]),
            self.op_by_op,
            self.built.precision,
            gpu=self.trial.on_accelerator,
        )

    def outputs_now(self, executable: E) -> list[np.ndarray]:
        """Outputs of a mode for the first inputs, with the weights as they are now."""
        self.reset_state()
        return executable.outputs()

    def op_by_op(self) -> AbstractContextManager[object]:
        """Within it, code of the model that is a compiled or traced function runs as it stands."""
        return nullcontext()

    def runs_away(self, executable: E, calls: int) -> str:
        """Reason why calls in a row are no steady state; "" where they are."""
        return ""
