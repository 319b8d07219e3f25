"""Upgrades of records: turn the document of an earlier schema into one of the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import Mode

_REFUSED = "refused:"
"""Beginning of the reason where a mode could not be verified, up to schema 4."""


def unverifiable(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 5 has a status of its own for a mode that cannot be verified, and none for eager."""
    modes = dict(document["modes"])
    for label, outcome in modes.items():
        failure = outcome.get("failure") or {"message": ""}
        message = failure["message"]
        if outcome["status"] != Status.WRONG_RESULT or not message.startswith(_REFUSED):
            continue
        if label == Mode.EAGER:
            modes[label] = {**outcome, "status": str(Status.OK), "failure": None}
        else:
            reason = {**failure, "message": message.removeprefix(_REFUSED).strip()}
            modes[label] = {**outcome, "status": str(Status.UNVERIFIABLE), "failure": reason}
    return document | {"modes": modes}


UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {4: unverifiable, 5: dict}
"""The function that turns a document of each earlier schema into the next one.

Schema 6 has one status more, `killed`.
"""
