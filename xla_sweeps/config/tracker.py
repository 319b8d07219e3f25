"""Reads the tracker of a trial and where its runs go, with W&B's own variables."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from xla_sweeps.config import values
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.trial import TrackerSettings
from xla_sweeps.system.text import has_credentials

CREDENTIALS_RULE = (
    "WANDB_BASE_URL holds a user and a password, which W&B's client writes into its logs; give the "
    "address alone, and the key in WANDB_API_KEY or by `wandb login`"
)

MAX_PROJECT = 128
"""Characters of a W&B project's name."""

_WANDB_VARIABLES = {
    "entity": "WANDB_ENTITY",
    "group": "WANDB_RUN_GROUP",
    "run_name": "WANDB_NAME",
    "notes": "WANDB_NOTES",
    "job_type": "WANDB_JOB_TYPE",
}


def tracker_of(
    document: Mapping[str, Any], explicit: Collection[str], environ: Mapping[str, str]
) -> TrackerSettings:
    """The tracker that was named; by default offline, or what W&B's own variables ask for."""
    given = document["tracker"]
    if not isinstance(given, Mapping):
        given = {"name": given}
    name = values.choice(document, "tracker")
    wandb_mode = environ.get("WANDB_MODE", "").lower()
    if not {"tracker", "tracker.name"} & set(explicit):
        if wandb_mode in ("disabled", "dryrun", "offline"):
            name = "none" if wandb_mode == "disabled" else "wandb_offline"
        elif wandb_mode == "online" or environ.get("WANDB_SWEEP_ID"):
            name = "wandb"
    if name != "none" and has_credentials(environ.get("WANDB_BASE_URL", "")):
        raise ConfigError(CREDENTIALS_RULE)
    tags = given.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str | int) for tag in tags):
        raise ConfigError(f"tracker.tags={tags}: expected a list, as in tracker.tags=[A,B]")
    for key in ("project", "entity", "group"):
        if not isinstance(given.get(key), str | int | None):
            raise ConfigError(f"tracker.{key}={given[key]}: expected a string")
    asked = given.get("project") if "tracker.project" in explicit else None
    project = str(asked or environ.get("WANDB_PROJECT") or given.get("project") or "xla-sweeps")
    if project == "sweeps":
        raise ConfigError(
            "tracker.project=sweeps: W&B's client cannot read a project of that name; choose "
            "another"
        )
    if re.search(r"[/\\#?%:]", project) or len(project) > MAX_PROJECT:
        raise ConfigError(
            f"tracker.project={project}: W&B takes at most {MAX_PROJECT} characters, none of "
            "/ \\ # ? % :"
        )
    others = (tag.strip() for tag in environ.get("WANDB_TAGS", "").split(","))
    return TrackerSettings(
        name=name,
        project=project,
        tags=tuple(dict.fromkeys(filter(None, (*map(str, tags), *others)))),
        **{
            key: None if value is None else str(value)
            for key, variable in _WANDB_VARIABLES.items()
            for value in [given.get(key) or environ.get(variable) or None]
        },
    )
