"""A record as far as comparison rows need it, which takes half the time to read.

The members have the names, types and ranges that they have in `Record`. What only later analyses
ask for is not there, and not checked: load around each round, the GPU's reports, warm-up blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec

from xla_sweeps.schema.measurement import Agreement, Count, Failure, Positive, Seconds, Status
from xla_sweeps.schema.record import (
    ModelFacts,
    ProcessStart,
    Record,
    RecordFormatError,
    checked,
    is_present,
    verified,
)
from xla_sweeps.schema.trial import TrackerSettings, Trial

_FromOne = Annotated[int, msgspec.Meta(ge=1, le=2**62)]


class _Block(msgspec.Struct, frozen=True, gc=False):
    mode: str
    calls: _FromOne
    elapsed_ns: _FromOne

    @property
    def call_s(self) -> float:
        return self.elapsed_ns / self.calls / 1e9


class _Round(msgspec.Struct, frozen=True, gc=False):
    blocks: tuple[_Block, ...]
    dirty: str = ""


class _Mode(msgspec.Struct, frozen=True, gc=False):
    status: Status
    effective: Mapping[str, Any] = {}
    trace_s: Seconds | None = None
    first_call_s: Seconds | None = None
    compile_s: Seconds | None = None
    peak_memory_bytes: Count | None = None
    steady_memory_bytes: Count | None = None
    latencies_s: tuple[Positive, ...] = ()
    latency_enqueue_ns: tuple[Count, ...] = ()
    sustained_call_s: tuple[Positive, ...] = ()
    copies_s: Mapping[str, Seconds] = {}
    last_batch_compile_s: Seconds | None = None
    failure: Failure | None = None
    agreement: Agreement | None = None


class _Record(msgspec.Struct, frozen=True, gc=False):
    trial_id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9A-Za-z_-]{1,64}\Z")]
    replicate: Count
    status: Status
    trial: Trial
    model: ModelFacts
    environment: Mapping[str, Any]
    device: Mapping[str, Any]
    modes: Mapping[str, _Mode]
    schema_version: int
    rounds: tuple[_Round, ...] = ()
    flags: tuple[str, ...] = ()
    failure: Failure | None = None
    contamination: Mapping[str, Any] = {}
    seconds: Mapping[str, Seconds] = {}
    started_at: str = ""
    finished_at: str = ""
    log: str = ""
    request_id: str = ""
    words: tuple[str, ...] | None = None
    process: ProcessStart = "unknown"
    tracker: TrackerSettings = TrackerSettings()


_DECODER = msgspec.json.Decoder(_Record)


def read_brief(text: bytes) -> Record:
    """Read what rows need of a record.

    What cannot be read so is read whole, which says why, or upgrades it.

    Raises:
        RecordFormatError: as `Record.from_json`.
    """
    if not verified(text):
        return Record.from_json(text)
    try:
        record = cast(Record, _DECODER.decode(text))
        return checked(record) if is_present(record, text) else Record.from_json(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, RecordFormatError):
        return Record.from_json(text)
