"""Replicas of TensorFlow Hub's models, from outside: which there are, and making those there are not."""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from xla_sweeps import environment
from xla_sweeps.catalog import SOURCES, load_catalog
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.terminal.steps import Steps
from xla_sweeps.terminal.tables import show_replicas

SOURCE = "hub"
_MODULE = "xla_sweeps.tf.replicas"
_NEEDED = (*SOURCES[SOURCE].modules, "keras_hub", "keras_cv")


def show(names: Sequence[str]) -> int:
    """Show which replicas there are."""
    show_replicas([(name, folder, _size(folder)) for name, folder in _chosen(names).items()])
    return 0


def make(names: Sequence[str]) -> int:
    """Make the replicas that are not there yet, each in a process of its own; the others are still made if one fails.

    Raises:
        ConfigError: no such model, or the libraries that build replicas are not installed.
    """
    chosen = _chosen(names)
    missing = [module for module in _NEEDED if not environment.is_installed(module)]
    if missing:
        raise ConfigError(
            f"hub-replicas: {', '.join(missing)} is not installed; install it: pip install 'xla-sweeps[hub]', or "
            "scripts/setup hub in a checkout"
        )
    todo = [name for name, folder in chosen.items() if _size(folder) is None]
    device = next(item for item in environment.devices() if item.kind == "cpu")
    child = environment.child_environment(os.environ, device=device, extra={"TF_CPP_MIN_LOG_LEVEL": "2"})
    failed = []
    with Steps("making replicas", len(todo)) as steps:
        for name in todo:
            steps.begin(name)
            done = subprocess.run(
                [sys.executable, "-m", _MODULE, name], env=child, capture_output=True, text=True, check=False
            )
            if done.returncode:
                failed.append(name)
                lines = done.stderr.strip().splitlines()
                steps.warn(f"{name}: not made: {lines[-1] if lines else f'exit code {done.returncode}'}")
            steps.end(name)
    show(list(chosen))
    return 1 if failed else 0


def _chosen(names: Sequence[str]) -> dict[str, Path]:
    """Folders of the replicas that the names and globs mean; of all for none."""
    known = [entry.name for entry in load_catalog().values() if SOURCE in entry.sources]
    chosen: list[str] = []
    for pattern in names or ["*"]:
        found = fnmatch.filter(known, pattern)
        if not found:
            raise unknown_name("model of source=hub", pattern, known)
        chosen += [name for name in found if name not in chosen]
    return {name: environment.replica_folder(name) for name in chosen}


def _size(folder: Path) -> int | None:
    """Bytes of a replica; None where there is none."""
    if not (folder / "saved_model.pb").is_file():
        return None
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
