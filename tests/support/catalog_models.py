"""Models of the catalog, as a trial asks for them."""

from __future__ import annotations

import yaml

from xla_sweeps.config import catalog
from xla_sweeps.schema.trial import ModelSpec


def of_catalog(
    name: str, source: str, resolution: int | None = None, weights: str = "random"
) -> ModelSpec:
    """A model from a source, by default at its native resolution."""
    document = yaml.safe_load((catalog.conf_dir() / "model" / f"{name}.yaml").read_text())
    return catalog.model_spec(document, source=source, resolution=resolution, weights=weights)
