"""A trial's id on its device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xla_sweeps.config import catalog
from xla_sweeps.config.settings import Settings
from xla_sweeps.schema.trial import Ids, trial_ids
from xla_sweeps.system import environment


def identify(settings: Settings, facts: Mapping[str, Any], *, cores: int | None = None) -> str:
    """The trial's id on its device, with the software of `environment.environment()`."""
    trial = settings.trial
    return identifiers(settings, facts, cores=cores)(trial.batch_size, trial.seed)


def identifiers(settings: Settings, facts: Mapping[str, Any], *, cores: int | None = None) -> Ids:
    """The same of trials that differ from this one in batch size and seed alone."""
    also = catalog.SOURCES[settings.trial.model.source].packages
    return trial_ids(
        settings.trial, environment.identity(settings.device, facts, also=also, cores=cores)
    )
