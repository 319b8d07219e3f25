"""Bind a model to an execution mode of PyTorch, and prove that the mode is in force.

Gradients are off but for training: each call of the model is in `torch.inference_mode`.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any, Self

import keras
import torch
from torch._dynamo.utils import calculate_time_spent, counters, graph_break_reasons

from xla_sweeps.backends.keras.executable import Engine, Executable, as_it_is
from xla_sweeps.schema.modes import Execution, Mode
from xla_sweeps.trial.failures import first_line
from xla_sweeps.worker.lines import innermost_line

_OPTIONS: Mapping[Execution, Mapping[str, Any]] = {
    Execution.COMPILED: {},
    Execution.REDUCED: {"mode": "reduce-overhead"},
    Execution.TUNED: {"mode": "max-autotune"},
    Execution.DYNAMIC: {"dynamic": True},
}
"""Options of `torch.compile` for each of its modes."""

_SETTLING = 4
"""Calls after the first in which a mode may compile again."""

_SHOWN = 3
"""Graph breaks that are shown with their lines."""

_LIMIT = re.compile(r"'(?P<name>[^']+)' \((?P<file>.+):(?P<line>\d+)\)")


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


class TorchExecutable(Executable):
    """One model in one mode on PyTorch."""

    @classmethod
    def bind(
        cls, call: Callable[[Any], Any], mode: Mode, inputs: Sequence[Any], *, model: Any = None
    ) -> Self:
        """Bind a model to a mode; `torch.export` traces here, and that is timed."""
        if (options := _OPTIONS.get(mode.execution)) is not None:
            return cls(mode=mode, run=_inferring(compile_call(call, **options)), inputs=inputs)
        if mode.execution is not Execution.EXPORTED:
            return cls(mode=mode, run=_inferring(call), inputs=inputs)
        started = time.perf_counter()
        with torch.inference_mode():
            program = torch.export.export(_Forward(call, model), (inputs[0],), strict=False)
        trace_s = time.perf_counter() - started
        run = _inferring(torch.compile(program.module(), fullgraph=True))
        return cls(mode=mode, run=run, inputs=inputs, trace_s=trace_s)

    def synchronize(self) -> None:
        """Wait for the GPU; on a CPU calls return when they are done."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    @contextmanager
    def observe_first_call(self) -> Iterator[None]:
        """Count what is captured in the first call."""
        before, broken = capture_counts(), len(graph_break_reasons)
        with limits_reached() as gave_up:
            yield
        self.figures = {name: count - before[name] for name, count in capture_counts().items()}
        reasons = {line: reason for reason, line in reversed(breaks_after(broken))}
        lines = [f"{line} ({reason})" for line, reason in reversed(reasons.items())]
        self.figures |= {"breaks": lines[:_SHOWN], "gave_up": gave_up}

    def count_operations(self) -> int | None:
        """Operations of the next call that PyTorch dispatches; a compiled region has fewer."""
        with torch.autograd.profiler.profile() as profile:
            self.step()
        return len([each for each in profile.function_events if each.name.startswith("aten::")])

    def traces(self) -> int:
        """Graphs that torch has captured so far; 0 for eager execution."""
        return 0 if self.mode.execution is Execution.EAGER else capture_counts()["graphs"]

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of further calls, and of the graphs that the first one captured.

        A second value may be captured once more, as a number that varies: such a mode is called
        until it captures nothing.
        """
        before = last = capture_counts()["graphs"]
        with limits_reached() as gave_up:
            for _ in range(_SETTLING):
                earlier = last
                self.step()
                self.synchronize()
                last = capture_counts()["graphs"]
                if last == earlier:
                    break
        self.figures["gave_up"] += gave_up
        places = self.places()
        elsewhere = sorted({str(place) for place in places if place.type != device})
        problems = [f"a tensor is on {place}, not on {device}" for place in elsewhere]
        evidence: dict[str, Any] = {"device": sorted(set(map(str, places))), "elsewhere": elsewhere}
        graphs, breaks = self.figures["graphs"], self.figures["graph_breaks"]
        if self.mode.execution is Execution.EAGER:
            problems += [f"{graphs} graphs were compiled"] if graphs else []
        elif graphs != 1 or breaks:
            told = f"{graphs} graphs with {breaks} graph breaks"
            lines = ": " * bool(self.figures["breaks"]) + ", ".join(self.figures["breaks"])
            if not graphs or self.figures["gave_up"] or self.mode.execution is Execution.EXPORTED:
                problems.append(f"torch.compile captured {told}, not the model as one graph{lines}")
            else:
                evidence["broken"] = f"{told}{lines}"
        if last != earlier:
            problems.append(f"each of {_SETTLING} further calls compiled again")
        return {"recompilations": last - before, **evidence}, problems

    def places(self) -> list[Any]:
        """Devices of the last call's outputs."""
        return [head.device for head in keras.tree.flatten(self.last)]


def capture_counts() -> dict[str, Any]:
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


def breaks_after(earlier: int) -> list[tuple[str, str]]:
    """Reason and line of each graph break after so many earlier ones."""
    breaks = []
    for each in graph_break_reasons[earlier:]:
        frames = [(one.filename, one.lineno) for one in each.user_stack]
        breaks.append((first_line(each.reason), innermost_line(frames, frameworks=True)))
    return breaks


@contextmanager
def limits_reached() -> Iterator[list[str]]:
    """Functions that reach the limit of recompilations meanwhile, from torch's own log."""
    reached, logger = list[str](), logging.getLogger("torch._dynamo.convert_frame")

    def note(record: logging.LogRecord) -> bool:
        given = record.args if isinstance(record.args, tuple) else ()
        is_limit = given[:1] == ("recompile_limit",) and len(given) > 2
        if is_limit and (match := _LIMIT.search(str(given[2]))):
            place = innermost_line([(match["file"], int(match["line"]))], frameworks=True)
            reached.append(f"{match['name']} ({place})" if place else match["name"])
        return True

    logger.addFilter(note)
    try:
        yield reached
    finally:
        logger.removeFilter(note)


def compile_call(function: Any, **options: Any) -> Any:
    """`torch.compile` of a copy: what PyTorch compiled of a function's code it would not again."""
    own = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    return torch.compile(own, **options)


def _inferring(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(batch: Any) -> Any:
        with torch.inference_mode():
            return call(batch)

    return run


@contextmanager
def _without_tf32() -> Iterator[None]:
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    earlier = [each.allow_tf32 for each in backends]
    try:
        for each in backends:
            each.allow_tf32 = False
        yield
    finally:
        for each, allowed in zip(backends, earlier, strict=True):
            each.allow_tf32 = allowed


def _narrow(output: Any) -> Any:
    is_floating = isinstance(output, torch.Tensor) and output.is_floating_point()
    return output.float() if is_floating else output


ENGINE = Engine(
    executables=TorchExecutable,
    narrow=partial(keras.tree.map_structure, _narrow),
    in_float64=partial(keras.device, "cpu"),
    without_tf32=_without_tf32,
    whole=as_it_is,
)
