"""Read the trace of PyTorch's profiler: kernels of a GPU, under the operations that start them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.backends.keras.explain.kernels import kind_of
from xla_sweeps.schema.explanation import Kind

LAYER = "layer: "
"""Begin of the annotation of a layer's call."""

_ON_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})

_STARTS = frozenset({"cuda_runtime", "cuda_driver"})

_HOST = _STARTS | {"cpu_op", "user_annotation"}


def read_trace(trace: Mapping[str, Any]) -> tuple[list[Event], dict[str, OpWork]]:
    """The host's annotations and what a GPU ran, and the work of each of the latter's operations.

    Takes what `export_chrome_trace` of PyTorch 2.11.0 writes.
    """
    spans = [each for each in trace["traceEvents"] if each.get("ph") == "X"]
    origins, work, events = dict(_origins(spans)), dict[str, OpWork](), list[Event]()
    for each in spans:
        name, on_gpu, facts = each["name"], each["cat"] in _ON_GPU, {}
        if on_gpu:
            layer, op = origins.get(each["args"].get("correlation"), ("", ""))
            operation, kind = f"{layer}/{op}/{name}", kind_of(name)
            kind = kind_of(op) if kind is Kind.ELEMENTWISE else kind
            work[operation] = OpWork(kind, {layer: 1.0})
            facts = {"tf_op": f"{operation}:"}
        elif each["cat"] != "user_annotation":
            continue
        start_s = each["ts"] / 1e6
        events.append(Event(name, start_s, start_s + each["dur"] / 1e6, facts, on_gpu))
    return events, work


def _origins(spans: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, tuple[str, str]]]:
    """What is open on the host where each kernel is started: its layer, and outermost operation."""
    host = [each for each in spans if each["cat"] in _HOST]
    open_spans = list[Mapping[str, Any]]()
    for each in sorted(host, key=lambda span: (span["tid"], span["ts"], -span["dur"])):
        while open_spans and not _holds(open_spans[-1], each):
            open_spans.pop()
        if each["cat"] not in _STARTS:
            open_spans.append(each)
        elif "correlation" in each["args"]:
            names = [span["name"] for span in open_spans]
            layers = [name.removeprefix(LAYER) for name in names if name.startswith(LAYER)]
            operations = [name for name in names if name.startswith("aten::")]
            yield each["args"]["correlation"], ((layers or [""])[-1], (operations or [""])[0])


def _holds(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> bool:
    return bool(outer["tid"] == inner["tid"] and inner["ts"] < outer["ts"] + outer["dur"])
