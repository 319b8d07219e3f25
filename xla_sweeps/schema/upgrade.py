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
    modes = {label: _unverifiable(label, outcome) for label, outcome in document["modes"].items()}
    return document | {"modes": modes}


def _unverifiable(label: str, outcome: Any) -> Any:
    failure = _mapping(_mapping(outcome).get("failure"))
    message = failure.get("message")
    if not isinstance(message, str) or not message.startswith(_REFUSED):
        return outcome
    if outcome["status"] != Status.WRONG_RESULT:
        return outcome
    if label == Mode.EAGER:
        return {**outcome, "status": str(Status.OK), "failure": None}
    message = message.removeprefix(_REFUSED).strip()
    status = str(Status.UNVERIFIABLE)
    return {**outcome, "status": status, "failure": {**failure, "message": message}}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {4: unverifiable}
"""The function that turns a document of each earlier schema into the next one."""
