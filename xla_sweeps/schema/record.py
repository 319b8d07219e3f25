"""A record: everything one replicate of a trial yielded, as stored. One JSON document each."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from xla_sweeps.schema.measurement import Failure, ModeOutcome, Round, Status
from xla_sweeps.schema.trial import ExecutionMode, baseline_of, headline_candidates

SCHEMA_VERSION = 1

_TEXT_LIMIT = 64 * 1024


class RecordFormatError(ValueError):
    """The bytes are no record that this version can read; the message says why."""


class NewerSchemaError(RecordFormatError):
    """The record was written by a newer version of xla_sweeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The model as it was really built.

    Attributes:
        params: all variables' elements, moving statistics included.
        trainable_params: of these, the trainable ones.
        resolution_px: side of the square image; 0 where the model takes something else.
        macs: multiply-accumulates of one sample at `resolution_px`, or None where they could not be
            counted.
        macs_note: why not, or a caveat.
        eager_is_graph: whether its "eager" calls run a graph that was traced before (a SavedModel's
            always do), so that they compare with no Keras model's eager.
        replica_of: the handle of the published model whose architecture this is, with random
            weights; or "".
        inputs: shape and dtype of each, without the batch.
    """

    name: str
    family: str
    variant: str
    source: str
    task: str
    resolution_px: int
    params: int | None = None
    trainable_params: int | None = None
    macs: int | None = None
    macs_note: str = ""
    eager_is_graph: bool = False
    replica_of: str = ""
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One replicate of a trial: immutable once stored.

    Attributes:
        trial_id: sixteen hex digits; records with the same id may be pooled.
        replicate: the number of the file within the trial, from 0.
        status: of the replicate as a whole.
        config: the resolved configuration.
        environment: versions, flags, host; `environment.environment()` plus what the child read.
        device: kind, name and what else identifies the device.
        modes: outcome of each mode, by label.
        rounds: raw blocks, in the order they were measured.
        contamination: what the sampler outside the measuring process saw, summarized.
        seconds: wall time of the stages `build`, `prepare`, `measure`.
        log: the replicate's log file, relative to the results folder.
        request_id: of what was asked for, whatever device measured it; "" in older records.
    """

    trial_id: str
    replicate: int
    status: Status
    config: Mapping[str, Any]
    model: ModelFacts
    environment: Mapping[str, Any]
    device: Mapping[str, Any]
    modes: Mapping[str, ModeOutcome]
    rounds: tuple[Round, ...] = ()
    flags: tuple[str, ...] = ()
    failure: Failure | None = None
    contamination: Mapping[str, Any] = field(default_factory=dict)
    sync: Mapping[str, Any] = field(default_factory=dict)
    started_at: str = ""
    finished_at: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    log: str = ""
    request_id: str = ""
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> bytes:
        """The record as JSON.

        Never fails: what JSON cannot hold is replaced (NaN by null, lone surrogates by ?).
        """
        return json.dumps(_clean(asdict(self)), allow_nan=False, indent=1).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Record:
        """Read a record back.

        Raises:
            NewerSchemaError: written by a newer version.
            RecordFormatError: truncated, damaged, or not a record.
        """
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):  # reported below
            record = _DECODER.decode(text)
            if record.schema_version == SCHEMA_VERSION and b'"schema_version"' in text:
                return _with_known_modes(record)
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RecordFormatError(f"not valid JSON: {error}") from error
        version = document.get("schema_version") if isinstance(document, dict) else None
        if not isinstance(version, int):
            raise RecordFormatError("no schema_version: not a record of xla_sweeps")
        if version > SCHEMA_VERSION:
            raise NewerSchemaError(
                f"schema {version} is newer than this version's {SCHEMA_VERSION}: "
                "update xla_sweeps to read it"
            )
        try:
            return _with_known_modes(msgspec.convert(document, cls))
        except NewerSchemaError:
            raise
        except (msgspec.ValidationError, ValueError) as error:
            raise RecordFormatError(f"not a valid record: {error}") from error


_DECODER = msgspec.json.Decoder(Record)

_MODES = frozenset(ExecutionMode)


def _with_known_modes(record: Record) -> Record:
    """The record; one of a later version may hold a mode that is unknown here."""
    unknown = next((label for label in record.modes if label.split("_")[0] not in _MODES), None)
    if unknown is not None:
        raise NewerSchemaError(
            f"mode {unknown} is unknown to this version: update xla_sweeps to read it"
        )
    return record


def _clean(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
        half = _TEXT_LIMIT // 2
        return text if len(text) <= _TEXT_LIMIT else f"{text[:half]}\n[... cut ...]\n{text[-half:]}"
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_clean(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(item) for item in value]
    return _clean(str(value))


def outcome_of(record: Record) -> Status:
    """A record's status.

    Where it is `ok`, that of the first headline mode that has no valid number.
    """
    if record.status is not Status.OK:
        return record.status
    modes = [record.modes[label] for label in headline_of(list(record.modes))]
    return next((mode.status for mode in modes if mode.status is not Status.OK), Status.OK)


def headline_of(labels: Sequence[str]) -> Sequence[str]:
    """The baseline and the headline's candidates, or the only mode."""
    return (baseline_of(labels), *headline_candidates(labels)) if len(labels) > 1 else labels
