"""A Keras model that PyTorch runs, its inputs, and the outputs of eager execution."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.bench import TRIVIAL_SYNCHRONIZATION, KerasBench, busy_side, waits
from xla_sweeps.backends.keras.sources.inputs import drawn
from xla_sweeps.backends.torch.modes import TorchExecutable, read
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Mode, mode_of
from xla_sweeps.schema.trial import InputSpec
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker.backend import Tell

_TYPES = {"float32": "f32", "mixed_float16": "f16", "mixed_bfloat16": "bf16"}
"""Types in which products are computed, by the precision."""


@dataclass
class TorchBench(KerasBench[TorchExecutable]):
    """The scenario `call` on PyTorch."""

    starts_up = True

    def synchronization(self) -> Mapping[str, Any]:
        """Prove that a synchronization waits."""
        if not self.trial.on_accelerator:
            return TRIVIAL_SYNCHRONIZATION
        side = busy_side(self.trial)
        matrix = torch.full((side, side), 1 / side, device=self.device)
        executable = TorchExecutable.bind(lambda one: one @ one, Mode.TORCH_EAGER, [matrix])
        executable.first_call_s()
        return waits({str(Mode.TORCH_EAGER): executable}, wait="torch.cuda.synchronize")

    def eagerly(self, batch: Any) -> list[np.ndarray]:
        """Outputs of an eager call of a batch: one float64 array per head."""
        return TorchExecutable.bind(self.built.call, Mode.TORCH_EAGER, [batch]).outputs()

    def natively(self, batch: Any) -> list[np.ndarray]:
        """The same in the precision of the model."""
        with torch.inference_mode():
            return read(self.built.call(batch), dtype=None)

    def float64_outputs(self, few: Any) -> list[np.ndarray]:
        """Outputs of the same weights in float64, on the CPU."""
        with keras.device("cpu"), torch.inference_mode():
            twin = building.float64_twin(self.trial.model, self.built)
            outputs = twin.call(keras.tree.map_structure(widened, few))
        heads = keras.tree.flatten(outputs)
        if any(head.is_floating_point() and head.dtype != torch.float64 for head in heads):
            raise XlaSweepsError("the model sets its own dtypes, so it cannot be built in float64")
        return read(outputs)

    def calibrate(self, rng: np.random.Generator) -> None:
        """Give the model activations of order 1, by a batch that is not timed."""
        count = max(4, self.trial.batch_size)
        with torch.no_grad():
            building.calibrate(self.built, draw(self.built.inputs, count, rng, self.device))

    def bind(self, mode: str) -> TorchExecutable:
        """The model in a mode."""
        loaded = self.built.loaded
        return TorchExecutable.bind(
            self.built.call, mode_of(mode), self.inputs, model=loaded.keras_model
        )

    def prove(self, executable: TorchExecutable) -> Mapping[str, Any]:
        """Evidence of what is in force of a mode."""
        return executable.effective(device=self.device)

    def note_build(self, executable: TorchExecutable, tell: Tell) -> None:
        """Nothing: what is known of the model is known before a mode."""

    def count_macs(self, tell: Tell) -> None:
        """Count the multiply-accumulates of products and convolutions in an eager call."""
        if self.facts.macs is not None:
            return
        tell(protocol.Stage(phase=Phase.VERIFY, detail="multiply-accumulates"))
        begun = time.perf_counter()
        try:
            with torch.no_grad(), FlopCounterMode(display=False) as counter:
                self.built.call(self.inputs[0])
            macs = counter.get_total_flops() // 2 // self.trial.batch_size
            types = {_TYPES[self.trial.precision]: macs}
            self.facts = replace(self.facts, macs=macs, macs_by_type=types)
        except Exception as error:
            traceback.print_exc()
            self.facts = replace(self.facts, macs_note=error_line(error))
        self.seconds["macs"] = time.perf_counter() - begun
        tell(protocol.Built(model=self.facts))

    def reset_steady_memory(self) -> None:
        """Start `steady_memory_bytes` again."""
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def steady_memory_bytes(self, executable: TorchExecutable, *, call_s: float) -> int | None:
        """The most that the GPU's allocator had handed out; unknown on a CPU, which has none."""
        return int(torch.cuda.max_memory_allocated()) if self.device == "cuda" else None


def draw(inputs: Sequence[InputSpec], count: int, rng: np.random.Generator, device: str) -> Any:
    """A batch of random samples: a tensor, or a tuple if the model has several inputs."""
    tensors = tuple(
        torch.as_tensor(drawn(given, count, rng), device=device).to(getattr(torch, given.dtype))
        for given in inputs
    )
    return tensors[0] if len(tensors) == 1 else tensors


def widened(tensor: Any) -> Any:
    """The same on the CPU, in float64 where it is floating."""
    return (tensor.double() if tensor.is_floating_point() else tensor).cpu()


def narrowed(outputs: Any) -> Any:
    """Outputs, the floating ones in float32."""

    def narrow(output: Any) -> Any:
        is_floating = isinstance(output, torch.Tensor) and output.is_floating_point()
        return output.float() if is_floating else output

    return keras.tree.map_structure(narrow, outputs)
