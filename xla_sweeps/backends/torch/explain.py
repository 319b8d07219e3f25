"""Explain a model on PyTorch: where its graphs break, whether it exports whole, and its times."""

from __future__ import annotations

import json
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters, graph_break_reasons
from torch.profiler import record_function

from xla_sweeps.backends.keras.explain import roofline
from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.backends.keras.explain.explainer import Explainer, calls_within, resize_batch
from xla_sweeps.backends.keras.explain.trace import call_each
from xla_sweeps.backends.torch.bench import TorchBench
from xla_sweeps.backends.torch.declaration import BACKEND
from xla_sweeps.backends.torch.modes import breaks_after, limits_reached
from xla_sweeps.backends.torch.trace import LAYER, read_trace
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.explanation import Break, Capture, Explanation, Work
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Mode
from xla_sweeps.trial.failures import WRAPPER, error_line, first_line
from xla_sweeps.worker.backend import Tell
from xla_sweeps.worker.lines import line_of

LACKS = {
    **dict.fromkeys(
        ("registered", "refusals", "compiler", "traps", "hlo_operations", "program"),
        "PyTorch compiles with its own compiler, not with XLA",
    ),
    "graph_operations": "PyTorch has no graph mode; its graphs are above",
}
"""Parts that are not available on PyTorch, with the reason."""

_TELLS_NOTHING = (
    "The error above occurred when calling",
    "RuntimeError when making fake tensor call",
    WRAPPER,
)
"""Beginnings of first lines that name no reason; the error inside has it."""


class TorchExplainer(Explainer):
    """The steps of explaining a model on PyTorch."""

    backend = BACKEND
    version = torch.__version__
    modes = (Mode.TORCH_EAGER, Mode.TORCH_EXPORT)
    fastest = (Mode.TORCH_EAGER,)  # libraries compute one operation as fast as they can
    lacks = LACKS

    def __init__(self, bench: TorchBench, tell: Tell) -> None:
        super().__init__(bench, tell, captures=None)

    def explain(self, *, trace: bool) -> Explanation:
        """Capture the model in both ways, and compile what was exported."""
        self.begin(Phase.TRACE, Mode.TORCH_COMPILE)
        with torch.inference_mode():
            compiled = self._capture()
        self.note(captures=(compiled,))
        self.begin(Phase.TRACE, Mode.TORCH_EXPORT)
        self.ran[Mode.TORCH_EAGER] = self.bench.bind(Mode.TORCH_EAGER)
        exported = self._export()
        self.note(captures=(compiled, exported), operations=exported.calls or None)
        self.begin(Phase.MEASURE)
        if not trace:
            self.miss("left out by --no-trace", "time")
        if exported.refusal:
            self.miss("the model is not exported as one graph", "time")
        if self.on_cpu:
            self.miss("PyTorch's trace has no operations of a compiled graph on a CPU", "time")
        with self.or_missing("roofline", "time"):
            for executable in self.ran.values():
                executable.step()
            self.break_down()
        return self.explanation

    def traced_calls(self) -> tuple[Sequence[Event], Mapping[Mode, Mapping[str, OpWork]]]:
        """Events of a few calls of each mode, the layers of eager ones by their names."""
        eager, exported = ({mode: self.ran[mode]} for mode in self.modes)
        with torch.profiler.profile() as profile:
            with calls_within(self.layers, lambda name: record_function(f"{LAYER}{name}")):
                call_each(eager, record_function)
            call_each(exported, record_function)
        with tempfile.NamedTemporaryFile(prefix="xla-sweeps-", suffix=".json") as file:
            profile.export_chrome_trace(file.name)
            events, work = read_trace(json.loads(Path(file.name).read_bytes()))
        return events, dict.fromkeys(self.modes, work)

    def least_work(self) -> Work:
        """The least work of one call, by PyTorch's own count."""
        bench = self.bench
        bench.count_macs(self.tell)
        facts, batch, size = bench.facts, bench.inputs[0], bench.trial.batch_size
        if facts.macs is None:
            raise XlaSweepsError(facts.macs_note)
        with torch.inference_mode():
            outputs = bench.built.call(batch)
        return Work(
            macs_by_type={kind: count * size for kind, count in facts.macs_by_type.items()},
            weight_bytes=roofline.bytes_of([each.value for each in bench.built.loaded.variables]),
            input_bytes=roofline.bytes_of(batch),
            output_bytes=roofline.bytes_of(outputs),
        )

    def _export(self) -> Capture:
        """Export and compile the model; it is in `ran` where all of it is captured."""
        way = Mode.TORCH_EXPORT.switch
        try:
            executable = self.bench.bind(Mode.TORCH_EXPORT)
            self.begin(Phase.COMPILE, Mode.TORCH_EXPORT)
            executable.first_call_s()
        except Exception as error:
            traceback.print_exc()
            return _capture_of_refusal(way, error)
        self.ran[Mode.TORCH_EXPORT] = executable
        figures = executable.figures
        return Capture(way=way, graphs=figures["graphs"], calls=figures["calls_captured"])

    def _capture(self) -> Capture:
        """Call the model under `torch.compile`, which captures graphs and runs them eagerly."""
        batch, size = self.bench.inputs[0], self.bench.trial.batch_size
        calls = {"the same batch": batch}
        if self.batch is None:
            sizes = [size - 1 or 2, size + 2]
            calls |= {f"a batch of {size}": resize_batch(batch, size) for size in sizes}
        way = Mode.TORCH_COMPILE.switch
        counters.clear()
        graph_break_reasons.clear()
        call = torch.compile(self.bench.built.call, backend="eager")
        with limits_reached() as gave_up:
            try:
                call(batch)
            except Exception as error:
                traceback.print_exc()
                return _capture_of_refusal(way, error)
            stats = dict(counters["stats"])
            breaks = _breaks(dict(reversed(breaks_after(0))), counters["graph_break"])
            more, refused = _graphs_of_each(call, calls)
        return Capture(
            way=way,
            graphs=stats["unique_graphs"],
            calls=stats["calls_captured"],
            breaks=breaks,
            recompilations=more,
            refused=refused,
            limit=torch._dynamo.config.recompile_limit,
            gave_up=tuple(dict.fromkeys(gave_up)),
        )


