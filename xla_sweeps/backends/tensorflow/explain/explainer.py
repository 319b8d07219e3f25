"""Explain a model on TensorFlow: its graph, and what XLA has no kernel for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.backends.keras.explain.program import work_by_name
from xla_sweeps.backends.keras.explain.trace import call_each
from xla_sweeps.backends.keras.explain.under_xla import XlaExplainer
from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.backends.tensorflow import profiler
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.backends.tensorflow.explain import graph, refusals
from xla_sweeps.backends.tensorflow.explain.traps import LOOKS, narrows
from xla_sweeps.backends.tensorflow.operations import computing, lower
from xla_sweeps.schema.explanation import Place
from xla_sweeps.schema.modes import Mode
from xla_sweeps.trial.failures import error_text
from xla_sweeps.worker.backend import Tell

_SIZES = ("While", "StatelessWhile", "TensorListReserve")


class TensorFlowExplainer(XlaExplainer):
    """The steps of explaining a model on TensorFlow."""

    backend = BACKEND
    version = tf.__version__
    modes = fastest = (Mode.GRAPH, Mode.XLA)
    looks = LOOKS

    def __init__(self, bench: Bench, tell: Tell) -> None:
        super().__init__(
            bench,
            tell,
            device=refusals.DEVICES["gpu" if "GPU" in bench.device else "cpu"],
            registered=refusals.registered_devices(),
        )
        self.ops, self.graphs = list[graph.TracedOp](), list[Any]()

    def trace(self) -> None:
        """Trace the graph, and note what XLA has no kernel for."""
        with graph.noting_layers(self.layers) as noted:
            self.baseline = self.bench.bind(Mode.GRAPH)
        self.ops = graph.traced_ops(self.baseline.concrete, noted)
        self.origins = graph.Origins(self.ops)
        self.note(operations=len(self.ops), refusals=refusals.refusals(self.ops))

    def compile(self) -> None:
        """Lower the model for two batches."""
        self.compiled = self.bench.bind(Mode.XLA)
        inputs, function = self.bench.inputs[:2], self.compiled.function
        self.lowered = [lower(function, batch) for batch in inputs]

    def run_first(self) -> list[Any]:
        """Outputs of the first call in graph mode, which shows the graph that runs."""
        with self.baseline.observe_first_call() as self.graphs:
            self.baseline.timed_s(self.baseline.step)
        with self.or_missing("graph_operations"):
            self.note(graph_operations=computing(self.graphs))
        return super().run_first()

    def optimize(self, *, calls: int) -> Module:
        """The program that ran, from the profiler."""
        with profiler.record_profile() as self._space:
            call_each(self.ran, tf.profiler.experimental.Trace, calls=calls)
        return Module(self._space.program(self.compiled.concrete.name.decode().strip("_")))

    def traced_calls(self) -> tuple[Sequence[Event], Mapping[Mode, Mapping[str, OpWork]]]:
        """Events of the same calls, and the work of nodes of the graph and of the program."""
        return list(self._space.events()), {
            Mode.GRAPH: graph.graph_work(self.graphs, self.origins),
            Mode.XLA: work_by_name(self.optimized, self.origins, self.origins.line),
        }

    def layer_of(self, name: str) -> str:
        """The layer of an operation, which XLA names as TensorFlow does."""
        return self.origins(name)

    def places_of(self, error: Exception) -> tuple[Place, ...]:
        """The operations that the text of an error names."""
        return graph.named_in(error_text(error), self.ops)

    def resizing(self) -> list[Place]:
        """Loops, else operations that set a shape."""
        return self.places(*_SIZES) or self.places("Reshape", "EnsureShape")

    def narrowing(self) -> list[Place]:
        """Casts of floating numbers to integers."""
        return [traced.place for traced in self.ops if narrows(traced)]

    def places(self, *ops: str) -> list[Place]:
        """The places of operations of some types."""
        return [traced.place for traced in self.ops if traced.op in ops]
