"""One model in one mode, whatever the engine: inputs that rotate, and what is read of a call."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import keras
import numpy as np

from xla_sweeps.backends.keras.sources import Wrap
from xla_sweeps.backends.keras.sources.inputs import mix_inputs
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Mode
from xla_sweeps.system.text import a_noun
from xla_sweeps.worker import agreement


@dataclass
class Executable(ABC):
    """One model in one mode with its inputs on the device; satisfies `worker.backend.Executable`.

    Attributes:
        figures: what the first call showed, for the proof.
        unmixed: the inputs that new ones are made of: what is mixed again and again becomes alike.
        restore: gives what calls change its values again, before each block.
    """

    mode: Mode
    run: Callable[..., Any]
    inputs: Sequence[Any]
    trace_s: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    position: int = 0
    unmixed: Sequence[Any] = ()
    last: Any = field(default=None, repr=False)
    restore: Callable[[], None] | None = None

    flatten = staticmethod(keras.tree.flatten)
    """Lists the heads of what a call returned."""

    takes_numpy = False
    """True if a call may return NumPy arrays."""

    @classmethod
    @abstractmethod
    def bind(cls, call: Callable[[Any], Any], mode: Mode, inputs: Sequence[Any]) -> Self:
        """Bind a forward pass to a mode; what is traced is traced here, and that is timed.

        Inputs are batches of one shape and dtype, on the device.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for every call that was started."""

    def drain(self) -> None:
        """Wait by reading a number of the last output."""
        keras.ops.convert_to_numpy(keras.ops.ravel(self.flatten(self.last)[-1])[:1])

    @abstractmethod
    def traces(self) -> int:
        """Number of times that the mode was traced; 0 for eager execution."""

    def count_operations(self) -> int | None:
        """None, where an engine cannot tell which operations of a call run one by one."""
        return None

    @abstractmethod
    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of what is in force after the first call, and what contradicts the mode."""

    def prepare(self) -> None:
        """Restore what calls change; switch nothing, where a mode is another function."""
        if self.restore is not None:
            self.restore()

    def step(self) -> None:
        """Start one call on the next of the rotating inputs."""
        self.last = self.run(self.inputs[self.position])
        self.position = (self.position + 1) % len(self.inputs)

    def renew(self) -> bool:
        """Replace the inputs by new ones, and wait until they are on the device."""
        self.unmixed = self.unmixed or self.inputs
        self.inputs = mix_inputs(self.unmixed, select=self.select)
        self.synchronize()
        return True

    def select(self, chosen: np.ndarray, one: Any, other: Any) -> Any:
        """Values of one tensor where they are chosen, else of the other, on their device."""
        return keras.ops.where(chosen, one, other)

    def first_call_s(self) -> float:
        """Seconds of the first call with a synchronization; raises whatever the engine raises."""
        with self.observe_first_call():
            return self.timed_s(self.first_step)

    def first_step(self) -> None:
        """Start the first call, in which the mode compiles."""
        self.step()

    @contextmanager
    def observe_first_call(self) -> Iterator[Any]:
        """Note what a first call shows."""
        yield

    def timed_s(self, call: Callable[[], None]) -> float:
        """Seconds of a call with a synchronization."""
        started = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - started

    def outputs(self, position: int = 0) -> list[np.ndarray]:
        """Outputs for one of the inputs: one array per head, shape (batch, ...)."""
        self.prepare()
        return self.read(self.run(self.inputs[position]))

    def last_outputs(self) -> list[np.ndarray]:
        """Outputs of the last call: one array per head."""
        return self.read(self.last)

    def effective(self, *, device: str) -> dict[str, Any]:
        """Evidence of what is in force, read back after the first call: `in_force` and `reason`.

        And the engine's own: `device` of the outputs, and `elsewhere`, those of them that are not
        `device`.
        """
        evidence, problems = self.proof(device)
        verdict = {"in_force": not problems, "reason": "; ".join(problems)}
        return {**self.figures, **evidence, **verdict}

    def extras(self) -> dict[str, Any]:
        """Figures besides the times of calls, by their names in `ModeOutcome`."""
        return {}

    @classmethod
    def heads_of(cls, outputs: Any) -> list[np.ndarray]:
        """Outputs as real arrays of their own type, one per head; a number as an array of it.

        A complex head has its real and its imaginary parts side by side, on a last axis.

        Raises:
            ConfigError: the model returned something else than tensors.
        """
        heads = cls.flatten(outputs)
        for head in heads:
            in_numpy = isinstance(head, np.ndarray)
            if not (in_numpy and cls.takes_numpy) and not keras.ops.is_tensor(head):
                kind = "NumPy array" if in_numpy else type(head).__name__
                kind = "None" if head is None else a_noun(kind)
                raise ConfigError(
                    f"the model returned {kind}; tensors are needed, alone or in lists, tuples or "
                    "dictionaries"
                )
        arrays = [np.atleast_1d(keras.ops.convert_to_numpy(head)) for head in heads]
        return [
            np.stack([array.real, array.imag], axis=-1) if np.iscomplexobj(array) else array
            for array in arrays
        ]

    @classmethod
    def read(cls, outputs: Any) -> list[np.ndarray]:
        """Outputs as `widen_head` makes them, one array per head; raises what `heads_of` raises."""
        return list(map(agreement.widen_head, cls.heads_of(outputs)))


T = TypeVar("T")


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function, operation by operation."""
    return function


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Functions of an engine that its benches and trainers need.

    Attributes:
        executables: read what a model returns.
        narrow: gives what a model returns with the floating heads in float32; a part of each call.
        in_float64: within it, the engine computes in float64 on the CPU.
        without_tf32: within it, products in float32 are not in TF32.
        whole: what a function in float64 is called in: nothing, so that no mode's tracing is judged
            by tracing; one program where operation by operation takes minutes.
    """

    executables: type[Executable]
    narrow: Callable[[Any], Any]
    in_float64: Callable[[], AbstractContextManager[object]]
    without_tf32: Callable[[], AbstractContextManager[object]]
    whole: Wrap

    def compute_whole(self, compute: Callable[[Wrap], T], is_plausible: Callable[[T], bool]) -> T:
        """Result of a computation in `whole`; operation by operation if that is not plausible."""
        result = compute(self.whole)
        if self.whole is as_it_is or is_plausible(result):
            return result
        return compute(as_it_is)
