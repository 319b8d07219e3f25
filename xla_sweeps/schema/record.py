"""A record: everything one replicate of a trial yielded, as stored.

One JSON document each, whose last line is the digest of all bytes before it, in every schema.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec

from xla_sweeps.schema.comparisons import baseline_of, headline_candidates
from xla_sweeps.schema.measurement import (
    UNFINISHED,
    Count,
    Energy,
    Failure,
    Flagged,
    ModeOutcome,
    Round,
    Seconds,
    Status,
)
from xla_sweeps.schema.modes import SCENARIOS, is_mode
from xla_sweeps.schema.trial import (
    EXAMPLE,
    MAX_ROUNDS,
    ModelSpec,
    Precision,
    TrackerSettings,
    Trial,
    size_text,
)
from xla_sweeps.schema.upgrade import UPGRADES

SCHEMA_VERSION = 6
"""A new status, mode, scenario or meaning of a field is a new schema; a new field with a default is
not.
"""

Build = Mapping[str, str]
"""Values by name; those that are not known are not there."""

_Item = TypeVar("_Item")

_TEXT_LIMIT = 64 * 1024

_SHAPE = re.compile(r"\[([0-9]+(?:, [0-9]+)*)\]", re.ASCII)


class RecordFormatError(ValueError):
    """The bytes are no record that this version can read; the message says why."""


class NewerSchemaError(RecordFormatError):
    """The record was written by a newer version of xla_sweeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """The model as it was really built.

    Attributes:
        params: all variables' elements, moving statistics included.
        resolution_px: side of the square image; 0 where the model takes something else.
        macs: multiply-accumulates of one sample at `resolution_px`, or None where they could not be
            counted; `macs_by_type`: by the type of their operands, as XLA writes it: `f32`, `bf16`.
        graph_operations: that compute something, in the graph that graph mode ran: after
            TensorFlow's optimizer. None where graph mode did not run.
        fingerprint: sixteen hex digits of the operations that were traced, with shapes and types,
            without names and constants; "" where nothing was traced.
        eager_is_graph: whether its "eager" calls run a graph that was traced before (a SavedModel's
            always do), so that they compare with no Keras model's eager.
        replica_of: the handle of the published model whose architecture this is, with random
            weights; or "".
    """

    name: str
    family: str
    variant: str
    source: str
    task: str
    resolution_px: Count
    params: Count | None = None
    trainable_params: Count | None = None
    macs: Count | None = None
    macs_note: str = ""
    macs_by_type: Mapping[str, Count] = field(default_factory=dict)
    graph_operations: Count | None = None
    fingerprint: str = ""
    eager_is_graph: bool = False
    replica_of: str = ""
    inputs: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: ModelSpec) -> ModelFacts:
        """Facts of a model that was not built."""
        same = ("name", "family", "variant", "source", "task")
        facts = {name: getattr(spec, name) for name in same}
        return cls(**facts, resolution_px=spec.resolution_px or 0)

    @property
    def size(self) -> str:
        """Size of its input: `96 px`, or an example's shape: `400 × 16`; "" if unknown."""
        shape = _SHAPE.search(self.inputs[0]) if self.task == EXAMPLE and self.inputs else None
        return shape[1].replace(", ", " × ") if shape else size_text(self.task, self.resolution_px)

    @property
    def precision(self) -> str:
        """The types that it multiplies in, by their share: `bf16 98 %, f32 2 %`; "" if unknown."""
        total = sum(self.macs_by_type.values())
        shares = sorted(self.macs_by_type.items(), key=lambda share: -share[1])
        if len(shares) == 1:
            return shares[0][0]
        return ", ".join(f"{name} {100 * count / total:.3g} %" for name, count in shares if count)

    @property
    def macs_at_least(self) -> bool:
        """True if a loop may run more often than counted, so that `macs` is a lower bound."""
        return self.macs is not None and bool(self.macs_note)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpan:
    """Report of a GPU after a Williams design of rounds, and since its last report; None: unknown.

    Attributes:
        sm_mhz: clock of the multiprocessors at the end; `celsius` and `watts` likewise.
        reasons: NVML's clock event reasons at the end, a bit mask.
        power_capped_s: how long the power limit held the clock down; `thermal_s`: heat.
    """

    rounds: tuple[Count, Count]
    elapsed_s: Seconds
    sm_mhz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    reasons: Count | None = None
    power_capped_s: Seconds | None = None
    thermal_s: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One replicate of a trial: immutable once stored.

    Attributes:
        trial_id: sixteen hex digits; records with the same id may be pooled. It becomes the name of
            files, so that one with anything but letters, digits, _ and - is not read.
        environment: versions, flags, host; `environment.environment()` plus what the child read.
        device: kind, name and what else identifies the device; of a GPU also its settings.
        contamination: what the sampler outside the measuring process saw, summarized.
        sync: the synchronization self-test; `empty_s` is one with nothing to wait for, seconds.
        request_id: of what was asked for, whatever device measured it.
    """

    trial_id: Annotated[str, msgspec.Meta(pattern=r"\A[0-9A-Za-z_-]{1,64}\Z")]
    replicate: Count
    status: Status
    trial: Trial
    model: ModelFacts
    environment: Mapping[str, Any]
    device: Mapping[str, Any]
    modes: Mapping[str, ModeOutcome]
    rounds: tuple[Round, ...] = ()
    flags: tuple[Flagged, ...] = ()
    failure: Failure | None = None
    contamination: Mapping[str, Any] = field(default_factory=dict)
    gpu: tuple[GpuSpan, ...] = ()
    energy: Energy | None = None
    sync: Mapping[str, Any] = field(default_factory=dict)
    started_at: str = ""
    finished_at: str = ""
    seconds: Mapping[str, Seconds] = field(default_factory=dict)
    log: str = ""
    request_id: str = ""
    words: tuple[str, ...] | None = None
    tracker: TrackerSettings = field(default_factory=TrackerSettings)
    schema_version: int = SCHEMA_VERSION

    @property
    def on_gpu(self) -> bool:
        """True if a GPU was measured."""
        return self.device.get("kind") == "gpu"

    @property
    def uses_tf32(self) -> bool:
        """True if float32 products were TensorFloat-32: a trial on a GPU without it is refused."""
        return self.trial.tf32 and self.on_gpu

    def effective(self, model: ModelFacts) -> str:
        """`model.precision` as the device multiplied: `tf32` where that was in force."""
        is_tf32 = self.uses_tf32 and self.trial.precision is Precision.FLOAT32
        return re.sub(r"\bf32\b", "tf32", model.precision) if is_tf32 else model.precision

    def to_json(self) -> bytes:
        """The record as JSON; NaN becomes null, what else JSON cannot hold is replaced too."""
        return seal(_clean(asdict(self)))

    @classmethod
    def from_json(cls, text: bytes) -> Record:
        """Read a record back; one of an earlier schema is upgraded.

        Raises:
            NewerSchemaError: written by a newer version.
            RecordFormatError: truncated, damaged, or not a record.
        """
        has_digest = verify(text)
        with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
            version = _HEAD.decode(text).schema_version
            if has_digest and type(version) is int and version == SCHEMA_VERSION:
                return check(_RECORD.decode(text))
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RecordFormatError(f"not valid JSON: {error}") from error
        except RecursionError:
            raise RecordFormatError("not a record: it is nested too deeply") from None
        try:
            return check(msgspec.convert(_upgrade(document, has_digest=has_digest), cls))
        except RecordFormatError:
            raise
        except (msgspec.ValidationError, ValueError, RecursionError) as error:
            raise RecordFormatError(f"not a valid record: {error}") from error


class _Head(msgspec.Struct):
    schema_version: Any = None


_HEAD, _RECORD = msgspec.json.Decoder(_Head), msgspec.json.Decoder(Record)
"""Decoders of a record of today's schema; what they refuse is read step by step, for the reason."""

