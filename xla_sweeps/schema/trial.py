"""A trial: a model, the execution modes that it is measured in, and the effort spent on it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from xla_sweeps.schema.comparisons import baseline_of, by_backend
from xla_sweeps.schema.modes import Scenario, parse


class Precision(StrEnum):
    """Keras dtype policy of the model."""

    FLOAT32 = "float32"
    MIXED_FLOAT16 = "mixed_float16"
    MIXED_BFLOAT16 = "mixed_bfloat16"


Copies = Literal["together", "apart"]

CompileCache = Literal["off", "cold", "warm"]
"""The persistent cache of the compiler in each process that is started: none, empty, or filled."""

EXAMPLE = "example"
"""The task of models that show one thing and take no image."""


def size_text(task: str, resolution_px: int | None) -> str:
    """The size that `resolution` sets: `96 px`, or `size 400` of an example; "" without one."""
    if not resolution_px:
        return ""
    return f"size {resolution_px}" if task == EXAMPLE else f"{resolution_px} px"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """One input of a model, by a name if it takes several; values are drawn from [low, high)."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = 0.0
    high: float = 255.0
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model, its source and its inputs.

    Attributes:
        library: what builds it: `keras`, `tf_keras`, `keras_cv`, `keras_hub`, `tensorflow_hub` or
            `local`.
        recipe: what that library's builder reads: constructor and arguments, a handle, or a path.
        resolution_px: side of the square input, pixels; None if the model fixes it.
        weights: `random`, `imagenet`, the name of a preset, a path, or `own` of the user's model.
    """

    name: str
    family: str
    variant: str
    task: str
    source: str
    library: str
    recipe: Mapping[str, Any]
    resolution_px: int | None
    native_resolution_px: int | None
    inputs: tuple[InputSpec, ...] = ()
    weights: str = "random"
    published_params: float | None = None
    published_gmacs: float | None = None
    keras: int | None = None


def _describe(text: str, **more: Any) -> Any:
    """A field that says what it holds, for the help text and docs/options.md."""
    return field(metadata={"help": text}, **more)


MAX_ROUNDS = 20_000
"""Most rounds of a replicate; the statistics take time and memory for each."""


ENERGY_PASSES = 3
"""Passes in which each mode runs alone once, and how often the idle device is measured before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Length and precision of a measurement; the levels are the files of `conf/effort/`."""

    name: str
    replicates: int = _describe("replicates: fresh processes that each measure every mode")
    rounds_min: int = _describe("rounds before the interval is first checked")
    rounds_look: int = _describe("rounds between checks")
    rounds_max: int = _describe("rounds after which measuring ends, converged or not")
    target_half_width: float = _describe(
        "half-width of the 95 % interval of the headline log-ratio at which measuring ends"
    )
    block_s: float = _describe("length of one timed block, seconds")
    mode_cap_s: float = _describe(
        "the most time that one mode is timed in one replicate, past six rounds, seconds"
    )
    warmup_calls: int = _describe("synchronized calls before a mode can count as warm")
    warmup_s: float = _describe("seconds before a mode can count as warm")
    warmup_cap_s: float = _describe("seconds after which warm-up ends, stationary or not")
    latency_calls: int = _describe(
        "single calls of a mode, each with a synchronization, spread over the first rounds"
    )
    latency_cap_s: float = _describe("the most time of one mode's single calls, seconds")
    settle_s: float = _describe(
        "longest call of a headline mode for which each block follows an untimed call, seconds"
    )
    hopeless_ends: bool = _describe(
        "whether measuring ends as futile: at a check from which even the last round would not "
        "reach the target"
    )
    side_rounds: int = _describe(
        "rounds after which a mode outside the headline, such as eager, is no longer measured; 0 "
        "for as many as the others",
        default=0,
    )
    warmup_cap_calls: int = _describe(
        "calls after which warm-up ends, stationary or not; 0 for no such limit", default=0
    )
    always_reference: bool = _describe(
        "whether the first replicate compares with float64 even where closeness to eager settles "
        "the check",
        default=False,
    )
    sustained_s: float = _describe(
        "how long each mode is then timed alone, on an accelerator only, seconds; 0 for never",
        default=0.0,
    )
    energy_s: float = _describe(
        "how long each mode then runs alone in each of three passes while the device's energy "
        "counter is read, where it has one, seconds; 0 for never",
        default=0.0,
    )
    duplicates: int = _describe(
        "a sweep measures one in so many trials of one replicate twice, chosen by a hash of what "
        "is measured, to learn how processes differ; 0 for none",
        default=0,
    )

    def timed_s(self, modes: int) -> float:
        """The most seconds that a replicate of so many modes is timed; a design may take longer."""
        each_s = self.mode_cap_s + self.warmup_cap_s + self.latency_cap_s + self.sustained_s
        return modes * each_s + ENERGY_PASSES * (modes + 1) * self.energy_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Deadline of each stage of a replicate, seconds; past it the child process is killed."""

    build_s: float = 900
    trace_s: float = 600
    compile_s: float = 1800
    warmup_s: float = 300
    measure_s: float = 3600

    @property
    def total_s(self) -> float:
        """All deadlines together, seconds."""
        return self.build_s + self.trace_s + self.compile_s + self.warmup_s + self.measure_s


