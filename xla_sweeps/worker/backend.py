"""Protocols of what is measured: a framework, its model, and the model in a mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from xla_sweeps.schema.measurement import Agreement, Block, Failure
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import ReplicateJob, Trial
from xla_sweeps.trial import protocol
from xla_sweeps.worker import timing

Tell = Callable[[protocol.Event], None]
"""Sends an event to the parent."""

Explain = Callable[[protocol.Explain, Tell], None]
"""Explains a model, and sends what is known so far as events."""


class Executable(timing.Renewable, Protocol):
    """A model in one mode, its inputs on the device."""

    mode: Mode
    inputs: Any
    trace_s: float | None

    def first_call_s(self) -> float:
        """Seconds of the first call with a synchronization; the mode compiles in it."""

    def outputs(self, position: int = 0) -> list[np.ndarray]:
        """Outputs for one of the inputs: one array per head, shape (batch, ...)."""

    def count_operations(self) -> int | None:
        """Operations of the next call that run one by one; None if that cannot be told."""

    def traces(self) -> int:
        """Number of times that the mode was traced; 0 if it never is."""

    def extras(self) -> Mapping[str, Any]:
        """Figures besides the times of calls, by their names in `ModeOutcome`; once it is warm."""


class Model(Protocol):
    """A model on its device, its inputs, and the outputs that every mode must reproduce.

    Attributes:
        built: its `loaded.variables` are arrays for NumPy, and have `assign`.
        eager: outputs of eager execution on the first inputs, an array per head.
        later: the same on each input after these.
        deterministic: whether two eager runs agree.
        draws: whether they do only from the same seeds: another mode may draw other numbers.
        compared_inputs: number of rotating inputs on which a mode is verified.
        seconds: of stages such as `reference`, `macs`.
        starts_up: whether building it paid what a process pays once, such as loading a compiler.
    """

    built: Any
    eager: list[np.ndarray]
    later: list[list[np.ndarray]]
    deterministic: bool
    draws: bool
    starts_up: bool
    facts: ModelFacts
    compared_inputs: int
    seconds: dict[str, float]

    def synchronization(self) -> Mapping[str, Any]:
        """The self-test of the synchronization, for the record."""

    def run_eagerly(self, tell: Tell) -> None:
        """Compute what every mode must reproduce, before anything is traced."""

    def expect(self, executable: Any) -> bool:
        """Compute eagerly what modes must reproduce of a mode's present inputs; False without."""

    def add_reference(self, tell: Tell) -> bool:
        """Compute what else tells rounding from an error; False if there is no more."""

    def bind(self, mode: str) -> Executable:
        """The model in a mode; graph modes are traced here."""

    def prove(self, executable: Any) -> Mapping[str, Any]:
        """Evidence of what is in force, read back after the first call, with `in_force`.

        `reason` says why it is not; `elsewhere` names devices of outputs that are not the trial's.
        """

    def comparison(self, executable: Any, position: int = 0) -> Callable[[], Agreement]:
        """Run what is to be verified of a mode; returns what compares it with what is known.

        Of a later input than the first, the mode's last call is what is verified.
        """

    def comparison_of_last(self, executable: Any, position: int) -> Callable[[], Agreement]:
        """The same of the mode's last call, which was on this input."""

    def note_build(self, executable: Any, tell: Tell) -> None:
        """Note what a mode made of the model: facts and flags."""

    def count_macs(self, tell: Tell) -> None:
        """Count multiply-accumulates, unless they are known."""

    def find_flaw(self, executable: Any, tell: Tell) -> Failure | None:
        """The failure of a mode that its outputs do not show; None without one."""

    def runs_away(self, executable: Any, calls: int) -> str:
        """Reason why calls in a row are not steady, such as a loss that is not finite; or ""."""

    def reset_steady_memory(self) -> None:
        """Start `steady_memory_bytes` again."""

    def steady_memory_bytes(self, executable: Any, *, call_s: float) -> int | None:
        """The most that the framework's allocator had handed out; None if that is unknown."""


class ShapesModel(Protocol):
    """A model that meets the shapes of its trial one after the other."""

    def stream(self, label: str) -> Block:
        """Time calls of a new function of a mode on each of the shapes.

        Its parts are the first call of each shape, by its name, and a later one (`LATER`).
        """

    def check_stream(self, label: str) -> tuple[Mapping[str, int], Agreement]:
        """Programs that each shape makes in such a function, and the worst agreement with eager."""


class Framework(Protocol):
    """A framework, loaded."""

    def configure(self, trial: Trial) -> None:
        """Set what holds for the whole process."""

    def environment(self) -> Mapping[str, Any]:
        """Versions and settings that are known only where the framework is loaded."""

    def device(self, trial: Trial) -> AbstractContextManager[object]:
        """Context in which the trial's device builds and calls models."""

    def build(self, job: ReplicateJob) -> Model:
        """Build the model and place it and its inputs on the device."""
