"""A Keras model and the outputs that every mode must reproduce: the scenario `call`."""

from __future__ import annotations

import gc
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar

import keras
import numpy as np

from xla_sweeps.backends.keras import building, rounding, weights
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.executable import Engine, Executable
from xla_sweeps.backends.keras.mac_count import AT_LEAST_NOTE, MacCount
from xla_sweeps.backends.keras.sources import OWN, LoadedModel, Wrap, stateful_resets
from xla_sweeps.backends.keras.sources.inputs import draw
from xla_sweeps.backends.keras.synchronization import busy_side
from xla_sweeps.config.own_inputs import changed_of, is_seed, states_of
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.measurement import INPUTS, Agreement, Failure, Flag, Flagged, Phase
from xla_sweeps.schema.modes import Entry, Execution, Mode, Scenario, mode_in, mode_of
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import Precision, Trial
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker import agreement
from xla_sweeps.worker.agreement import Move
from xla_sweeps.worker.backend import Tell

REFERENCE_IMAGES = 2

E = TypeVar("E", bound=Executable)


@dataclass
class KerasBench(ABC, Generic[E]):
    """The model on its device, its inputs, and the outputs that every mode must reproduce.

    An engine's bench adds what touches its tensors.
    """

    trial: Trial
    device: str
    built: BuiltModel
    facts: ModelFacts
    modes: Sequence[str] = ()
    """The modes that this worker measures, which need not be all of the trial's."""
    adopts: bool = False
    """True if it has the weights and outputs of another process."""
    inputs: Sequence[Any] = ()
    eager: list[np.ndarray] = field(default_factory=list)
    """Outputs of eager execution on the first inputs."""
    later: list[list[np.ndarray]] = field(default_factory=list)
    """Outputs of eager execution on each batch after these, in the precision of the model."""
    deterministic: bool = True
    draws: bool = False
    references: dict[int, list[np.ndarray] | None] = field(default_factory=dict)
    """Float64 outputs for the first samples of each input that needed them; None if that failed."""
    moves: Sequence[Move] | None = None
    """Moves of eager's outputs by rounding of the inputs, one a head; only where needed too."""
    flaws_in_float32: dict[Mode, Failure | None] = field(default_factory=dict)
    """What was found of each mode of a call in float32, where that was asked."""
    seconds: dict[str, float] = field(default_factory=dict)

    step = staticmethod(building.forward_of)
    """Makes one call on a batch; raises `ConfigError` where the model lacks the scenario."""

    compared_inputs = INPUTS
    """Inputs on which outputs are compared."""

    is_forward = True
    """Whether what a mode computes is the model's forward pass alone."""

    starts_up = False
    """True where building the model pays what a process pays once, such as loading a compiler."""

    engine: ClassVar[Engine]

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

    def call_model(self, batch: Any) -> Any:
        """Outputs of the model in an eager call."""
        return self.built.call(batch)

    def _call_afresh(self, batch: Any) -> Any:
        self.reset_state()
        return self.call_model(batch)

    def reset_state(self) -> None:
        """Forget what the model keeps from call to call, before a compared call."""
        for reset in self._resets:
            reset()

    @cached_property
    def _resets(self) -> list[Callable[[], None]]:
        return stateful_resets(self.built.loaded.keras_model)

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

    def eagerly(self, batch: Any) -> list[np.ndarray]:
        """Outputs of an eager call of a batch: one float64 array per head."""
        return self.engine.executables.read(self._call_afresh(batch))

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

    def eager_outputs(self, batches: Sequence[Any]) -> list[np.ndarray]:
        """Outputs of an eager call of each batch, together: one float64 array per head."""
        outputs = [self.eagerly(batch) for batch in batches]
        return [
            np.concatenate(parts) if len(parts) > 1 else parts[0]
            for parts in zip(*outputs, strict=True)
        ]

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

    def call_eagerly(self, tell: Tell) -> None:
        """Run the model eagerly on all inputs, on the first one twice.

        A state that the calls of an own model change is put back before each call, if its outputs
        depend on it; so are seeds, from which another mode may draw other numbers.
        """
        self._resets = stateful_resets(self.built.loaded.keras_model)
        own, loaded = self.trial.model.library == OWN, self.built.loaded
        states = states_of(loaded.keras_model, loaded.variables) if own else []
        self.deterministic = self._call_twice()
        if not self.deterministic and (changed := changed_of(states)):
            self._resets += [partial(one.assign, value) for one, value in changed]
            agree = self._call_twice()
            self.draws = agree and any(is_seed(one) for one, _ in changed)
            self.deterministic = agree and not self.draws

    def _call_twice(self) -> bool:
        """Compute the outputs, those of the first input twice; True if these agree."""
        first = self.eager_outputs(self.inputs[:1])
        self.eager = self.eager_outputs(self.inputs[: self.trial.batches])
        later = self.inputs[self.trial.batches :]
        self.later = [self.engine.executables.heads_of(self._call_afresh(batch)) for batch in later]
        again = [head[: len(once)] for once, head in zip(first, self.eager, strict=True)]
        return agreement.deterministic(first, again)

    def expect(self, executable: E) -> bool:
        """Compute eagerly what modes must reproduce of a mode's present inputs; False without."""
        if self.trial.scenario is not Scenario.CALL:
            return False
        self.inputs, self.moves = executable.inputs, None
        self.references.clear()
        self.eager, *self.later = map(self.eagerly, self.inputs)
        return True

    def add_reference(self, tell: Tell) -> bool:
        """Compute outputs of the same weights in float64, then how far rounding moves eager's.

        One of both a call; False where there is nothing more, and where two eager runs differ:
        their random numbers would count as eager's own error, by which a mode's is judged.
        """
        if not self.deterministic:
            return False
        if self.references:
            return self.add_moves(tell)
        tell(protocol.Stage(phase=Phase.VERIFY, detail="float64 reference"))
        begun = time.perf_counter()
        try:
            self.references = dict.fromkeys(range(len(self.inputs[: self.compared_inputs])))
            self.compute_references()
        except Exception as error:  # modes are then compared with eager only, and flagged
            traceback.print_exc()
            tell(protocol.Caveat(Flagged(Flag.NO_REFERENCE, note=error_line(error))))
        gc.collect()  # the float64 model, which would count as memory of the next mode
        self.seconds["reference"] = self.seconds.get("reference", 0) + time.perf_counter() - begun
        return True

    def add_moves(self, tell: Tell) -> bool:
        """Compute how far rounding of the inputs moves eager's outputs, unless that was tried."""
        if self.moves is not None:
            return False
        tell(protocol.Stage(phase=Phase.VERIFY, detail="rounding of the inputs"))
        self.moves = rounding.moves_on(
            self.inputs[:INPUTS], self.eagerly, self.built.precision, seed=self.trial.seed
        )
        return True

    def compute_references(self) -> None:
        """Compute `references`; raises what the engine raises, or where dtypes are fixed."""
        share = self.trial.model.library == OWN or not self.built.loaded.rebuildable
        for some in self.by_float64_model(self.references):
            batches, eager = [self.inputs[place] for place in some], list(map(self.eager_of, some))
            self.reset_state()
            outputs = self.references_for(batches, eager, may_share=share)
            self.references.update(zip(some, outputs, strict=True))

    def by_float64_model(self, inputs: Iterable[rounding.Key]) -> list[list[rounding.Key]]:
        """Inputs in groups, each for one model in float64: where calls keep a state it has one."""
        return [[each] for each in inputs] if self._resets else [list(inputs)]

    def references_for(
        self,
        batches: Sequence[Any],
        eager: Sequence[list[np.ndarray]],
        change: Callable[[BuiltModel], BuiltModel] = lambda twin: twin,
        may_share: bool = False,
    ) -> list[list[np.ndarray]]:
        """Outputs in float64 for first samples, not by one program if that is far from eager's.

        Raises:
            XlaSweepsError: the model, whose layers the one in float64 may share, computes something
                else by now, so that no outputs are its.
        """
        few = [
            keras.tree.map_structure(lambda one: one[:REFERENCE_IMAGES], each) for each in batches
        ]
        compute = partial(
            rounding.float64_outputs, self.engine, self.trial.model, self.built, few, change
        )
        plausible = partial(rounding.are_plausible, precision=self.built.precision)
        outputs: list[Any] = self.engine.compute_whole(compute, partial(plausible, eager=eager))
        is_far = may_share and not plausible(outputs, eager=eager)
        if is_far and plausible(outputs, eager=map(self.eagerly, few)):
            raise XlaSweepsError("an eager call returns something else now than at first")
        return outputs

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

    def comparison(self, executable: E, position: int = 0) -> Callable[[], Agreement]:
        """Run what is to be verified of a mode; returns what compares it with eager.

        Of a later input than the first, the mode's last call is what is verified.
        """
        if position and not self._resets:
            return self.comparison_of_last(executable, position)
        self.reset_state()
        return partial(self.compare, executable.outputs(position), position)

    def comparison_of_last(self, executable: E, position: int) -> Callable[[], Agreement]:
        """The same of the mode's last call; of a new one where calls keep a state."""
        if self._resets:
            return self.comparison(executable, position)
        return partial(self.compare, executable.last_outputs(), position)

    def compare(self, outputs: list[np.ndarray], position: int = 0) -> Agreement:
        """Compare a mode's outputs with those of eager, and with the float64 reference."""
        elsewhere = rounding.errors_elsewhere(self.references, self.eager_of, position)
        return agreement.compare(
            outputs,
            self.eager_of(position),
            self.references.get(position),
            precision=self.built.precision,
            classes=self.trial.model.task == "classification",
            moves=agreement.worst_moves([*filter(None, [self.moves]), *elsewhere]),
            gpu=self.trial.on_accelerator,
            may_refer=self.deterministic and not self.references,
        )

    def verify_outputs(self, outputs: list[np.ndarray], tell: Tell) -> Agreement:
        """Compare outputs on the first inputs by all that tells rounding from an error."""
        agreed = self.compare(outputs)
        while not agreed.ok and self.add_reference(tell):
            agreed = self.compare(outputs)
        return agreed

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
        """What calls the model alone, and its mode of the same execution; None where none has it.

        That is the bench that names its engine.
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
