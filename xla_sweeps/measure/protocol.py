"""Messages between the measuring process and its parent, one JSON document per line.

After each Williams square of rounds the child sends `Square` and waits for a `Review` on its
standard input: only the parent watches the machine and knows which rounds are contaminated. It
waits after `Progressed` too, so that nothing is drawn while a block is timed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from xla_sweeps.schema.explanation import Explanation
from xla_sweeps.schema.measurement import ModeOutcome, Phase, Round
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.system.text import redacted


class Stage(msgspec.Struct, frozen=True, tag="stage"):
    """A stage begins, and with it the stage's timeout."""

    phase: Phase
    mode: str = ""
    detail: str = ""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """TensorFlow is loaded; versions and settings as TensorFlow reports them."""

    environment: Mapping[str, Any]


class Built(msgspec.Struct, frozen=True, tag="built"):
    """The model is built; parameters and multiply-accumulates are counted."""

    model: ModelFacts


class ModeReady(msgspec.Struct, frozen=True, tag="mode"):
    """What is known of a mode so far; the last one sent counts."""

    mode: str
    outcome: ModeOutcome


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A Python exception ended a mode, or the whole replicate if `mode` is empty."""

    phase: Phase
    mode: str
    kind: str
    text: str


class Flagged(msgspec.Struct, frozen=True, tag="flagged"):
    """A caveat for whoever reads the numbers."""

    flag: str


class Square(msgspec.Struct, frozen=True, tag="square"):
    """A Williams square of rounds is measured; the child waits for a `Review`."""

    rounds: tuple[Round, ...]


class Progressed(msgspec.Struct, frozen=True, tag="progress"):
    """Progress of the rounds, as `rounds.Progress`; the child waits for a `Review`."""

    measured: int
    rounds: int
    rounds_max: int
    half_width: float | None
    target: float
    remaining_s: tuple[float, float]


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The replicate is done; `sync` is the synchronization self-test, `seconds` the stage times."""

    contaminated: bool
    sync: Mapping[str, Any]
    seconds: Mapping[str, float]


class Explained(msgspec.Struct, frozen=True, tag="explained"):
    """What is known of the model so far; the last one sent counts. Only `explain` sends it."""

    explanation: Explanation


class Turn(msgspec.Struct, frozen=True, tag="turn"):
    """All is ready to be timed; the child waits for a `Review`, which comes once it is alone."""


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """The device is in use; sent by the parent to those that follow it, never by the child."""

    holder: str


class Disturbed(msgspec.Struct, frozen=True, tag="disturbed"):
    """Others use the machine; sent by the parent to those that follow it, never by the child."""

    cause: str
    at_most_s: float


Event = (
    Stage
    | Loaded
    | Built
    | ModeReady
    | Failed
    | Flagged
    | Square
    | Progressed
    | Explained
    | Turn
    | Waiting
    | Disturbed
    | Finished
)


class Review(msgspec.Struct, frozen=True):
    """The parent's answer to `Square`: the contaminated rounds, by number, and the cause.

    To `Progressed` and `Turn` it is empty.
    """

    dirty: Mapping[int, str] = {}


_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


FLOOD_BYTES = 64 * 2**20
"""A library may write a few lines into the channel by mistake; past this it is no accident."""


class Reader:
    """Reads events out of the bytes that arrive, in time linear in their number."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = self._junk = 0

    @property
    def flooded(self) -> bool:
        """Whether more than `FLOOD_BYTES` were no events, or are a line without end."""
        return self._held + self._junk > FLOOD_BYTES

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that end in this chunk."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*self._parts, end))
            self._parts, self._held = [], 0
            try:
                yield _redacted(decode(line))
            except msgspec.DecodeError:
                self._junk += len(line) + 1
        self._parts.append(rest)
        self._held += len(rest)


def _redacted(event: Event) -> Event:
    """The event without the secrets that a model's text may hold; squares hold numbers only."""
    if isinstance(event, Square | Progressed):
        return event
    clean: Event = msgspec.convert(_without_secrets(msgspec.to_builtins(event)), type=Event)
    return clean


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items()}
    return value


def encode(event: Event | Review) -> bytes:
    """One line, newline included; what UTF-8 cannot hold becomes `?`."""
    try:
        return msgspec.json.encode(event) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, in somebody's error text
        text = json.dumps(msgspec.to_builtins(event), ensure_ascii=False)
        return text.encode("utf-8", "replace") + b"\n"


def decode(line: bytes) -> Event:
    """Read one line; raises `msgspec.DecodeError` for anything that is not an event."""
    return _DECODER.decode(line)
