"""Entry point of a process that measures; its parent is `measure.workers`."""

from __future__ import annotations

import os
import sys
import tempfile

from xla_sweeps.backends.torch.declaration import BACKEND
from xla_sweeps.system.process import die_with_parent
from xla_sweeps.worker import server
from xla_sweeps.worker.backend import Explain, Framework
from xla_sweeps.worker.replicate import Replicate


def load() -> Framework:
    """Load PyTorch."""
    from xla_sweeps.backends.torch.backend import Torch

    return Torch()


def load_explain() -> Explain:
    """Load PyTorch and what explains its models."""
    from xla_sweeps.backends.torch.explain import explain

    return explain


def main() -> None:
    """Serve the parent with a fresh folder for compiled code: none is left from another process."""
    parent, descriptor = int(sys.argv[1]), int(sys.argv[2])
    die_with_parent(parent)
    with tempfile.TemporaryDirectory(prefix="xla-sweeps-inductor-") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        code = server.serve(
            descriptor,
            lambda channel: (
                Replicate(load, channel.send, title=BACKEND.title, load_explain=load_explain).answer
            ),
        )
    server.end(code)


if __name__ == "__main__":
    main()
