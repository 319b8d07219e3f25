"""New shapes in TensorFlow: a `tf.function` traces each, unless its signature leaves it open.

Such a signature is the mode `graph_dynamic`. XLA compiles for each shape, whatever the signature.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from xla_sweeps.backends.keras.new_shapes import ShapesBench
from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.schema.modes import Execution, Mode


@dataclass
class NewShapesBench(ShapesBench[modes.ModeExecutable], Bench):
    """The model, and a batch of each shape."""

    def make(self, mode: Mode) -> modes.ModeExecutable:
        """Bind the model to a mode, as in `new_function` where its signature is open."""
        if mode.execution is not Execution.DYNAMIC:
            return super().make(mode)
        executable = self.new_function(mode)
        executable.inputs, began = self.inputs, time.perf_counter()
        executable.concrete = executable.function.get_concrete_function()
        executable.trace_s = time.perf_counter() - began
        return executable

    def new_function(self, mode: Mode) -> modes.ModeExecutable:
        """The model in a mode as a function that is new and takes any shape; nothing is traced."""
        call = self.free_model.call
        if mode.execution is Execution.EAGER:
            return modes.ModeExecutable(mode, call, ())
        signature = [self._signature()] if mode.execution is Execution.DYNAMIC else None
        function = modes.function_of(call, mode, signature)
        return modes.ModeExecutable(mode, function, (), function=function)

    def _signature(self) -> Any:
        """A signature that leaves open what differs among the shapes, and the batch size."""

        def of(*tensors: Any) -> tf.TensorSpec:
            sizes = zip(*(tensor.shape[1:] for tensor in tensors), strict=True)
            known = [one if {one} == {*others} else None for one, *others in sizes]
            return tf.TensorSpec([None, *known], tensors[0].dtype)

        return tf.nest.map_structure(of, self.inputs[0], *self.shape_batches.values())
