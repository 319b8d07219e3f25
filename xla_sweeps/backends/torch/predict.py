"""Keras's `predict` on PyTorch: op by op, or with `torch.compile` as `jit_compile=True` asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xla_sweeps.backends.keras.predict import Calls, PredictingOnly, why_lowered
from xla_sweeps.backends.torch.bench import TorchBench
from xla_sweeps.backends.torch.modes import TorchExecutable, compile_call
from xla_sweeps.schema.modes import Execution


@dataclass
class PredictExecutable(Calls, TorchExecutable):
    """`predict` of a model with its own setting of `jit_compile`, from NumPy to NumPy."""

    def places(self) -> list[Any]:
        """Devices of the weights: outputs in NumPy tell none."""
        return [variable.value.device for variable in self.model.variables]

    def proof(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Evidence of what is in force: also what Keras made of `jit_compile`."""
        evidence, problems = super().proof(device)
        asked, given = self.mode.execution is Execution.COMPILED, bool(self.model.jit_compile)
        if asked and not given:
            problems = [why_lowered(self.model)]
        return {**evidence, "jit_compile_asked": asked, "jit_compile": given}, problems


@dataclass
class PredictBench(PredictingOnly[TorchExecutable], TorchBench):
    """Batches that start in NumPy."""

    executable_class = PredictExecutable

    def unshare(self, made: Any) -> Any:
        """The function that Keras made, compiled again where it is compiled."""
        step = getattr(made, "_torchdynamo_orig_callable", None)
        return compile_call(step) if step else made
