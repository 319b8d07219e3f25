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
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.tensorflow import devices, models
from xla_sweeps.backends.tensorflow.operations import clusters, computing, jit_compile, places
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Execution, Mode

JIT_COMPILE: Mapping[Execution, bool | None] = {
    Execution.DEFAULT: None,
    Execution.GRAPH: False,
    Execution.XLA: True,
    Execution.AUTOCLUSTER: None,
}
"""The argument of the `tf.function` of each execution as a graph."""


@dataclass
class ModeExecutable:
    """One model in one mode with its inputs on the device; satisfies `timing.Executable`."""

    mode: Mode
    run: Callable[[Any], Any]
    inputs: Sequence[Any]
    function: Any = None
    """The `tf.function`, or None for eager execution."""
    concrete: Any = None
    trace_s: float | None = None
    clusters: int = 0
    operations: int = 0
    """Number of operations that compute something in the graphs that ran; known after a call."""
    places: frozenset[str] = frozenset()
    """Devices of these and of calls of functions; known after a call."""
    sync_by_reading: bool = False
    """Wait by reading a result, on a device where `sync_devices` does not wait."""
    restore: Callable[[], None] | None = None
    """Gives what calls change its values again, before each block."""
    position: int = 0
    last: Any = field(default=None, repr=False)

    @classmethod
    def bind(
        cls, call: Callable[[Any], Any], mode: Mode, inputs: Sequence[Any], **more: Any
    ) -> Self:
        """Bind a model to a mode; graph modes are traced here, and the tracing is timed.

        Args:
            call: the forward pass.
            mode: what to bind it to; its entry does not matter here.
            inputs: batches of one shape and dtype, on the device.
            more: further fields of the executable.
        """
        if mode.execution is Execution.EAGER:
            return cls(mode=mode, run=call, inputs=inputs, **more)
        signature = tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), inputs[0]
        )

        def forward(batch: Any) -> Any:
            return call(batch)

        function = tf.function(
            forward,
            jit_compile=JIT_COMPILE[mode.execution],
            input_signature=[signature],
            autograph=False,
        )
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
        if self.restore is not None:
            self.restore()

    def step(self) -> None:
        """Start one call on the next of the rotating inputs."""
        self.last = self.run(self.inputs[self.position])
        self.position = (self.position + 1) % len(self.inputs)

    def renew(self) -> bool:
        """Replace the inputs by new ones; False for a training, whose answers never repeat."""
        if self.restore is not None:
            return False
        self.inputs = mixed(self.inputs)
        devices.synchronize()  # they are on the device
        return True

    def first_call_s(self) -> float:
        """Seconds of the first call with a synchronization; XLA compiles in it.

        Raises whatever TensorFlow raises.
        """
        with self.observed():
            return self.timed_s(self.step)

    @contextmanager
    def observed(self) -> Iterator[list[Any]]:
        """Note what runs in a first call; yields its graphs, which are there at the end.

        The operations of the graph are counted into `operations`, and the XLA clusters that
        TensorFlow makes of it into `clusters`; only a first call shows them.
        """
        self.prepare()
        with collected_graphs() as graphs:
            yield graphs
        self.clusters = clusters(graphs)
        self.operations = computing(graphs)
        self.places = places(graphs)

    def timed_s(self, call: Callable[[], None]) -> float:
        """Seconds of a call with a synchronization."""
        started = time.perf_counter()
        call()
        self.synchronize()
        return time.perf_counter() - started

    def traces(self) -> int:
        """Number of traces of the mode's function; 0 for eager execution."""
        if self.function is None:
            return 0
        return int(self.function.experimental_get_tracing_count())

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.sync_by_reading:
            self.drain()
        else:
            devices.synchronize()

    def drain(self) -> None:
        """Wait by reading a scalar that depends on the last output."""
        for output in tf.nest.flatten(self.last):
            float(tf.reduce_sum(tf.cast(output, tf.float32)))

    def outputs(self, position: int = 0) -> list[np.ndarray]:
        """Outputs for one of the inputs: one float64 array per head, shape (batch, ...)."""
        self.prepare()
        heads = tf.nest.flatten(self.run(self.inputs[position]))
        for head in heads:
            if not tf.is_tensor(head):
                kind = "None" if head is None else f"a {type(head).__name__}"
                raise ConfigError(
                    f"the model returned {kind}; tensors are needed, alone or in lists, tuples or "
                    "dictionaries"
                )
        return [np.asarray(tf.cast(head, tf.float64)) for head in heads]

    def last_outputs(self) -> list[np.ndarray]:
        """Outputs of the last call: one float64 array per head, shape (batch, ...)."""
        return [np.asarray(head).astype(np.float64) for head in tf.nest.flatten(self.last)]

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of place and compilation of the last call, and what contradicts the mode."""
        outputs = tf.nest.flatten(self.last)
        problems, elsewhere = misplaced(
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

    def effective(self, *, device: str) -> dict[str, Any]:
        """Evidence of what is in force, read back from TensorFlow after the first call.

        Returns:
            `in_force` (bool) and `reason`, with the evidence: `jit_compile` as stored in the traced
            function, `xla_clusters` (clusters in the graphs that ran), `device` of the outputs,
            `elsewhere`: those of these that are not `device`.
        """
        evidence, problems = self.proof(device)
        return {**evidence, "in_force": not problems, "reason": "; ".join(problems)}

    def extras(self) -> dict[str, Any]:
        """Figures besides the times of calls, by their names in `ModeOutcome`."""
        return {}


def mixed(batches: Sequence[Any]) -> list[Any]:
    """New batches, each with values of one batch and of the one after it, chosen by chance.

    Args:
        batches: tensors on a device, or in NumPy, of one structure and shape.
    """
    rng = np.random.default_rng()

    def choose(one: Any, other: Any) -> Any:
        values = np.where(rng.random(one.shape) < 0.5, np.asarray(one), np.asarray(other))
        if not tf.is_tensor(one):
            return values
        return models.placed(tf.constant(values, one.dtype), one.device)

    after = [*batches[1:], batches[0]]
    return [tf.nest.map_structure(choose, *pair) for pair in zip(batches, after, strict=True)]


def activate(execution: Execution) -> None:
    """Switch auto-clustering on or off for the calls that follow, as an execution needs it."""
    wanted = "autoclustering" if execution is Execution.AUTOCLUSTER else False
    if (tf.config.optimizer.get_jit() or False) != wanted:
        tf.config.optimizer.set_jit(wanted)


@contextmanager
def op_by_op() -> Iterator[None]:
    """Within it, each `tf.function` runs as the Python that it is."""
    earlier = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(earlier)


@contextmanager
def collected_graphs() -> Iterator[list[Any]]:
    """Collect the graphs that TensorFlow partitions for the devices; the list is filled at the end.

    Uses a private module of TensorFlow, tried on 2.21.0: the public profiler does not show them.
    """
    from tensorflow.python.eager import context

    collector, graphs = context.context(), []  # type: ignore[var-annotated]
    collector.enable_graph_collection()
    try:
        yield graphs
        for function in collector.export_run_metadata().function_graphs:
            graphs += function.partition_graphs
    finally:
        collector.disable_graph_collection()


def misplaced(outputs: Sequence[tuple[str, bool]], *, device: str) -> tuple[list[str], list[str]]:
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
