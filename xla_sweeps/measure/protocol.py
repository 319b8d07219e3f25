"""What the measuring process tells its parent, one JSON document a line, and the one thing it asks.

After each whole square of rounds the child sends `Square` and waits for a `Review` on its standard
    input: only the parent sees the rest of the machine, so only it can say which rounds were
    disturbed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from xla_sweeps.schema.measurement import ModeOutcome, Phase, Round
from xla_sweeps.schema.record import ModelFacts


class Stage(msgspec.Struct, frozen=True, tag="stage"):
    """A stage begins; its deadline starts to run."""

    phase: Phase
    mode: str = ""
    detail: str = ""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """TensorFlow is loaded; versions and settings as it reports them."""

    environment: Mapping[str, Any]


class Built(msgspec.Struct, frozen=True, tag="built"):
    """The model stands; parameters and multiply-accumulates counted."""

    model: ModelFacts


class ModeReady(msgspec.Struct, frozen=True, tag="mode"):
    """What is known of a mode; sent again as more becomes known, the last one counts."""

    mode: str
    outcome: ModeOutcome


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A Python exception ended a mode, or with `mode` empty the whole replicate."""

    phase: Phase
    mode: str
    kind: str
    text: str


class Flagged(msgspec.Struct, frozen=True, tag="flagged"):
    """Something a reader of the numbers should know."""

    flag: str


class Square(msgspec.Struct, frozen=True, tag="square"):
    """A whole square of rounds is measured; a `Review` is waited for."""

    rounds: tuple[Round, ...]


class Progressed(msgspec.Struct, frozen=True, tag="progress"):
    """Where measuring stands; `remaining_s` is the soonest and the latest end."""

    rounds: int
    rounds_max: int
    half_width: float | None
    target: float
    remaining_s: tuple[float, float]


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """All done; `sync` is the synchronization self-test, `seconds` the wall time of the stages."""

    contaminated: bool
    sync: Mapping[str, Any]
    seconds: Mapping[str, float]


Event = Stage | Loaded | Built | ModeReady | Failed | Flagged | Square | Progressed | Finished


class Review(msgspec.Struct, frozen=True):
    """The parent's answer to `Square`: the disturbed rounds, by number, and what disturbed them."""

    dirty: Mapping[int, str] = {}


_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(event: Event | Review) -> bytes:
    """One line, newline included."""
    return msgspec.json.encode(event) + b"\n"


def decode(line: bytes) -> Event:
    """Read one line; raises `msgspec.DecodeError` for anything that is no event."""
    return _DECODER.decode(line)
