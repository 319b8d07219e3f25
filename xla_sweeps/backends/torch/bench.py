"""A Keras model that PyTorch runs, its inputs, and the outputs of eager execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from xla_sweeps.backends.keras.bench import KerasBench
from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.cold_start import StartBench
from xla_sweeps.backends.keras.mac_count import MacCount
from xla_sweeps.backends.keras.new_shapes import ShapesBench
from xla_sweeps.backends.keras.predict import Calls, PredictingOnly, why_lowered
from xla_sweeps.backends.keras.synchronization import TRIVIAL_SYNCHRONIZATION, waits
from xla_sweeps.backends.torch.modes import ENGINE, TorchExecutable, compile_call
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.modes import Execution, Mode
from xla_sweeps.worker.backend import Tell

_TYPES = {"float32": "f32", "mixed_float16": "f16", "mixed_bfloat16": "bf16"}
"""Types in which products are computed, by the precision."""


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


class TorchBench(KerasBench[TorchExecutable]):
    """The scenario `call` on PyTorch."""

    starts_up = True
    engine = ENGINE

    def synchronization(self) -> Mapping[str, Any]:
        """Prove that a synchronization waits."""
        if not self.trial.on_accelerator:
            return TRIVIAL_SYNCHRONIZATION
        return waits(self.busy([Mode.TORCH_EAGER]), wait="torch.cuda.synchronize")

    def call_model(self, built: BuiltModel, batch: Any) -> Any:
        """Outputs of a model in an eager call."""
        with torch.inference_mode():
            return built.call(batch)

    def call_eagerly(self, tell: Tell) -> None:
        """Run the model eagerly.

        Raises:
            ConfigError: it changes its inputs, so that each call would get other ones.
        """
        before = keras.tree.map_structure(torch.clone, self.inputs[0])
        super().call_eagerly(tell)
        pairs = zip(keras.tree.flatten(before), keras.tree.flatten(self.inputs[0]), strict=True)
        if not all(torch.equal(_bits(one), _bits(now)) for one, now in pairs):
            raise ConfigError(
                f"{self.trial.model.name} changes its inputs in place, so that each call gets "
                "other ones; begin its forward with a copy: x = x.clone()"
            )

    def calibrate(self, rng: np.random.Generator) -> None:
        """Give the model activations of order 1, by a batch that is not timed."""
        with torch.no_grad():
            super().calibrate(rng)

    def make(self, mode: Mode) -> TorchExecutable:
        """Bind the model to a mode; `torch.export` traces here."""
        loaded = self.built.loaded
        model = loaded.keras_model if loaded.module is None else loaded.module
        return TorchExecutable.bind(self.built.call, mode, self.inputs, model=model)

    def macs_in(self, executable: TorchExecutable | None) -> MacCount:
        """Multiply-accumulates of a sample: of products and convolutions in an eager call."""
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            self.built.call(self.inputs[0])
        macs = counter.get_total_flops() // 2 // self.trial.batch_size
        return MacCount(by_type=Counter({_TYPES[self.built.precision]: macs}))

    def reset_steady_memory(self) -> None:
        """Start `steady_memory_bytes` again."""
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def steady_memory_bytes(self, executable: TorchExecutable, *, call_s: float) -> int | None:
        """The most that the GPU's allocator had handed out; unknown on a CPU, which has none."""
        return int(torch.cuda.max_memory_allocated()) if self.device == "cuda" else None


@dataclass
class PredictExecutable(Calls, TorchExecutable):
    """`predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy."""

    def places(self) -> list[Any]:
        """Devices of the weights: outputs in NumPy tell none."""
        return [variable.value.device for variable in self.model.variables]

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of what is in force: also what Keras made of `jit_compile`."""
        evidence, problems = super().proof(device)
        asked = self.mode.execution is Execution.COMPILED
        if asked and not self.jit_compile:
            problems = [why_lowered(self.model)]
        return {**evidence, "jit_compile_asked": asked, "jit_compile": self.jit_compile}, problems


class PredictBench(PredictingOnly[TorchExecutable], TorchBench):
    """The scenario `predict`: op by op, or compiled as `compile(jit_compile=True)` asks."""

    executable_class = PredictExecutable

    def unshare(self, made: Any) -> Any:
        """The function that Keras made, compiled again where it is compiled."""
        step = getattr(made, "_torchdynamo_orig_callable", None)
        return compile_call(step) if step else made


class NewShapesBench(ShapesBench[TorchExecutable], TorchBench):
    """The scenario `new_shapes`: `torch.compile` sees after the second what varies."""

    def new_function(self, mode: Mode) -> TorchExecutable:
        """The model in a mode as a function that is new and takes any shape; nothing is traced."""
        return TorchExecutable.bind(self.free_model.call, mode, ())

    @contextmanager
    def without_caches(self) -> Iterator[None]:
        """Forget, within it, what was captured and compiled, and which sizes were seen to vary."""
        torch._dynamo.reset()
        with torch._inductor.utils.fresh_cache():
            yield


class ColdStartBench(StartBench[TorchExecutable], TorchBench):
    """The scenario `cold_start`: a process answers once."""
