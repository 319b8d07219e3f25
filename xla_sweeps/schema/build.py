"""The build that a replicate measured: the model, and the libraries that it ran on. Pure.

A trial's id says what was asked for. A model's code may load other files than before, and a library
may come from elsewhere than the packages that are installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xla_sweeps.schema.record import Record

Build = Mapping[str, str]
"""Values by name; those that are not known are not there."""

_Item = TypeVar("_Item")


def build_of(record: Record) -> dict[str, str]:
    """The known values of a replicate's build.

    Multiply-accumulates follow from the fingerprint, and are counted in two ways.
    """
    libraries = (record.environment.get("loaded") or {}).get("libraries") or {}
    model = record.model
    values = {"params": model.params, "operations": model.fingerprint, **libraries}
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def differ(one: Build, other: Build) -> bool:
    """True if two builds differ in a value that both have."""
    return any(one[name] != other[name] for name in one.keys() & other.keys())


def newest(
    items: Sequence[_Item], build: Callable[[_Item], Build]
) -> tuple[list[_Item], dict[str, str]]:
    """The items of the newest build, and what is known of it.

    Args:
        items: of one trial, the newest last.
        build: of an item.
    """
    if len(items) == 1:
        return list(items), dict(build(items[0]))
    latest: dict[str, str] = {}
    kept: list[_Item] = []
    for item in reversed(items):
        this = build(item)
        if not differ(latest, this):
            latest = {**this, **latest}
            kept.insert(0, item)
    return kept, latest
