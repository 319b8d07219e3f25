"""What a replicate really measured: the model as built, and the libraries that it ran on. Pure.

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
    """What is known of a replicate's build.

    Multiply-accumulates follow from the fingerprint, and are counted in two ways.
    """
    libraries = (record.environment.get("loaded") or {}).get("libraries") or {}
    model = record.model
    found = {"params": model.params, "operations": model.fingerprint, **libraries}
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def differ(one: Build, other: Build) -> bool:
    """Whether two builds differ in something that is known of both."""
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
    known: dict[str, str] = {}
    kept: list[_Item] = []
    for item in reversed(items):
        found = build(item)
        if not differ(known, found):
            known = {**found, **known}
            kept.insert(0, item)
    return kept, known
