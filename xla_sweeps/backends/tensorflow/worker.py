"""Entry point of a process that measures or explains."""

from __future__ import annotations

from xla_sweeps.backends.keras.entry import Entry
from xla_sweeps.backends.tensorflow.declaration import BACKEND
from xla_sweeps.worker import server

ENTRY = Entry(
    backend=BACKEND, framework="scenarios:TensorFlow", explain="explain.explainer:explain"
)

if __name__ == "__main__":
    server.main(ENTRY)
