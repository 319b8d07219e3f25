"""Entry point of a process that measures or explains."""

from __future__ import annotations

from xla_sweeps.backends.keras.entry import serve
from xla_sweeps.backends.tensorflow.declaration import BACKEND

if __name__ == "__main__":
    serve(
        BACKEND,
        framework="scenarios:TensorFlow",
        explainer="explain.explainer:TensorFlowExplainer",
    )
