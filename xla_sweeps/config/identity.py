"""A trial's id on its device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xla_sweeps.config import catalog
from xla_sweeps.config.settings import Settings
from xla_sweeps.schema.backend import backend_of
from xla_sweeps.schema.trial import trial_id
from xla_sweeps.system import environment


def identify(settings: Settings, facts: Mapping[str, Any], *, cores: int | None = None) -> str:
    """The trial's id on its device, with the software of `environment.environment()`."""
    also = catalog.SOURCES[settings.trial.model.source].packages
    identity = environment.identity(
        settings.device, facts, backend_of(settings.trial), also=also, cores=cores
    )
    return trial_id(settings.trial, identity)
