"""Entry point of a process that shows planted errors to the check of outputs on PyTorch."""

from __future__ import annotations

from xla_sweeps.backends.keras.plants import main
from xla_sweeps.backends.torch.modes import TorchExecutable
from xla_sweeps.schema.modes import Mode

if __name__ == "__main__":
    main(TorchExecutable, Mode.TORCH_EAGER, Mode.TORCH_COMPILE, Mode.TORCH_EXPORT)
