"""Entry point of a process that measures or explains."""

from __future__ import annotations

from xla_sweeps.backends.jax.declaration import BACKEND
from xla_sweeps.backends.keras.entry import serve

FRAMEWORK, EXPLAINER = "backend:Jax", "explain:JaxExplainer"

if __name__ == "__main__":
    serve(BACKEND, framework=FRAMEWORK, explainer=EXPLAINER)
