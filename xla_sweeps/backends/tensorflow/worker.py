"""Entry point of a process that measures or explains; its parent is `measure.workers`."""

from __future__ import annotations

from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.worker import server
from xla_sweeps.worker.backend import Explain, Framework
from xla_sweeps.worker.replicate import Replicate


def load() -> Framework:
    """Load TensorFlow."""
    from xla_sweeps.backends.tensorflow.scenarios import TensorFlow

    return TensorFlow()


def load_explain() -> Explain:
    """Load TensorFlow and what explains its models."""
    from xla_sweeps.backends.tensorflow.explain.explainer import explain

    return explain


if __name__ == "__main__":
    server.main(
        lambda channel: (
            Replicate(load, channel.send, title=BACKEND.title, load_explain=load_explain).answer
        )
    )
