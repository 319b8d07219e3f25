"""Explain a model on PyTorch: where its graphs break, whether it exports whole, and its times."""

from __future__ import annotations

import logging
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo.utils import counters

from xla_sweeps.backends.keras.explain import roofline
from xla_sweeps.backends.keras.explain.findings import Findings, begun, explain_bench, resized
from xla_sweeps.backends.keras.explain.lines import innermost_line, line_of
from xla_sweeps.backends.torch.backend import Torch
from xla_sweeps.backends.torch.bench import TorchBench
from xla_sweeps.backends.torch.declaration import BACKEND
from xla_sweeps.backends.torch.modes import TorchExecutable
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.measure import protocol
from xla_sweeps.measure.failures import error_line
from xla_sweeps.schema.capture import Break, Capture
from xla_sweeps.schema.explanation import Work
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Mode
from xla_sweeps.worker.backend import Tell

LACKS = {
    **dict.fromkeys(
        ("registered", "refusals", "compiler", "traps", "clustering", "hlo_operations", "program"),
        "PyTorch compiles with its own compiler, not with XLA",
    ),
    "graph_operations": "PyTorch has no graph mode; its graphs are above",
    "time": "the trace of PyTorch's profiler is not read",
}
"""Parts that are not available on PyTorch, with the reason."""

_TELLS_NOTHING = ("The error above occurred when calling", BACKEND.wrapper)
"""Beginnings of first lines that name no reason; the error inside has it."""

_LIMIT = re.compile(r"'(?P<name>[^']+)' \((?P<file>.+):(?P<line>\d+)\)")


def explain(request: protocol.Explain, tell: Tell) -> None:
    """Explain the model of a job, and send what is found."""
    explain_bench(request, tell, Torch(), lambda bench: TorchFindings(bench, tell).explain())


class TorchFindings(Findings):
    """The steps of explaining a model, which share what they left."""

    def __init__(self, bench: TorchBench, tell: Tell) -> None:
        self._bench = bench
        framework = f"{BACKEND.title} {torch.__version__}"
        super().__init__(begun(bench, framework, LACKS, captures=None), tell)

    def explain(self) -> None:
        """Capture the model in both ways, compile what was exported, and time a few calls."""
        self.begin(Phase.TRACE, Mode.TORCH_COMPILE)
        with torch.inference_mode():
            compiled = self._capture()
        self.note(captures=(compiled,))
        self.begin(Phase.TRACE, Mode.TORCH_EXPORT)
        exported, executable = self._export()
        self.note(captures=(compiled, exported), operations=exported.calls or None)
        ran = {str(Mode.TORCH_EAGER): self._bench.bind(Mode.TORCH_EAGER)}
        if executable is not None:
            ran[str(Mode.TORCH_EXPORT)] = executable
        self.begin(Phase.MEASURE)
        with self.or_missing("roofline"):
            for each in ran.values():
                each.step()
            on_cpu = self._bench.device == "cpu"
            bound = roofline.measured(self._work(), ran, bind=_bound, on_cpu=on_cpu)
            self.note(roofline=bound)
        self.end("not told on PyTorch")

    def _export(self) -> tuple[Capture, TorchExecutable | None]:
        """Export and compile the model: what is captured, and its executable where all of it is."""
        way = Mode.TORCH_EXPORT.switch
        try:
            executable = self._bench.bind(Mode.TORCH_EXPORT)
            self.begin(Phase.COMPILE, Mode.TORCH_EXPORT)
            executable.first_call_s()
        except Exception as error:
            traceback.print_exc()
            return _refused(way, error), None
        figures = executable.figures
        capture = Capture(way=way, graphs=figures["graphs"], calls=figures["calls_captured"])
        return capture, executable

    def _capture(self) -> Capture:
        """Call the model under `torch.compile`, which captures graphs and runs them eagerly."""
        batch, size = self._bench.inputs[0], self._bench.trial.batch_size
        calls = {"the same batch": batch}
        if self._bench.built.loaded.batch is None:
            sizes = [size - 1 or 2, size + 2]
            calls |= {f"a batch of {size}": resized(batch, size) for size in sizes}
        way, reasons = Mode.TORCH_COMPILE.switch, list[Any]()

        def collect(graph: Any, _: Any) -> Any:
            reasons.append(getattr(graph, "compile_subgraph_reason", None))
            return graph.forward

        before = {name: Counter(counters[name]) for name in ("stats", "graph_break")}
        call = torch.compile(self._bench.built.call, backend=collect)
        with _limits_reached() as gave_up:
            try:
                call(batch)
            except Exception as error:
                traceback.print_exc()
                return _refused(way, error)
            stats = Counter(counters["stats"]) - before["stats"]
            breaks = _breaks(reasons, Counter(counters["graph_break"]) - before["graph_break"])
            more = {words: _graphs_of(call, other) for words, other in calls.items()}
        return Capture(
            way=way,
            graphs=stats["unique_graphs"],
            calls=stats["calls_captured"],
            breaks=breaks,
            recompilations=more,
            limit=torch._dynamo.config.recompile_limit,
            gave_up=tuple(dict.fromkeys(gave_up)),
        )

    def _work(self) -> Work:
        """The least work of one call.

        Raises:
            XlaSweepsError: multiply-accumulates cannot be counted.
        """
        bench = self._bench
        bench.count_macs(self.tell)
        facts, batch = bench.facts, bench.inputs[0]
        if facts.macs is None:
            raise XlaSweepsError(facts.macs_note)
        with torch.inference_mode():
            outputs = bench.built.call(batch)
        return Work(
            macs_by_type={
                kind: count * bench.trial.batch_size for kind, count in facts.macs_by_type.items()
            },
            weight_bytes=roofline.bytes_of([each.value for each in bench.built.loaded.variables]),
            input_bytes=roofline.bytes_of(batch),
            output_bytes=roofline.bytes_of(outputs),
        )


