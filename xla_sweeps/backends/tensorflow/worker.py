"""Entry point of a process that measures or explains."""

from __future__ import annotations

from xla_sweeps.backends.keras.entry import answers_of
from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.worker import server

ANSWERS = answers_of(BACKEND, framework="scenarios:TensorFlow", explain="explain.explainer:explain")

if __name__ == "__main__":
    server.main(ANSWERS)
