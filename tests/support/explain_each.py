"""Explain models of `own.py` in one process of another environment, with small peaks.

Arguments: the backend, and the names of the models. Prints a JSON list of their explanations.
"""

from __future__ import annotations

import json
import pkgutil
import sys
from pathlib import Path
from typing import Any

from paths import ROOT
from programs import run_program


def explain_each(backend: str, folder: Path, code: str, *models: str) -> dict[str, Any]:
    """The explanation of each model that `code` has, in batches of three, by name."""
    from other_environments import python_of

    (folder / "own.py").write_text(code)
    own = {"KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
    ended = run_program(
        python_of(backend), __file__, backend, *models, cwd=folder, more=own, limit_s=800
    )
    return dict(zip(models, json.loads(ended.stdout.splitlines()[-1]), strict=True))


def main(backend: str, *models: str) -> None:
    import msgspec

    from xla_sweeps.backends.keras.explain import roofline
    from xla_sweeps.config.compose import compose_config
    from xla_sweeps.config.settings import settings_of
    from xla_sweeps.schema.trial import ReplicateJob
    from xla_sweeps.trial import protocol

    vars(roofline).update(SIDES=(64,), ARRAY_BYTES=2**20, MODE_S=0.05)
    package = f"xla_sweeps.backends.{backend}"
    framework, explainer = (
        pkgutil.resolve_name(f"{package}.{pkgutil.resolve_name(f'{package}.worker:{name}')}")
        for name in ("FRAMEWORK", "EXPLAINER")
    )
    explanations = []
    for model in models:
        own = ["model=local", f"path=own.py:{model}", "trust_code=true", "batch_size=3"]
        trial = settings_of(compose_config([*own, "device=cpu", f"backend={backend}"])).trial
        job = ReplicateJob(trial=trial, replicate=1, modes=trial.modes, order_seed=0)
        told: list[Any] = []
        explainer.explain_job(framework(), protocol.Explain(job=job, trace=True), told.append)
        explanations.append(told[-1].explanation)
    print(msgspec.json.encode(explanations).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
