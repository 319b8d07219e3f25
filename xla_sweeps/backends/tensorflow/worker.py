"""Entry point of a measuring process that runs TensorFlow; its parent is `measure.workers`."""

from __future__ import annotations

from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.worker import server
from xla_sweeps.worker.backend import Framework
from xla_sweeps.worker.replicate import Replicate


def load() -> Framework:
    """Load TensorFlow."""
    from xla_sweeps.backends.tensorflow.scenarios import TensorFlow

    return TensorFlow()


if __name__ == "__main__":
    server.main(lambda channel: Replicate(load, channel.send, title=BACKEND.title).answer)
