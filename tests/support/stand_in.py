"""Replicates on a stand-in for an accelerator: another logical device of the CPU.

They run by the real conductor and real workers, which take it for a GPU: they place and copy onto
it, prove where outputs are, and test that synchronizations wait. PyTorch has no such device, so
that only these tests and decisions run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conducting import conduct_commands
from other_environments import OWN, python_of
from paths import ROOT

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.backend import Backend, backend_named
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.trial import Trial
from xla_sweeps.system.devices import devices
from xla_sweeps.system.environment import child_environment
from xla_sweeps.trial.replicate import ReplicateResult
from xla_sweeps.trial.workers import WorkerCommand
from xla_sweeps.worker.stand_in import VARIABLE

CPU = devices()[-1]

PLACES = {"tensorflow": r".*/device:CPU:1", "jax": r"TFRT_CPU_1|cpu:1", "torch": "cpu"}
"""Names that backends give the stand-in."""

GREEDY = """
import keras

class Greedy(keras.layers.Layer):
    def call(self, values):
        return values + keras.ops.sum(keras.ops.zeros((2**23, 2**23)))

def build():
    inputs = keras.Input((16, 16, 3))
    return keras.Model(inputs, Greedy()(inputs))
"""
"""A model that needs 256 TiB, more than can be addressed, where it is called op by op."""

_BRIEF: dict[str, Any] = {
    "rounds_min": 2,
    "rounds_look": 2,
    "rounds_max": 2,
    "side_rounds": 0,
    "block_s": 0.001,
    "warmup_calls": 3,
    "warmup_s": 0.0,
    "warmup_cap_s": 0.01,
    "warmup_cap_calls": 5,
    "latency_calls": 3,
    "latency_cap_s": 0.01,
    "always_reference": True,
}
"""Of the effort: too little to measure anything."""

_MODEL = ("model=local", "trust_code=true", "batch_size=2")

_FLAGS = {
    "tensorflow": {"TF_XLA_FLAGS": "--tf_xla_cpu_global_jit"},
    "jax": {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"},
    "torch": {"KERAS_TORCH_DEVICE": "cpu"},
}
"""What makes the framework's device of the CPU be there."""


def trial_of(folder: Path, *words: str, modes: Sequence[str], code: str = OWN) -> Trial:
    """A trial on `gpu:0`, of the model that `code` builds unless the words name another."""
    (folder / "own.py").write_text(code)
    given = () if any(word.startswith("model=") for word in words) else _MODEL
    own = (f"path={folder}/own.py:build",) if given else ()
    composed = settings_of(compose_config([*given, *own, "device=cpu", *words])).trial
    effort = replace(composed.effort, **_BRIEF)
    # Other backends are in other environments, so that it is composed without them.
    return replace(composed, device="gpu:0", modes=tuple(modes), effort=effort)


def measured(trial: Trial, folder: Path) -> tuple[ReplicateResult, str]:
    """One replicate of a trial, and what its workers wrote."""
    log, commands = folder / "child.log", []
    for labels in trial.workers:
        name = mode_of(labels[0]).backend
        python = sys.executable if name == "tensorflow" else str(python_of(name))
        backend = backend_named(name)
        commands.append(
            WorkerCommand(
                backend=backend,
                environment=_environment(backend),
                log=log,
                labels=labels,
                trial=trial,
                python=python,
                folder=folder,
            )
        )
    result = conduct_commands(trial, commands)
    return result, log.read_text()


def _environment(backend: Backend) -> dict[str, str]:
    """The environment of a worker whose `gpu:0` is a device of the CPU."""
    return {
        **child_environment(os.environ, device=CPU, backend=backend),
        **_FLAGS[backend.name],
        "PYTHONPATH": str(ROOT),
        VARIABLE: "1",
    }