def _graphs_of_each(
    call: Callable[[Any], Any], batches: Mapping[str, Any]
) -> tuple[dict[str, int], dict[str, str]]:
    """Number of graphs that a further call on each batch captures, or the reason why it fails."""
    graphs, refused = dict[str, int](), dict[str, str]()
    for words, batch in batches.items():
        before: int = counters["stats"]["unique_graphs"]
        try:
            call(batch)
        except Exception as error:
            traceback.print_exc()
            refused[words] = _reason_of(error)
        else:
            graphs[words] = int(counters["stats"]["unique_graphs"]) - before
    return graphs, refused


def _breaks(lines: Mapping[str, str], counted: Mapping[str, int]) -> tuple[Break, ...]:
    """Breaks by reason, the most frequent first; with a line where a graph ended there."""
    times = Counter[str]()
    for reason, count in counted.items():
        times[first_line(reason)] += count
    return tuple(
        Break(reason=reason, times=count, line=lines.get(reason, ""))
        for reason, count in times.most_common()
    )


def _capture_of_refusal(way: str, error: Exception) -> Capture:
    """A capture that failed, with the first reason and its place."""
    return Capture(way=way, graphs=None, refusal=_reason_of(error), place=line_of(error))


def _reason_of(error: Exception) -> str:
    """The first line of an error, or of those inside it, that names a reason."""
    reasons, inner = [error_line(error)], error.__cause__ or error.__context__
    while inner is not None:
        reasons.append(error_line(inner))
        inner = inner.__cause__ or inner.__context__
    telling = (reason for reason in reasons if not reason.startswith(_TELLS_NOTHING))
    return next(telling, reasons[0])
