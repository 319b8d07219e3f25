"""A model of TensorFlow, its inputs, and the outputs of eager execution; satisfies `Model`.

A scenario is a subclass that changes what differs.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.building import BuiltModel, all_layers
from xla_sweeps.backends.keras.hlo import count_macs
from xla_sweeps.backends.keras.mac_count import MacCount
from xla_sweeps.backends.keras.sources import OWN, Wrap
from xla_sweeps.backends.keras.synchronization import TRIVIAL_SYNCHRONIZATION, waits
from xla_sweeps.backends.tensorflow import devices, memory, modes
from xla_sweeps.backends.tensorflow.operations import compiled_inside, fingerprint, lower
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.measurement import Agreement, Failure, Flag, Flagged, Phase
from xla_sweeps.schema.modes import Execution, Mode, Scenario, mode_of
from xla_sweeps.schema.trial import Trial
from xla_sweeps.trial import pacing, protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker.backend import Tell
from xla_sweeps.worker.replicate import FIRST_CALL

_TRACED_CALLS = 2
"""Calls whose memory is traced: the second one frees what the first one has allocated."""

_TRACED_BATCHES = 4
"""Batches whose memory is traced at least, where a call has so many."""

_TRACED_S = 1.0
"""Tracing ends after so long, unless these batches take longer."""

_HINT = "a layer keeps something of its first call; make it in __init__ or build() instead"

_LIBRARIES = ("keras", "tf_keras", "keras_hub", "keras_cv")

_compiled: Wrap = partial(tf.function, jit_compile=True, autograph=False)
"""The line that a user writes."""


@dataclass
class Bench(KerasBench[modes.ModeExecutable]):
    """The scenario `call` in TensorFlow."""

    not_counted_bytes: int = 0
    """What the device's allocator does not count of what is kept; see `note_kept`."""

    engine = modes.ENGINE

    @classmethod
    def build_model(cls, trial: Trial, first: Wrap = lambda call: call) -> BuiltModel:
        """Build the model of a trial; `ConfigError` where its code switches eager execution off."""
        try:
            return super().build_model(trial, first)
        finally:
            if not tf.executing_eagerly():
                raise ConfigError(
                    f"path={trial.model.recipe.get('path')}: the model's code switches eager "
                    "execution off (tf.compat.v1.disable_eager_execution, disable_v2_behavior), "
                    "with which every mode is compared; remove that line"
                )

    def make(self, mode: Mode) -> modes.ModeExecutable:
        """Bind the model to a mode; graph modes are traced here."""
        return modes.ModeExecutable.bind(self.built.call, mode, self.inputs)

    def place_tensors(self, tensors: Any) -> Any:
        """Place tensors in the memory of the device."""
        place = partial(devices.place_tensor, device=self.device)
        return tf.nest.map_structure(place, tensors)

    def synchronization(self) -> Mapping[str, Any]:
        """The self-test of the synchronization; not needed on a CPU, where calls do not queue."""
        if not self.trial.on_accelerator:
            return TRIVIAL_SYNCHRONIZATION
        asked = map(mode_of, self.modes)  # graph mode stands for what needs a Keras model or NumPy
        return prove(self.busy(mode if mode.entry.queues else Mode.GRAPH for mode in asked))

    def call_model(self, built: BuiltModel, batch: Any) -> Any:
        """Outputs of a model in an eager call."""
        modes.activate(Execution.EAGER)
        return built.call(batch)

    @contextmanager
    def op_by_op(self) -> Iterator[None]:
        """Within it, each `tf.function` in the model runs as the Python that it is."""
        earlier = tf.config.functions_run_eagerly()
        tf.config.run_functions_eagerly(True)
        try:
            yield
        finally:
            tf.config.run_functions_eagerly(earlier)

    def find_flaw(self, executable: modes.ModeExecutable, tell: Tell) -> Failure | None:
        """Weights that a mode never reads, or what XLA makes of a model that was never called."""
        flaw, mode = super().find_flaw(executable, tell), executable.mode
        is_own = self.trial.model.library == OWN and self.trial.scenario is Scenario.CALL
        if flaw or not (is_own and self.deterministic and mode.execution is Execution.XLA):
            return flaw
        return self._find_flaw_of_first_call(tell)

    def _find_flaw_of_first_call(self, tell: Tell) -> Failure | None:
        """The failure of XLA on a new model that was never called before; None if it has none.

        The line that users write is `tf.function(model, jit_compile=True)(x)`. A layer that keeps
        something of its first call may compute something else there than in a model that was called
        eagerly before. Where that call itself fails, an eager one before it is needed: a caveat. A
        new model that is unlike without XLA too, or cannot be built, shows nothing.
        """
        loaded = self.built.loaded
        if not (loaded.rebuildable and loaded.keras_model and _has_own_code(loaded.keras_model)):
            return None
        reason, is_error = self._trouble_of_new(_compiled, tell)
        if not reason or self._trouble_of_new(lambda call: call, tell)[0]:
            return None
        if is_error:
            tell(protocol.Caveat(Flagged(Flag.FIRST_CALL, note=reason)))
            return None
        message = f"in a new model, whose first call XLA compiles: {reason}"
        return Failure(phase=Phase.VERIFY, kind=FIRST_CALL, message=message, hint=_HINT)

    def _trouble_of_new(self, first: Wrap, tell: Tell) -> tuple[str, bool]:
        """Trouble of a new model that is called in what `first` makes of a call; if it is an error.

        It is "" where there is none.
        """
        try:
            agreed = self._compare_new(first, tell)
        except tf.errors.ResourceExhaustedError:  # two models at once
            return "", False
        except Exception as error:
            traceback.print_exc()
            return error_line(error), True
        finally:
            gc.collect()
        return "" if agreed.ok or agreed.refused else agreed.reason, False

    def _compare_new(self, first: Wrap, tell: Tell) -> Agreement:
        """Compare outputs of a new model with equal weights with eager's, on the first inputs."""
        fresh = self.build_model(self.trial, first)
        pairs = zip(fresh.loaded.variables, self.built.loaded.variables, strict=True)
        for variable, other in pairs:
            variable.assign(other)
        outputs = self.engine.executables.read(first(fresh.call)(self.inputs[0]))
        return self.verify_outputs(outputs, tell)

    def note_build(self, executable: modes.ModeExecutable, tell: Tell) -> None:
        """Note what was built, from the first mode that is traced, and what graph mode made of it.

        Graphs that Keras traced have its own operations too, and do not count.
        """
        concrete, traced = executable.concrete, executable.trace_s is not None
        execution = executable.mode.execution
        if traced and execution is Execution.GRAPH:
            self.facts = replace(self.facts, graph_operations=executable.operations)
        if traced and not self.facts.fingerprint:
            try:
                self.facts = replace(self.facts, fingerprint=fingerprint(concrete))
            except Exception:  # a graph of more than 2 GiB; its parameters still tell models apart
                traceback.print_exc()
            tell(protocol.Built(model=self.facts))
        if concrete is not None and compiled_inside(concrete):
            tell(protocol.Caveat(Flagged(Flag.CONTAINS_XLA)))
        if traced and execution is Execution.XLA:
            self.count_macs(tell, executable)

    def macs_in(self, executable: modes.ModeExecutable | None) -> MacCount:
        """Multiply-accumulates of a sample: in the XLA mode's HLO, or in the model's."""
        if executable is None:
            return macs(self.built, self.device)
        module = lower(executable.function, executable.inputs[0])
        return count_macs(module).of_each(self.trial.batch_size)

    def reset_steady_memory(self) -> None:
        """Start `steady_memory_bytes` again."""
        memory.reset_peak(self.device)

    def steady_memory_bytes(self, executable: modes.ModeExecutable, *, call_s: float) -> int | None:
        """The most that the allocator had handed out since the reset, with all that is kept.

        On a CPU without oneDNN it does not count. There two more calls are traced.
        """
        peak = memory.counted_bytes(self.device, "peak")
        if peak is not None:
            return peak + self.not_counted_bytes

        def calls() -> None:
            for _ in range(_TRACED_CALLS):
                executable.step()
            executable.synchronize()
            executable.last = None

        at_most_s = max(_TRACED_S, _TRACED_BATCHES * call_s / self.trial.batches)
        try:
            traced = memory.traced_bytes(calls, at_most_s=at_most_s)
        except Exception:  # the mode is measured all the same
            traceback.print_exc()
            return None
        return traced + memory.bytes_of(self.kept_on_device())

    def note_kept(self) -> None:
        """Note what the allocator does not count of `kept`, before any mode is built.

        On a CPU a weight from NumPy may lie in memory that is not the allocator's, and a large one
        counts as the free piece that it was given.
        """
        gc.collect()
        counted = memory.counted_bytes(self.device, "current")
        self.not_counted_bytes = memory.bytes_of(self.kept_on_device()) - (counted or 0)

    def kept_on_device(self) -> list[Any]:
        """Variables and tensors that stay on the device between calls, whatever the mode."""
        return [*self.built.loaded.variables, *tf.nest.flatten(list(self.inputs))]