FlagValue = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Options that TensorFlow reads when it loads; an absent one has its default."""

    xla_flags: Mapping[str, FlagValue] = field(default_factory=dict)
    tf_xla_flags: Mapping[str, FlagValue] = field(default_factory=dict)
    intra_threads: int | None = None
    inter_threads: int | None = None
    onednn: bool | None = None


def as_typed(value: Any) -> str:
    """A plain value as one would type it: `null`, `true`."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


OPTIMIZERS = (
    *("sgd", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "ftrl", "lion"),
    "adafactor",
)
"""The classes of `keras.optimizers`, in lower case."""

COMPILED = "compiled"
"""The optimizer that the user's own model is compiled with, else `sgd`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Pictures to train on; the fingerprint is sixteen hex digits of the files' names and sizes."""

    path: str
    pictures: Annotated[int, msgspec.Meta(ge=1, le=2**62)]
    fingerprint: str
    drop_remainder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The training of a model; of the `OPTIMIZERS` `sgd` has a momentum of 0.9."""

    optimizer: str = "sgd"
    learning_rate: float = 1e-3
    data: Data | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One model at one resolution and batch size on one device, in all its modes.

    Attributes:
        modes: labels, in the order given; of an A/A pair `graph`, `graph_2`.
        copies: whether copies of a mode are measured in one process, or each in one of its own.
        memory_limit_bytes: resident memory past which the child is stopped as `oom_host`.
        compile_cache: of the processes of a scenario that starts them.
        shapes: that a function meets one after the other; see `parse_shape`.
    """

    model: ModelSpec
    modes: tuple[str, ...]
    batch_size: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    precision: Precision
    tf32: bool
    seed: int
    device: str
    scenario: Scenario
    effort: Effort
    timeouts: Timeouts
    memory_limit_bytes: int
    batches: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 1
    runtime: Runtime = field(default_factory=Runtime)
    training: Training | None = None
    copies: Copies = "together"
    steps_per_execution: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 1
    compile_cache: CompileCache = "off"
    shapes: tuple[str, ...] = ()

    @property
    def baseline(self) -> str:
        """The mode that headline candidates are compared with: `baseline_of` the modes."""
        return baseline_of(self.modes)

    @property
    def on_accelerator(self) -> bool:
        """True on a device that has memory of its own and queues calls, unlike the CPU."""
        return self.device != "cpu"

    @property
    def workers(self) -> tuple[tuple[str, ...], ...]:
        """The labels that each measuring process measures: a backend's, or one copy of each."""
        groups = tuple(by_backend(self.modes).values())
        if self.copies == "together":
            return groups
        numbers = sorted({parse(label)[1] for label in self.modes})
        split = (
            tuple(label for label in labels if parse(label)[1] == number)
            for number in numbers
            for labels in groups
        )
        return tuple(filter(None, split))

    @property
    def samples(self) -> int:
        """Samples of one call; of an epoch over pictures at most as many as there are."""
        count = self.batch_size * self.batches
        return min(count, self.data.pictures) if self.data else count

    @property
    def data(self) -> Data | None:
        """The pictures that it trains on; None for values that are drawn."""
        return self.training.data if self.training else None


