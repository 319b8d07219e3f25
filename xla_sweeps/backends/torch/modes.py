"""Bind a model to an execution mode of PyTorch, and prove that the mode is in force.

Gradients are off but for training: each call of the model is in `torch.inference_mode`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Self

import keras
import numpy as np
import torch
from torch._dynamo.utils import calculate_time_spent, counters

from xla_sweeps.backends.keras.sources.inputs import mixed
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Execution, Mode


class _Forward(torch.nn.Module):  # type: ignore[misc]
    """A call as a module, which `torch.export` needs; the model's parameters are its own."""

    def __init__(self, call: Callable[[Any], Any], model: Any) -> None:
        super().__init__()
        self.call = call
        if isinstance(model, torch.nn.Module):
            self.model = model

    def forward(self, batch: Any) -> Any:
        """One call."""
        return self.call(batch)


def _captured() -> dict[str, Any]:
    """Graphs and calls that torch has captured in this process, graph breaks, and seconds."""
    spent_s = calculate_time_spent()
    compile_s = spent_s.get("backend_compile", 0.0)
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "calls_captured": counters["stats"]["calls_captured"],
        "graph_breaks": sum(counters["graph_break"].values()),
        "trace_s": spent_s.get("entire_frame_compile", 0.0) - compile_s,
        "compile_s": compile_s + spent_s.get("entire_backward_compile", 0.0),
    }


@dataclass
class TorchExecutable:
    """One model in one mode with its inputs on the device; satisfies `worker.Executable`.

    Attributes:
        run: one call on a batch; of a training step, on a state and a batch.
        figures: what the first call captured, for the proof.
    """

    mode: Mode
    run: Callable[..., Any]
    inputs: Sequence[Any]
    trace_s: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    position: int = 0
    last: Any = field(default=None, repr=False)

    @classmethod
    def bind(
        cls, call: Callable[[Any], Any], mode: Mode, inputs: Sequence[Any], *, model: Any = None
    ) -> Self:
        """Bind a model to a mode; `torch.export` traces here, and that is timed.

        Args:
            call: the forward pass.
            mode: what to bind it to.
            inputs: batches of one shape and dtype, on the device.
            model: the Keras model, whose parameters the exported program takes.
        """
        if mode.execution is Execution.COMPILED:
            return cls(mode=mode, run=_inferring(compiled(call)), inputs=inputs)
        if mode.execution is not Execution.EXPORTED:
            return cls(mode=mode, run=_inferring(call), inputs=inputs)
        started = time.perf_counter()
        with torch.inference_mode():
            program = torch.export.export(_Forward(call, model), (inputs[0],), strict=False)
        trace_s = time.perf_counter() - started
        run = _inferring(torch.compile(program.module(), fullgraph=True))
        return cls(mode=mode, run=run, inputs=inputs, trace_s=trace_s)

    def prepare(self) -> None:
        """Nothing: a mode of PyTorch is another function, and no switch."""

    def step(self) -> None:
        """Start one call on the next of the rotating inputs."""
        self.last = self.run(self.inputs[self.position])
        self.position = (self.position + 1) % len(self.inputs)

    def synchronize(self) -> None:
        """Wait for the GPU; on a CPU calls return when they are done."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def drain(self) -> None:
        """Wait by reading one number of the last output."""
        keras.tree.flatten(self.last)[-1].reshape(-1)[0].item()

    def renew(self) -> bool:
        """Replace the inputs by new ones, and wait until they are on the device."""
        self.inputs = keras.tree.map_structure(keras.ops.convert_to_tensor, mixed(self.inputs))
        self.synchronize()
        return True

    def first_call_s(self) -> float:
        """Seconds of compiling and the first call, with a synchronization."""
        before = _captured()
        started = time.perf_counter()
        self.step()
        self.synchronize()
        elapsed_s = time.perf_counter() - started
        self.figures = {name: count - before[name] for name, count in _captured().items()}
        return elapsed_s

    def outputs(self, position: int = 0) -> list[np.ndarray]:
        """Outputs for one of the inputs: one float64 array per head, shape (batch, ...)."""
        return read(self.run(self.inputs[position]))

    def last_outputs(self) -> list[np.ndarray]:
        """Outputs of the last call."""
        return read(self.last)

    def traces(self) -> int:
        """Graphs that torch has captured so far; 0 for eager execution."""
        return 0 if self.mode.execution is Execution.EAGER else _captured()["graphs"]

    def effective(self, *, device: str) -> dict[str, Any]:
        """Evidence of what is in force, read back by another call, with `in_force` and `reason`."""
        before = _captured()["graphs"]
        self.step()
        self.synchronize()
        again = _captured()["graphs"] - before
        places = self.places()
        elsewhere = sorted({str(place) for place in places if place.type != device})
        problems = [f"a tensor is on {place}, not on {device}" for place in elsewhere]
        graphs, breaks = self.figures["graphs"], self.figures["graph_breaks"]
        if self.mode.execution is Execution.EAGER:
            problems += [f"{graphs} graphs were compiled"] if graphs else []
        elif graphs != 1 or breaks:
            problems.append(
                f"torch.compile captured {graphs} graphs with {breaks} graph breaks, not the model "
                "as one graph"
            )
        if again:
            problems.append(f"{again} graphs were compiled in the second call")
        return {
            **self.figures,
            "recompilations": again,
            "device": sorted(set(map(str, places))),
            "elsewhere": elsewhere,
            "in_force": not problems,
            "reason": "; ".join(problems),
        }

    def places(self) -> list[Any]:
        """Devices of the last call's outputs."""
        return [head.device for head in keras.tree.flatten(self.last)]

    def extras(self) -> dict[str, Any]:
        """Figures besides the times of calls, by their names in `ModeOutcome`."""
        return {}


def compiled(function: Any) -> Any:
    """`torch.compile` of a copy: what PyTorch compiled of a function's code it would not again."""
    own = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    return torch.compile(own)


def _inferring(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(batch: Any) -> Any:
        with torch.inference_mode():
            return call(batch)

    return run


def read(outputs: Any, *, dtype: Any = np.float64) -> list[np.ndarray]:
    """Outputs as arrays, one per head; `dtype` None keeps theirs.

    Raises:
        ConfigError: the model returned something else than tensors.
    """
    heads = keras.tree.flatten(outputs)
    for head in heads:
        if not isinstance(head, torch.Tensor | np.ndarray):
            raise ConfigError(
                f"the model returned {'None' if head is None else f'a {type(head).__name__}'}; "
                "tensors are needed, alone or in lists, tuples or dictionaries"
            )
    arrays = [keras.ops.convert_to_numpy(head) for head in heads]
    return arrays if dtype is None else [array.astype(dtype) for array in arrays]
