"""A Keras model, what eager execution computes, and how near to it a mode's outputs are."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar

import keras
import numpy as np

from xla_sweeps.backends.keras import rounding
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.executable import Engine, Executable
from xla_sweeps.backends.keras.sources import OWN, stateful_resets
from xla_sweeps.config.own_inputs import changed_of, is_seed, states_of
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.measurement import INPUTS, Agreement, Failure, Flag, Flagged, Phase
from xla_sweeps.schema.modes import Mode, Scenario
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import Trial
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker import agreement
from xla_sweeps.worker.agreement import Move
from xla_sweeps.worker.backend import Tell

REFERENCE_IMAGES = 2

E = TypeVar("E", bound=Executable)


@dataclass
class ComparedModel(Generic[E]):
    """A model on its device, its inputs, and the outputs that every mode must reproduce."""

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
    """Flaws of modes of a call in float32, where that was asked; None of one without."""
    seconds: dict[str, float] = field(default_factory=dict)

    compared_inputs = INPUTS
    """Inputs on which outputs are compared."""

    engine: ClassVar[Engine]

    def call_model(self, built: BuiltModel, batch: Any) -> Any:
        """Outputs of a model in an eager call."""
        return built.call(batch)

    def _call_afresh(self, batch: Any, built: BuiltModel | None = None) -> Any:
        self.reset_state()
        return self.call_model(built or self.built, batch)

    def reset_state(self) -> None:
        """Forget what the model keeps from call to call, before a compared call."""
        for reset in self._resets:
            reset()

    @cached_property
    def _resets(self) -> list[Callable[[], None]]:
        return stateful_resets(self.built.loaded.keras_model)

    def eagerly(self, batch: Any, built: BuiltModel | None = None) -> list[np.ndarray]:
        """Outputs of an eager call of a batch, by another model if given: one array per head."""
        return self.engine.executables.read(self._call_afresh(batch, built))

    def eager_outputs(self, batches: Sequence[Any]) -> list[np.ndarray]:
        """Outputs of an eager call of each batch, together: one array per head."""
        outputs = [self.eagerly(batch) for batch in batches]
        return [
            np.concatenate(parts) if len(parts) > 1 else parts[0]
            for parts in zip(*outputs, strict=True)
        ]

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
        self.later = self._eager_heads(self.inputs[self.trial.batches :])
        again = [head[: len(once)] for once, head in zip(first, self.eager, strict=True)]
        return agreement.deterministic(first, again)

    def _eager_heads(self, batches: Sequence[Any]) -> list[list[np.ndarray]]:
        return [self.engine.executables.heads_of(self._call_afresh(batch)) for batch in batches]

    def expect(self, executable: E) -> bool:
        """Compute eagerly what modes must reproduce of a mode's present inputs; False without."""
        if self.trial.scenario is not Scenario.CALL:
            return False
        self.inputs, self.moves = executable.inputs, None
        self.references.clear()
        self.eager = self.eagerly(self.inputs[0])
        self.later = self._eager_heads(self.inputs[1:])
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
        plausible = partial(agreement.are_plausible, precision=self.built.precision)
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
            parts += [agreement.widen_head(outputs[place]) for outputs in later]
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