def _graphs_of(call: Callable[[Any], Any], batch: Any) -> int:
    """Number of graphs that a further call captures."""
    before: int = counters["stats"]["unique_graphs"]
    call(batch)
    return int(counters["stats"]["unique_graphs"]) - before


def _breaks(reasons: list[Any], counted: Mapping[str, int]) -> tuple[Break, ...]:
    """Breaks by reason, the most frequent first; with a line where a graph ended there.

    Args:
        reasons: of the end of each graph.
        counted: breaks by the text of their reason, those without operations before them too.
    """
    lines = {
        _first_line(each.reason): innermost_line(
            [(frame.filename, frame.lineno) for frame in each.user_stack], frameworks=True
        )
        for each in reversed(reasons)
        if each is not None and each.graph_break
    }
    times = Counter[str]()
    for reason, count in counted.items():
        times[_first_line(reason)] += count
    return tuple(
        Break(reason=reason, times=count, line=lines.get(reason, ""))
        for reason, count in times.most_common()
    )


def _refused(way: str, error: Exception) -> Capture:
    """A capture that failed, with the first reason and its place."""
    reasons, inner = [error_line(error)], error.__cause__ or error.__context__
    while inner is not None:
        reasons.append(error_line(inner))
        inner = inner.__cause__ or inner.__context__
    telling = (reason for reason in reasons if not reason.startswith(_TELLS_NOTHING))
    refusal = next(telling, reasons[0])
    return Capture(way=way, graphs=None, refusal=refusal, place=line_of(error))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


@contextmanager
def _limits_reached() -> Iterator[list[str]]:
    """Functions that reach the limit of recompilations meanwhile, from torch's own log."""
    reached = list[str]()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            given = record.args if isinstance(record.args, tuple) else ()
            is_limit = given[:1] == ("recompile_limit",)
            match = _LIMIT.search(str(given[2])) if is_limit and len(given) > 2 else None
            if match:
                place = innermost_line([(match["file"], int(match["line"]))], frameworks=True)
                reached.append(f"{match['name']} ({place})" if place else match["name"])

    handler, logger = Handler(), logging.getLogger("torch._dynamo.convert_frame")
    logger.addHandler(handler)
    try:
        yield reached
    finally:
        logger.removeHandler(handler)


def _bound(call: Callable[[Any], Any], argument: Any) -> list[TorchExecutable]:
    """A call on an argument, eagerly: libraries compute single operations as fast as they can."""
    return [TorchExecutable.bind(call, Mode.TORCH_EAGER, [argument])]
