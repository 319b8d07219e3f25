"""Realistic values for tests: a trial, records with chosen speeds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from typing import Any

import msgspec

from xla_sweeps.schema.comparisons import headline_of, implied_modes
from xla_sweeps.schema.measurement import (
    Agreement,
    Block,
    Failure,
    Load,
    ModeOutcome,
    Phase,
    Round,
    Status,
    Trend,
)
from xla_sweeps.schema.modes import JIT_CANDIDATES, Scenario, mode_of
from xla_sweeps.schema.options import BY_NAME, LOCAL, RUNTIME
from xla_sweeps.schema.overrides import asked_of, overrides, runtime_text
from xla_sweeps.schema.record import GpuSpan, ModelFacts, Record, with_digest
from xla_sweeps.schema.trial import (
    Effort,
    InputSpec,
    ModelSpec,
    Precision,
    Runtime,
    Timeouts,
    TrackerSettings,
    Training,
    Trial,
    request_id,
)

EFFORT = Effort(
    name="quick",
    replicates=1,
    rounds_min=10,
    rounds_look=10,
    rounds_max=20,
    target_half_width=0.01,
    block_s=0.03,
    mode_cap_s=30,
    warmup_calls=5,
    warmup_s=0.0,
    warmup_cap_s=0.01,
    warmup_cap_calls=5,
    latency_calls=100,
    latency_cap_s=2,
    settle_s=1,
    hopeless_ends=False,
)
"""With as short a warm-up as there is: nothing that these modes take is believed."""

TRIAL = Trial(
    model=ModelSpec(
        name="resnet50",
        family="ResNetV1",
        variant="ResNet50",
        task="classification",
        source="applications",
        library="keras",
        recipe={"constructor": "ResNet50"},
        inputs=(InputSpec(shape=(224, 224, 3)),),
        resolution_px=224,
        native_resolution_px=224,
    ),
    modes=("graph", "xla"),
    batch_size=4,
    precision=Precision.FLOAT32,
    tf32=False,
    seed=0,
    device="cpu",
    scenario=Scenario.CALL,
    effort=EFFORT,
    memory_limit_bytes=8 * 2**30,
    timeouts=Timeouts(build_s=60, trace_s=60, compile_s=60, warmup_s=60, measure_s=60),
)
CONFIG: Mapping[str, Any] = {
    "model": {"name": "resnet50", "family": "ResNetV1", "variant": "ResNet50"},
    "source": "applications",
    "resolution": 224,
    "batch_size": 4,
    "precision": "float32",
    "modes": ["eager", "graph", "xla"],
    "scenario": "call",
    "effort": {"name": "quick"},
    "tracker": {"name": "none", "project": "xla-sweeps", "entity": None, "group": None, "tags": []},
}


def asked(
    config: Mapping[str, Any],
    *,
    model: ModelFacts | None = None,
    modes: Iterable[str] = ("graph", "xla"),
) -> dict[str, Any]:
    """The trial and the tracker of a record that was asked for with these options."""
    built, plain = model or MODEL, {**config}
    size, source = plain.get("resolution"), plain.get("source", built.source)
    spec = replace(
        TRIAL.model,
        **{name: getattr(built, name) for name in ("name", "family", "variant", "task")},
        source=source,
        library={"applications": "keras", "hub": "tensorflow_hub"}.get(source, source),
        native_resolution_px=None,
        recipe={"path": plain["path"]} if source == "local" else {},
        inputs=(InputSpec(shape=(size, size, 3)),) if size else (),
        resolution_px=size,
        keras=plain.get("keras"),
        weights="own" if source == "local" else plain.get("weights", "random"),
    )
    same = {name: plain[name] for name in _TRIAL_KEYS if name in plain}
    optimizer = plain.get("optimizer")
    trial = replace(
        TRIAL,
        **{"batch_size": 1, "device": "", **same},
        timeouts=Timeouts(),
        memory_limit_bytes=0,
        model=spec,
        modes=tuple(plain.get("modes") or modes),
        precision=Precision(plain.get("precision", "float32")),
        scenario=Scenario(plain.get("scenario", "call")),
        effort=Effort(**{**_NO_EFFORT, **plain.get("effort", {})}),
        runtime=Runtime(
            **{name: plain[name] for name in ("xla_flags", "tf_xla_flags") if name in plain},
            onednn=plain.get("onednn"),
            intra_threads=plain.get("threads", {}).get("intra"),
            inter_threads=plain.get("threads", {}).get("inter"),
        ),
        training=Training(optimizer=optimizer) if optimizer else None,
    )
    tracker = {name: value for name, value in plain.get("tracker", {}).items() if value is not None}
    return {"trial": trial, "tracker": msgspec.convert(tracker, TrackerSettings)}


_NO_EFFORT = {"name": ""} | {
    one.name: False if one.type == "bool" else 0
    for one in fields(Effort)
    if one.default is MISSING and one.name != "name"
}
"""An effort of which the options say nothing."""

_TRIAL_KEYS = ("batch_size", "batches", "tf32", "seed", "device", "copies")
"""Options that are fields of a trial, with the same value."""


def config_of(scenario: str, *modes: str) -> dict[str, Any]:
    """The configuration of a trial in a scenario; by default of its headline pair."""
    return {**CONFIG, "scenario": scenario, "modes": [*(modes or headline_of(scenario))]}


TRIAL_ID = "0123456789abcdef"
MODEL = ModelFacts(
    name="resnet50",
    family="ResNetV1",
    variant="ResNet50",
    source="applications",
    task="classification",
    resolution_px=224,
    params=25_636_712,
    trainable_params=25_583_592,
    macs=3_858_000_000,
)


def make_contaminated(factor: float, replicates: int) -> list[Record]:
    """Contaminated replicates of a trial in which XLA is faster by a factor."""
    times = {"graph": 0.1 * factor, "xla": 0.1}
    return [
        make_record(
            times,
            replicate=number,
            status=Status.CONTAMINATED,
            rounds=make_rounds(times, noise=0.02, dirty=range(12), seed=number),
        )
        for number in range(replicates)
    ]


def make_rounds(
    call_s: Mapping[str, float],
    *,
    count: int = 12,
    noise: float = 0.0,
    seed: int = 0,
    dirty: Sequence[int] = (),
) -> tuple[Round, ...]:
    """Rounds in which each mode takes its time, times log-normal noise."""
    source = random.Random(seed)
    length_ns = round(sum(4e9 * seconds for seconds in call_s.values()))
    return tuple(
        Round(
            round=number,
            order=tuple(call_s),
            blocks=tuple(
                Block(
                    mode=mode,
                    calls=2,
                    elapsed_ns=round(2e9 * seconds * math.exp(source.gauss(0, noise))),
                    enqueue_ns=1000,
                )
                for mode, seconds in call_s.items()
            ),
            started_ns=number * length_ns,
            finished_ns=(number + 1) * length_ns,
            dirty="other processes used 1.0 cores" if number in dirty else "",
        )
        for number in range(count)
    )


def change_blocks(rounds: Iterable[Round], change: Callable[[Block], Block]) -> tuple[Round, ...]:
    """The rounds with their blocks as a function makes them."""
    return tuple(replace(one, blocks=tuple(map(change, one.blocks))) for one in rounds)


def make_outcome(
    call_s: float = 0.1, *, status: Status = Status.OK, compile_s: float = 1.0, **changes: Any
) -> ModeOutcome:
    """A mode that was prepared and measured."""
    fields: dict[str, Any] = {
        "status": status,
        "trace_s": 0.5,
        "first_call_s": compile_s + call_s,
        "compile_s": compile_s,
        "steady_memory_bytes": 2**30,
        "latencies_s": (call_s,) * 20,
        "effective": {"in_force": True},
        "agreement": Agreement(rmse_rel=1e-6, top1_match=1.0, ok=True),
    }
    return ModeOutcome(**{**fields, **changes})


def failed_outcome(status: Status, message: str = "it failed", hint: str = "") -> ModeOutcome:
    """A mode that gave no number."""
    return ModeOutcome(
        status=status,
        failure=Failure(phase=Phase.COMPILE, kind="Error", message=message, hint=hint),
    )


def make_record(
    call_s: Mapping[str, float] | None = None,
    *,
    noise: float = 0.0,
    seed: int = 0,
    count: int = 12,
    **changes: Any,
) -> Record:
    """A replicate whose modes take `call_s` seconds a call."""
    times = {"graph": 0.2, "xla": 0.1} if call_s is None else call_s
    fields: dict[str, Any] = {
        "trial_id": TRIAL_ID,
        "replicate": 0,
        "status": Status.OK,
        "model": MODEL,
        "environment": {"python": "3.11"},
        "device": {"kind": "cpu", "name": "Some CPU"},
        "modes": {mode: make_outcome(seconds) for mode, seconds in times.items()},
        "rounds": make_rounds(times, count=count, noise=noise, seed=seed),
        "seconds": {"build": 1.0},
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": "2026-01-01T00:01:00+00:00",
    }
    fields |= changes
    config = fields.pop("config", CONFIG)
    made = {} if "trial" in fields else asked(config, model=fields["model"], modes=fields["modes"])
    trial = fields.get("trial") or made["trial"]
    request = {"words": words_of(trial), "request_id": request_id(trial)}
    return Record(**request | made | fields)


def words_of(trial: Trial) -> tuple[str, ...]:
    """The overrides that ask for a trial; what is as by default is left out."""
    plain = {
        name: value
        for name, value in asked_of(trial).items()
        if name not in ("modes", *RUNTIME)
        and (name in ("model", "source") or value not in (BY_NAME[name].default, None, ""))
    }
    if plain["model"] == LOCAL:
        del plain["source"]
    modes = [mode_of(label) for label in trial.modes]
    jit = next((j for j in JIT_CANDIDATES if [*implied_modes(trial.scenario, j)] == modes), None)
    chosen = {"modes": list(map(str, modes))} if jit is None else {}
    named = [] if jit is None else [f"jit={jit}"]
    return (*overrides(plain | chosen), *named, *runtime_text(trial).split())


def renamed(text: bytes, before: str, after: str) -> bytes:
    """A stored record in which one text stands for another."""
    body = text.rpartition(b',\n "digest"')[0]
    return with_digest(body.replace(before.encode(), after.encode()))


def full(record: Record) -> Record:
    """The record with everything that is optional, and from a GPU."""
    load = Load(foreign_cores=0.01, steal_share=0.0, pressure_share=0.02)
    span = GpuSpan(rounds=(0, 11), elapsed_s=5.0, sm_mhz=1400.0, celsius=60.0, reasons=4)
    modes = {
        label: replace(
            mode,
            latency_enqueue_ns=(1000,) * len(mode.latencies_s),
            sustained_call_s=mode.latencies_s[:4],
            warmup_trend=Trend.STEADY,
            warmup_block_calls=(1, 2),
            warmup_block_ns=(10**8, 2 * 10**8),
        )
        for label, mode in record.modes.items()
    }
    return replace(
        record,
        modes=modes,
        rounds=tuple(replace(round_, load=load) for round_ in record.rounds),
        model=replace(record.model, macs_by_type={"f32": 9, "bf16": 1}, fingerprint="0" * 16),
        device={**record.device, "kind": "gpu"},
        environment={
            **record.environment,
            "id": "01234567",
            "flags": {"XLA_FLAGS": "--xla_a=1", "LD_PRELOAD": "libtcmalloc.so.4"},
            "loaded": {"cuda": "12.5.1", "libraries": {"cudnn": "90300"}},
        },
        contamination={
            **{"foreign_cores": 0.3, "cores": 2, "busiest": ["python"], "waited_s": 1.5},
            **{"gpu_sm_mhz": [1300.0, 1400.0], "gpu_celsius": [50.0, 60.0], "gpu_reasons": 4},
        },
        gpu=(span,),
        sync={"empty_s": 1e-5, "ok": True},
        request_id="f" * 16,
        words=("model=resnet50", "batch_size=4"),
    )