def _has_own_code(model: Any) -> bool:
    """True if the model or a layer of it is not Keras's own, or has a function of the user's."""
    kinds = [type(each) for each in (model, *all_layers(model))]
    return any(
        kind.__module__.partition(".")[0] not in _LIBRARIES or kind.__name__ == "Lambda"
        for kind in kinds
    )


def prove(
    executables: Mapping[str, modes.ModeExecutable], *, clock: pacing.Clock = time.perf_counter_ns
) -> dict[str, Any]:
    """Test the synchronization, and if it does not wait, reading a result, in all modes then.

    Raises:
        XlaSweepsError: not even reading a result waits.
    """
    try:
        return waits(executables, wait="sync_devices()", clock=clock)
    except XlaSweepsError:
        modes.ModeExecutable.sync_by_reading = True
    record = waits(executables, wait="reading a result", clock=clock)
    note = "sync_devices() does not wait; a scalar is read instead"
    return {**record, "by_reading": True, "note": note}


def macs(built: BuiltModel, device: str = "/device:CPU:0") -> MacCount:
    """Multiply-accumulates of one sample, from the HLO for a batch of one."""
    batch = built.loaded.batch or 1
    signature = [tf.TensorSpec((batch, *given.shape), given.dtype) for given in built.inputs]

    def forward(*tensors: Any) -> Any:
        return built.call(tensors[0] if len(tensors) == 1 else tensors)

    with tf.device(device):
        function = tf.function(forward, jit_compile=True, autograph=False)
        count = count_macs(lower(function, *signature))
    return count.of_each(batch)
