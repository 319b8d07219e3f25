"""Entry point of the process that explains a model; the parent's side is `measure.explaining`."""

from __future__ import annotations

from functools import partial

from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.measure import protocol
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.worker import server


def answer(channel: server.Channel, request: protocol.Request) -> protocol.Reply:
    """Load TensorFlow and explain the model; what is known so far is sent as events."""
    assert isinstance(request, protocol.Explain)
    channel.send(protocol.Stage(phase=Phase.IMPORT, detail=BACKEND.title))
    from xla_sweeps.backends.tensorflow.explain import explaining

    explaining.explain(request, channel)
    return protocol.Finished()


if __name__ == "__main__":
    server.main(lambda channel: partial(answer, channel))
