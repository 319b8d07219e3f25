"""Messages between a measuring process, the worker, and its parent, one JSON document per line.

The parent sends a request, which begins a phase, and waits for its reply. Meanwhile the worker
sends events: what it begins, what it has built. It does nothing but wait between two requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from xla_sweeps.schema.explanation import Explanation
from xla_sweeps.schema.measurement import Block, Failure, Flagged, ModeOutcome, Phase, Status
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.text import redact


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Load the framework, which `SetUp` does otherwise. Answered by `Ready`."""

    phase: ClassVar = Phase.IMPORT


class SetUp(msgspec.Struct, frozen=True, tag="set_up"):
    """Load the framework, build the model, and run it eagerly. Answered by `Ready`."""

    phase: ClassVar = Phase.IMPORT
    job: ReplicateJob


class Prepare(msgspec.Struct, frozen=True, tag="prepare"):
    """Trace, compile, prove and verify a mode. Answered by `ModeReady`."""

    phase: ClassVar = Phase.TRACE
    mode: str


class WarmUp(msgspec.Struct, frozen=True, tag="warm_up"):
    """Warm a mode up. Answered by `Warmed`."""

    phase: ClassVar = Phase.WARMUP
    mode: str


class TimeBlock(msgspec.Struct, frozen=True, tag="time_block"):
    """Time a block of calls, after untimed ones if it is to settle. Answered by `Timed`.

    Attributes:
        first: position of the first call's input.
        ramp_s: how long no call must have been faster than those before; 0: one call settles.
        singles: how many single calls follow, each with a synchronization of its own.
    """

    phase: ClassVar = Phase.MEASURE
    mode: str
    calls: int
    settle: bool
    first: int = 0
    ramp_s: float = 0.0
    singles: int = 0


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """Check what the modes have become, given the calls of a block. Answered by `Finished`."""

    phase: ClassVar = Phase.MEASURE
    calls: Mapping[str, int]


class Explain(msgspec.Struct, frozen=True, tag="explain"):
    """Explain a model; `trace`: trace calls too. Answered by `Finished`."""

    phase: ClassVar = Phase.IMPORT
    job: ReplicateJob
    trace: bool


Request = Load | SetUp | Prepare | WarmUp | TimeBlock | Finish | Explain


class Stage(msgspec.Struct, frozen=True, tag="stage"):
    """Event: a stage begins, and with it the stage's timeout."""

    phase: Phase
    mode: str = ""
    detail: str = ""


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    """Event: the framework is loaded; versions and settings as it reports them."""

    environment: Mapping[str, Any]


class Built(msgspec.Struct, frozen=True, tag="built"):
    """Event: facts of the model, as far as they are known; the last one sent counts."""

    model: ModelFacts


class Caveat(msgspec.Struct, frozen=True, tag="caveat"):
    """Event: a caveat about the numbers."""

    flagged: Flagged


class Explained(msgspec.Struct, frozen=True, tag="explained"):
    """Event: what is known of the model so far; the last one sent counts. Answers `Explain`."""

    explanation: Explanation


Event = Stage | Loaded | Built | Caveat | Explained


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is built; `sync` is the synchronization self-test, `seconds` the stage times."""

    sync: Mapping[str, Any] = {}
    seconds: Mapping[str, float] = {}


class ModeReady(msgspec.Struct, frozen=True, tag="mode"):
    """A mode is prepared, unless it is not effective; what is known of it so far."""

    outcome: ModeOutcome


class Warmed(msgspec.Struct, frozen=True, tag="warmed"):
    """A mode is warm.

    Attributes:
        call_s: seconds that one more call takes in a block.
        sync_s: seconds of a synchronization with nothing to wait for.
        fill_s: seconds that filling and draining the queue add; None where calls do not queue.
    """

    outcome: ModeOutcome
    call_s: float
    sync_s: float
    fill_s: float | None = None


class Timed(msgspec.Struct, frozen=True, tag="timed"):
    """One block, and the worker's clock after it."""

    block: Block
    clock_ns: int


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """All is done; why modes were no steady state, and seconds of further stages."""

    spoilt: Mapping[str, tuple[Status, Failure]] = {}
    seconds: Mapping[str, float] = {}


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A Python exception ended the request.

    Attributes:
        line: of the user's code that raised it, as `file:line`, or "".
    """

    phase: Phase
    kind: str
    text: str
    line: str = ""


Reply = Ready | ModeReady | Warmed | Timed | Finished | Failed

Message = Event | Reply

MESSAGES: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
REQUESTS: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
"""Decodes the line of a request; raises `msgspec.DecodeError` for anything else."""


FLOOD_BYTES = 64 * 2**20
"""A library may write a few lines into the channel by mistake; past this it is no accident."""


class Reader:
    """Read messages out of the bytes that arrive, in time linear in their number."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._pending = self._junk = 0

    @property
    def flooded(self) -> bool:
        """True if more than `FLOOD_BYTES` were no messages, or are a line without end."""
        return self._pending + self._junk > FLOOD_BYTES

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that end in this chunk."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*self._parts, end))
            self._parts, self._pending = [], 0
            try:
                yield _redact(MESSAGES.decode(line))
            except msgspec.DecodeError:
                self._junk += len(line) + 1
        self._parts.append(rest)
        self._pending += len(rest)


def _redact(message: Message) -> Message:
    """The message without secrets that a model's text may hold; timings hold numbers only."""
    if isinstance(message, Timed):
        return message
    clean: Message = msgspec.convert(_without_secrets(msgspec.to_builtins(message)), type=Message)
    return clean


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _without_secrets(inner) for key, inner in value.items()}
    return value


def encode(message: Message | Request) -> bytes:
    """One line, newline included; what UTF-8 cannot hold becomes `?`."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, in somebody's error text
        text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False)
        return text.encode("utf-8", "replace") + b"\n"
