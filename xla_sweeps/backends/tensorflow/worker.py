"""Entry point of a process that measures or explains; its parent is `measure.workers`."""

from __future__ import annotations

from functools import partial

from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.measure import protocol
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.worker import server
from xla_sweeps.worker.backend import Framework
from xla_sweeps.worker.replicate import Replicate


def load() -> Framework:
    """Load TensorFlow."""
    from xla_sweeps.backends.tensorflow.scenarios import TensorFlow

    return TensorFlow()


def answer(
    channel: server.Channel, replicate: Replicate, request: protocol.Request
) -> protocol.Reply:
    """Do what is asked; an explanation is sent as events, as far as it is known."""
    if not isinstance(request, protocol.Explain):
        return replicate.answer(request)
    channel.send(protocol.Stage(phase=Phase.IMPORT, detail=BACKEND.title))
    from xla_sweeps.backends.tensorflow.explain import explaining

    explaining.explain(request, channel)
    return protocol.Finished()


if __name__ == "__main__":
    server.main(
        lambda channel: partial(answer, channel, Replicate(load, channel.send, title=BACKEND.title))
    )
