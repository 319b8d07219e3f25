"""Bind a model to an execution mode, and prove that the mode is in force.

Auto-clustering affects only the calls of its own mode: each call of a `tf.function` carries the
optimizer's JIT level, which is switched on before the auto-clustered mode runs and off before any
other. The flag that allows it on a CPU (`--tf_xla_cpu_global_jit`) does nothing by itself and is
set before TensorFlow loads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras.executable import Engine, Executable, as_it_is
from xla_sweeps.backends.tensorflow import devices
from xla_sweeps.backends.tensorflow.operations import clusters, computing, jit_compile, places
from xla_sweeps.schema.modes import Execution, Mode

JIT_COMPILE: Mapping[Execution, bool | None] = {
    Execution.DEFAULT: None,
    Execution.GRAPH: False,
    Execution.XLA: True,
    Execution.AUTOCLUSTER: None,
    Execution.DYNAMIC: False,
}
"""The argument of the `tf.function` of each execution as a graph."""

_OF_SEVERAL = (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)


def parts_of(outputs: Any) -> list[Any]:
    """The tensors of outputs: a ragged or sparse one is several."""
    return [
        part
        for head in tf.nest.flatten(outputs)
        for part in tf.nest.flatten(head, expand_composites=isinstance(head, _OF_SEVERAL))
    ]


@dataclass
class ModeExecutable(Executable):
    """One model in one mode on TensorFlow."""

    function: Any = None
    """The `tf.function`, or None for eager execution."""
    concrete: Any = None
    clusters: int = 0
    operations: int = 0
    """Number of operations that compute something in the graphs that ran; known after a call."""
    places: frozenset[str] = frozenset()
    """Devices of these and of calls of functions; known after a call."""
    sync_by_reading: ClassVar[bool] = False
    """Wait by reading a result, in every mode, where `sync_devices` does not wait on the device."""

    flatten = staticmethod(parts_of)

    @classmethod
    def bind(
        cls, call: Callable[[Any], Any], mode: Mode, inputs: Sequence[Any], **more: Any
    ) -> Self:
        """Bind a model to a mode; graph modes are traced here, and the tracing is timed."""
        if mode.execution is Execution.EAGER:
            return cls(mode=mode, run=call, inputs=inputs, **more)
        signature = tf.nest.map_structure(tf.TensorSpec.from_tensor, inputs[0])
        function = function_of(call, mode, [signature])
        activate(mode.execution)
        started = time.perf_counter()
        concrete = function.get_concrete_function()
        return cls(
            mode=mode,
            run=function,
            inputs=inputs,
            function=function,
            concrete=concrete,
            trace_s=time.perf_counter() - started,
            **more,
        )

    def prepare(self) -> None:
        """Switch on what this mode needs, and off what others need; restore state."""
        activate(self.mode.execution)
        super().prepare()

    def renew(self) -> bool:
        """Replace the inputs by new ones; False for a training, whose answers never repeat."""
        return self.restore is None and super().renew()

    def select(self, chosen: np.ndarray, one: Any, other: Any) -> Any:
        """Values of one tensor where they are chosen, else of the other, in their memory."""
        with tf.device(one.device):
            return devices.place_tensor(tf.where(chosen, one, other), one.device)

    @contextmanager
    def observe_first_call(self) -> Iterator[list[Any]]:
        """Note what runs in a first call; yields its graphs, which are there at the end.

        The operations of the graph are counted into `operations`, and the XLA clusters that
        TensorFlow makes of it into `clusters`; only a first call shows them. Uses a private module
        of TensorFlow, tried on 2.21.0: the public profiler does not show graphs.
        """
        from tensorflow.python.eager import context

        self.prepare()
        collector, graphs = context.context(), list[Any]()
        collector.enable_graph_collection()
        try:
            yield graphs
            for function in collector.export_run_metadata().function_graphs:
                graphs += function.partition_graphs
        finally:
            collector.disable_graph_collection()
        self.clusters = clusters(graphs)
        self.operations = computing(graphs)
        self.places = places(graphs)

    def count_operations(self) -> int | None:
        """Operations of the next call outside of functions; None where calls keep a state.

        Uses a private module of TensorFlow, tried on 2.21.0.
        """
        from tensorflow.python.eager import context

        if self.restore is not None:
            return None
        seen: list[str] = []

        def note(operation: str, *_: Any, graph: Any = None, **__: Any) -> None:
            seen.extend([operation] * (graph is None))

        context.context().add_op_callback(note)
        try:
            self.step()
        finally:
            context.context().remove_op_callback(note)
        return len(seen)

    def traces(self) -> int:
        """Number of traces of the mode's function; 0 for eager execution."""
        return 0 if self.function is None else int(self.function.experimental_get_tracing_count())

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.sync_by_reading:
            self.drain()
        else:
            devices.synchronize()

    def drain(self) -> None:
        """Wait by reading a scalar that depends on the last output."""
        for output in parts_of(self.last):
            float(tf.reduce_sum(tf.cast(output, tf.float32)))

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of place and compilation of the last call, and what contradicts the mode."""
        outputs = parts_of(self.last)
        problems, elsewhere = find_misplaced(
            [(output.device, output.dtype.is_floating) for output in outputs], device=device
        )
        evidence: dict[str, Any] = {
            "device": sorted({output.device for output in outputs}),
            "elsewhere": elsewhere,
            "executing_eagerly": self.function is None,
        }
        eagerly = tf.config.functions_run_eagerly()
        if self.function is None:
            problems += ["tf.config.run_functions_eagerly is on"] if eagerly else []
            return evidence, problems
        in_force = jit_compile(self.concrete.function_def)
        asked = JIT_COMPILE[self.mode.execution]
        if eagerly:
            problems.append("tf.config.run_functions_eagerly is on, so nothing runs as a graph")
        if in_force != asked:
            problems.append(f"jit_compile is {in_force}, expected {asked}")
        if self.mode.execution is Execution.GRAPH and self.clusters:
            problems.append(
                f"{self.clusters} auto-clusters run in graph mode; TF_XLA_FLAGS enable them in "
                "every mode"
            )
        if self.mode.execution is Execution.AUTOCLUSTER and not self.clusters:
            problems.append("auto-clustering made no clusters")
        return {**evidence, "jit_compile": in_force, "xla_clusters": self.clusters}, problems


def function_of(
    call: Callable[[Any], Any], mode: Mode, signature: Sequence[Any] | None = None
) -> Any:
    """The `tf.function` of a mode, which traces each new shape unless it has a signature."""

    def forward(batch: Any) -> Any:
        return call(batch)

    return tf.function(
        forward, jit_compile=JIT_COMPILE[mode.execution], input_signature=signature, autograph=False
    )


def activate(execution: Execution) -> None:
    """Switch auto-clustering on or off for the calls that follow, as an execution needs it."""
    wanted = "autoclustering" if execution is Execution.AUTOCLUSTER else False
    if (tf.config.optimizer.get_jit() or False) != wanted:
        tf.config.optimizer.set_jit(wanted)


@contextmanager
def _without_tf32() -> Iterator[None]:
    settings = tf.config.experimental
    earlier = settings.tensor_float_32_execution_enabled()
    settings.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        settings.enable_tensor_float_32_execution(earlier)


def find_misplaced(
    outputs: Sequence[tuple[str, bool]], *, device: str
) -> tuple[list[str], list[str]]:
    """Find outputs that show that the model ran elsewhere.

    TensorFlow keeps int32 in host memory, and has some operations for the CPU only. So this is
    shown only where no floating-point output is on the device; without any, all outputs count.

    Args:
        outputs: of each its device, and whether it is floating-point.
        device: where the model is to run.

    Returns:
        What is wrong, empty if nothing; and the devices of outputs that are not on `device`.
    """
    name = device.split("/")[-1]
    elsewhere = sorted({place for place, _ in outputs if name not in place})
    telling = [place for place, floating in outputs if floating] or [place for place, _ in outputs]
    if any(name in place for place in telling):
        return [], elsewhere
    return [f"output is on {place}, not on {device}" for place in elsewhere], elsewhere


def _narrow(output: Any) -> Any:
    is_floating = tf.is_tensor(output) and output.dtype.is_floating
    return tf.cast(output, tf.float32) if is_floating else output


ENGINE = Engine(
    executables=ModeExecutable,
    narrow=partial(tf.nest.map_structure, _narrow),
    in_float64=partial(tf.device, "/device:CPU:0"),
    without_tf32=_without_tf32,
    whole=as_it_is,
)
