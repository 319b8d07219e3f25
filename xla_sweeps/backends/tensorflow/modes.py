"""Bind a model to an execution mode, and prove that the mode is in force.

Auto-clustering affects only the calls of its own mode: each call of a `tf.function` carries the
optimizer's JIT level, which is switched on before the auto-clustered mode runs and off before any
other. The flag that allows it on a CPU (`--tf_xla_cpu_global_jit`) does nothing by itself and is
set before TensorFlow loads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.tensorflow import devices
from xla_sweeps.backends.tensorflow.operations import computing, places
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import ExecutionMode

JIT_COMPILE = {
    ExecutionMode.DEFAULT: None,
    ExecutionMode.GRAPH: False,
    ExecutionMode.XLA: True,
    ExecutionMode.AUTOCLUSTER: None,
}
"""The `jit_compile` argument of each graph mode's `tf.function`."""


@dataclass
class ModeExecutable:
    """One model in one mode with its inputs on the device; satisfies `timing.Executable`."""

    mode: ExecutionMode
    run: Callable[[Any], Any]
    inputs: Sequence[Any]
    function: Any = None
    """The `tf.function`, or None for eager execution."""
    concrete: Any = None
    trace_s: float | None = None
    clusters: int = 0
    operations: int = 0
    """Those of the graphs that ran which compute something, known once it was called."""
    places: frozenset[str] = frozenset()
    """The devices of these, and of calls of functions, likewise."""
    sync_by_reading: bool = False
    """Wait by reading a result, on a device where `sync_devices` does not wait."""
    restore: Callable[[], None] | None = None
    """Gives what calls change its values again, before each block."""
    position: int = 0
    last: Any = field(default=None, repr=False)

    def prepare(self) -> None:
        """Switch the graph optimizer's auto-clustering to what this mode needs; restore state."""
        set_autoclustering(self.mode is ExecutionMode.AUTOCLUSTER)
        if self.restore is not None:
            self.restore()

    def step(self) -> None:
        """Start one call on the next of the rotating inputs."""
        self.last = self.run(self.inputs[self.position])
        self.position = (self.position + 1) % len(self.inputs)

    def first(self) -> None:
        """Start the first call, in which XLA compiles."""
        self.step()

    def first_call_s(self) -> float:
        """Seconds of the first call with a synchronization; XLA compiles in it.

        The operations of the graph that runs are counted into `operations`, and the XLA clusters
        that TensorFlow makes of it into `clusters`; only a first call shows them. Raises whatever
        TensorFlow raises.
        """
        self.prepare()
        with collected_graphs() as graphs:
            started = time.perf_counter()
            self.first()
            self.synchronize()
            elapsed = time.perf_counter() - started
        self.clusters = sum(node.op == "_XlaRun" for graph in graphs for node in graph.node)
        self.operations = computing(graphs)
        self.places = places(graphs)
        return elapsed

    def traces(self) -> int:
        """How often the mode's function has been traced; 0 for eager execution."""
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

    def placement(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Where the last call ran: the evidence, and what is wrong with it."""
        outputs = tf.nest.flatten(self.last)
        problems, elsewhere = misplaced(
            [(output.device, output.dtype.is_floating) for output in outputs], device=device
        )
        return {
            "device": sorted({output.device for output in outputs}),
            "elsewhere": elsewhere,
        }, problems

    def compilation(self) -> tuple[dict[str, Any], list[str]]:
        """What compiled the calls: the evidence, and what is wrong with it."""
        evidence: dict[str, Any] = {"executing_eagerly": self.function is None}
        eagerly = tf.config.functions_run_eagerly()
        if self.function is None:
            return evidence, ["tf.config.run_functions_eagerly is on"] if eagerly else []
        attribute = self.concrete.function_def.attr.get("_XlaMustCompile")
        found = evidence["jit_compile"] = None if attribute is None else bool(attribute.b)
        evidence["xla_clusters"] = clusters = self.clusters
        problems = []
        if eagerly:
            problems.append("tf.config.run_functions_eagerly is on, so nothing runs as a graph")
        if found != JIT_COMPILE[self.mode]:
            problems.append(f"jit_compile is {found}, expected {JIT_COMPILE[self.mode]}")
        if self.mode is ExecutionMode.GRAPH and clusters:
            problems.append(
                f"{clusters} auto-clusters run in graph mode; TF_XLA_FLAGS enable them in every "
                "mode"
            )
        if self.mode is ExecutionMode.AUTOCLUSTER and not clusters:
            problems.append("auto-clustering made no clusters")
        return evidence, problems

    def effective(self, *, device: str) -> dict[str, Any]:
        """What is really in force, read back from TensorFlow after the first call.

        Returns:
            `in_force` (bool) and `reason`, with the evidence: `jit_compile` as stored in the traced
            function, `xla_clusters` (clusters in the graphs that ran), `device` of the outputs,
            `elsewhere`: those of these that are not `device`.
        """
        where, elsewhere = self.placement(device)
        how, wrong = self.compilation()
        problems = elsewhere + wrong
        return {**where, **how, "in_force": not problems, "reason": "; ".join(problems)}

    def copies_s(self) -> dict[str, float]:
        """Seconds that copying a call's `input` and `output` takes alone; empty if none is."""
        return {}

    def last_batch_compile_s(self) -> float | None:
        """Seconds of compiling for a smaller last batch of a call; None if there is none."""
        return None


def set_autoclustering(enabled: bool) -> None:
    """Switch auto-clustering on or off for the calls that follow."""
    wanted = "autoclustering" if enabled else False
    if (tf.config.optimizer.get_jit() or False) != wanted:
        tf.config.optimizer.set_jit(wanted)


def make_executable(
    call: Callable[[Any], Any], mode: ExecutionMode, inputs: Sequence[Any]
) -> ModeExecutable:
    """Bind a model to a mode; graph modes are traced here, and the tracing is timed.

    Args:
        call: the forward pass.
        mode: the execution mode.
        inputs: batches of one shape and dtype, on the device.
    """
    if mode is ExecutionMode.EAGER:
        return ModeExecutable(mode=mode, run=call, inputs=inputs)
    signature = tf.nest.map_structure(
        lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), inputs[0]
    )

    def forward(batch: Any) -> Any:
        return call(batch)

    function = tf.function(
        forward, jit_compile=JIT_COMPILE[mode], input_signature=[signature], autograph=False
    )
    set_autoclustering(mode is ExecutionMode.AUTOCLUSTER)
    started = time.perf_counter()
    concrete = function.get_concrete_function()
    trace_s = time.perf_counter() - started
    return ModeExecutable(
        mode=mode,
        run=function,
        inputs=inputs,
        function=function,
        concrete=concrete,
        trace_s=trace_s,
    )


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
    """Whether outputs show that the model ran elsewhere.

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


def hlo_text(executable: ModeExecutable) -> str:
    """The unoptimized HLO that XLA compiles for this mode's function."""
    text = executable.function.experimental_get_compiler_ir(executable.inputs[0])(
        stage="hlo_no_metadata"
    )
    return str(text)