_DIGEST_START, _DIGEST_END = b',\n "digest": "', b'"\n}'

_NUMBERS = re.compile(r"\[\n[-+.eE\d,\s]+\]")

_DIGEST_BYTES = len(_DIGEST_START) + 64 + len(_DIGEST_END)


def seal(document: Mapping[str, Any]) -> bytes:
    """A document as it is stored: JSON, a list of numbers on one line, and last a digest."""
    plain = {name: value for name, value in document.items() if name != "digest"}
    text = json.dumps(plain, allow_nan=False, indent=1).removesuffix("\n}")
    text = _NUMBERS.sub(lambda numbers: "".join(numbers[0].split()), text)
    return with_digest(text.encode())


def with_digest(body: bytes) -> bytes:
    """A stored document from all its bytes before the last line."""
    return body + _DIGEST_START + hashlib.sha256(body).hexdigest().encode() + _DIGEST_END


def verify(text: bytes) -> bool:
    """True if the text ends in the digest of the bytes before it; False if it ends in none."""
    line = text[-_DIGEST_BYTES:]
    if not (line.startswith(_DIGEST_START) and line.endswith(_DIGEST_END)):
        return False
    digest = hashlib.sha256(memoryview(text)[:-_DIGEST_BYTES]).hexdigest().encode()
    if line[len(_DIGEST_START) : -len(_DIGEST_END)] != digest:
        raise RecordFormatError("damaged: its digest is not that of its content")
    return True