LATER = "_later"
"""Ending of the part of a block that is a later call of a shape."""


def parse_shape(name: str) -> tuple[int | None, int | None]:
    """(size, batch size) that a shape sets: `224` the one, px or steps, `b7` the other.

    Raises:
        ValueError: it is no shape.
    """
    if not (match := re.fullmatch("(b?)([1-9][0-9]{0,5})", name)):
        raise ValueError(name)
    number = int(match[2])
    return (None, number) if match[1] else (number, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerSettings:
    """The tracker of a trial, and where its runs go."""

    name: str = "none"
    project: str = ""
    entity: str | None = None
    group: str | None = None
    run_name: str | None = None
    notes: str | None = None
    job_type: str | None = None
    tags: tuple[str, ...] = ()
    telemetry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicateJob:
    """The task of one measuring process.

    Attributes:
        modes: labels still to be measured; without those that killed an earlier process.
        adopts: whether a worker takes the weights and expected outputs of another one, which has
            written them into the folder `shared`; "" where nothing is shared.
    """

    trial: Trial
    replicate: int
    modes: tuple[str, ...]
    order_seed: int
    adopts: bool = False
    shared: str = ""


REPLICATES = {"check": 1, "quick": 1, "starts": 2, "standard": 3, "publish": 5}
"""Number of replicates of each effort that comes along; it is part of the identity in every case.

Trials that ask for another number are the same trial: a further replicate is pooled with these.
"""


def trial_id(trial: Trial, identity: Mapping[str, Any]) -> str:
    """Sixteen hex digits, equal for exactly those trials whose replicates may be pooled.

    Deadlines and memory limit do not count, and of the device only the kind: its model is in the
    identity (`environment.identity`), so that two equal GPUs are one.
    """
    document = {**_affecting(trial), "device": trial.device.partition(":")[0]}
    return _digest({"trial": document, "identity": dict(identity)})


def request_id(trial: Trial) -> str:
    """Sixteen hex digits of what is measured, on any device: no device and versions count."""
    document = _affecting(trial)
    document.pop("device")
    return _digest(document)


def _digest(document: Mapping[str, Any]) -> str:
    canonical = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _affecting(trial: Trial) -> dict[str, Any]:
    """The values that affect a trial's numbers, as plain data."""
    document: dict[str, Any] = msgspec.to_builtins(trial)
    for key in ("timeouts", "memory_limit_bytes"):
        document.pop(key)
    for setting in fields(trial):  # an option at its default, as before there was such an option
        if getattr(trial, setting.name) == setting.default:
            document.pop(setting.name)
    for key in ("published_params", "published_gmacs", "native_resolution_px", "keras"):
        document["model"].pop(key)
    for key in ("always_reference", "sustained_s", "energy_s"):  # before and after what is timed
        document["effort"].pop(key)
    document["effort"].pop("duplicates")  # it plans replicates, and changes none
    document["effort"]["replicates"] = REPLICATES.get(trial.effort.name, 1)  # nor does their number
    for key in ("side_rounds", "warmup_cap_calls"):  # 0: no such limit, as in earlier versions
        if not document["effort"][key]:
            document["effort"].pop(key)
    if trial.training and trial.training.data:  # the content counts, not the path
        document["training"]["data"]["path"] = ""
    elif trial.training:  # as in earlier versions
        document["training"].pop("data")
    runtime = document.pop("runtime")
    for flags in ("xla_flags", "tf_xla_flags"):
        runtime[flags] = {name: as_typed(value) for name, value in runtime[flags].items()}
    asked = {name: value for name, value in runtime.items() if value not in (None, {})}
    document |= {"runtime": asked} if asked else {}
    if "fingerprint" in document["model"]["recipe"]:  # the content counts, not the path
        recipe = document["model"]["recipe"]
        document["model"]["recipe"] = {
            key: "" if key in ("path", "import") else value
            for key, value in recipe.items()
            if key != "inputs"  # the numbers of a batch count as little as those that are drawn
        }
    return document
