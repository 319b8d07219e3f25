"""Entry point of the process that explains a model; the parent's side is `measure.explaining`."""

from __future__ import annotations

from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.measure import protocol
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.worker import server


class Explainer:
    """Explains the model of a job; TensorFlow loads in that request."""

    def __init__(self, channel: server.Channel) -> None:
        self._channel = channel

    def answer(self, request: protocol.Request) -> protocol.Reply:
        """Explain; what is known so far is sent as events."""
        assert isinstance(request, protocol.Explain)
        self._channel.send(protocol.Stage(phase=Phase.IMPORT, detail=BACKEND.title))
        from xla_sweeps.backends.tensorflow.explain import explaining

        explaining.explain(request, self._channel)
        return protocol.Finished()


if __name__ == "__main__":
    server.main(Explainer)
