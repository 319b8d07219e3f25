"""Entry point of a process that measures or explains."""

from __future__ import annotations

from xla_sweeps.backends.keras.entry import serve
from xla_sweeps.backends.tensorflow.declaration import BACKEND

FRAMEWORK, EXPLAINER = "scenarios:TensorFlow", "explain.explainer:TensorFlowExplainer"

if __name__ == "__main__":
    serve(BACKEND, framework=FRAMEWORK, explainer=EXPLAINER)