def _upgrade(document: Any, *, has_digest: bool) -> dict[str, Any]:
    """The document in the present schema."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if type(version) is not int:
        raise RecordFormatError("no schema_version: not a record of xla_sweeps")
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"schema {version} is newer than this version's {SCHEMA_VERSION}: "
            "update xla_sweeps to read it"
        )
    if version not in (*UPGRADES, SCHEMA_VERSION):
        raise RecordFormatError(f"schema_version {version}: not a record of xla_sweeps")
    if not has_digest:
        raise RecordFormatError("damaged: its last line is not a digest")
    for earlier in range(version, SCHEMA_VERSION):
        try:
            document = UPGRADES[earlier](document)
        except (LookupError, TypeError, AttributeError) as error:
            raise RecordFormatError(f"not a valid record: of schema {earlier}: {error}") from error
    trial = document.get("trial")
    scenario = trial.get("scenario") if isinstance(trial, dict) else None
    if isinstance(scenario, str) and scenario not in SCENARIOS:
        raise _newer("scenario", scenario)
    return {**document, "schema_version": SCHEMA_VERSION}


def _newer(what: str, name: str) -> NewerSchemaError:
    return NewerSchemaError(
        f"{what} {name} is unknown to this version: update xla_sweeps to read it"
    )


class _Loaded(msgspec.Struct):
    libraries: dict[str, Any] | None = None


class _Environment(msgspec.Struct):
    packages: dict[str, Any] | None = None
    loaded: _Loaded | None = None
    driver: dict[str, Any] | None = None
    flags: dict[str, Any] | None = None
    cpu: dict[str, Any] | None = None


def check(record: Record) -> Record:
    """The record; its modes are known, and its environment has the types that readers rely on."""
    if len(record.rounds) > MAX_ROUNDS:
        raise RecordFormatError(f"not a valid record: more than {MAX_ROUNDS:,} rounds")
    labels = (*record.modes, *record.trial.modes)
    unknown = next((label for label in labels if not is_mode(label)), None)
    if unknown is not None:
        raise _newer("mode", unknown)
    try:
        msgspec.convert(record.environment, _Environment)
    except msgspec.ValidationError as error:
        raise RecordFormatError(f"not a valid record: environment: {error}") from error
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
        return {_clean(str(key)): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(inner) for inner in value]
    return _clean(str(value))


def outcome_of(record: Record) -> Status:
    """A record's status; where it is `ok`, that of the first headline mode that is not.

    Of a contaminated one that of a mode whose measurement was not completed.
    """
    if record.status not in (Status.OK, Status.CONTAMINATED):
        return record.status
    labels: Sequence[str] = list(record.modes)
    if len(labels) > 1:
        labels = (baseline_of(labels), *headline_candidates(labels))
    statuses = [record.modes[label].status for label in labels]
    if record.status is Status.CONTAMINATED:
        statuses = [status for status in statuses if status in UNFINISHED]
    return next((status for status in statuses if status is not Status.OK), record.status)


def wall_s(record: Record) -> float:
    """Wall time of a replicate, seconds; without waits for its turn in a sweep."""
    turns_s = record.seconds.get("turns", 0.0)
    with contextlib.suppress(ValueError, TypeError):  # TypeError: one has a time zone, one has not
        ends = (record.started_at, record.finished_at)
        begun, ended = map(datetime.datetime.fromisoformat, ends)
        return max(0.0, (ended - begun).total_seconds() - turns_s)
    return float(sum(record.seconds.values())) - turns_s


def build_of(record: Record) -> dict[str, str]:
    """The known values of a replicate's build: the model, and the libraries that it ran on.

    A trial's id says what was asked for; its code and libraries may have changed since.
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
    """The items of the newest build, and what is known of it."""
    latest: dict[str, str] = {}
    kept: list[_Item] = []
    for candidate in reversed(items):
        this = build(candidate)
        if not differ(latest, this):
            latest = {**this, **latest}
            kept.insert(0, candidate)
    return kept, latest
