"""Build the program without TensorFlow: its requirements are those of ../../pyproject.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

LEFT_OUT = ("tensorflow", "tf-keras")

EXTRAS = ("jax", "torch", "report", "bayes", "ray", "slurm")
"""Extras that need no TensorFlow; KerasHub's own requirements bring it."""


class Requirements(MetadataHookInterface):
    """The requirements and extras of the whole program, less TensorFlow's."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add them to the metadata."""
        whole = tomllib.loads(Path(self.root, "../../pyproject.toml").read_text())["project"]
        needed = [word for word in whole["dependencies"] if not word.startswith(LEFT_OUT)]
        metadata["dependencies"] = needed
        extras = whole["optional-dependencies"]
        metadata["optional-dependencies"] = {name: extras[name] for name in EXTRAS}


class Editable(BuildHookInterface[Any]):
    """An editable installation takes the package from the checkout, and no copy of it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the data alone."""
        if version == "editable":
            data = {f"../../{name}": f"xla_sweeps/data/{name}" for name in ("conf", "sweeps")}
            build_data["force_include_editable"] = data
