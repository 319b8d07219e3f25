"""Where a trial's numbers come from, for the rows: software, machine, telemetry, and the command that measures again.

Pure: everything is read from records.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from xla_sweeps.record import Record
from xla_sweeps.sweep import override_value
from xla_sweeps.trial import JIT_CANDIDATES, mode_of

_NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "cuda": "CUDA", "cudnn": "cuDNN"}
_DEFAULTS: Mapping[str, Any] = {
    "resolution": None, "batch_size": 4, "precision": "float32", "scenario": "call", "effort": "quick",
    "weights": "random", "seed": 0, "tf32": False, "path": None, "trust_code": False, "input_spec": None,
}  # fmt: skip
"""What `conf/config.yaml` gives where a command says nothing."""


def software_of(record: Record) -> str:
    """The versions that were loaded: `TensorFlow 2.21.0, Keras 3.15.1, CUDA 12.5.1`; CUDA's only on a GPU."""
    loaded = {**(record.environment.get("packages") or {}), **(record.environment.get("loaded") or {})}
    names = list(_NAMES) if record.device.get("kind") == "gpu" else ["tensorflow", "keras"]
    return ", ".join(f"{_NAMES[name]} {loaded[name]}" for name in names if loaded.get(name))


def driver_of(record: Record) -> str:
    """The accelerator driver's version, or ""."""
    driver = record.environment.get("driver") or {}
    return str(driver.get("driver") or "")


def flags_of(record: Record) -> str:
    """What of the process's environment changes XLA or TensorFlow: `XLA_FLAGS=...`, one after the other."""
    flags = record.environment.get("flags") or {}
    return " ".join(f"{name}={value}" for name, value in sorted(flags.items()))


def command_of(record: Record) -> str:
    """The command that a person would type to measure the trial again."""
    config = record.config
    words: dict[str, Any] = {"model": _name(config.get("model")), "source": _name(config.get("source"))}
    values = {key: config.get(key) for key in _DEFAULTS}
    values |= {"scenario": _name(values["scenario"]), "effort": _name(values["effort"])}
    words |= {key: value for key, value in values.items() if value != _DEFAULTS[key] and value not in (None, "")}
    modes = [str(mode_of(str(label))) for label in config.get("modes") or ()]
    implied = {jit: list(dict.fromkeys(["eager", "graph", str(mode)])) for jit, mode in JIT_CANDIDATES.items()}
    jit = next((jit for jit, listed in implied.items() if listed == modes), None)
    words |= {"jit": jit} if jit else {"modes": modes} if modes else {}
    texts = [shlex.quote(f"{key}={value if key == 'jit' else override_value(value)}") for key, value in words.items()]
    return " ".join(["python -m xla_sweeps", *texts])


def telemetry_of(records: Sequence[Record]) -> dict[str, Any]:
    """Clock, temperature, and other processes' share while the trial was measured; medians or extremes over records.

    Returns:
        `sm_clock_mhz_low`, `sm_clock_mhz_high` (MHz), `temperature_high` (°C): None without a GPU;
        `foreign_cores`: cores that other processes used, the most of any record.
    """
    facts = [record.contamination for record in records if record.contamination]
    clocks = [_pair(fact.get("gpu_sm_mhz")) for fact in facts]
    heat = [_pair(fact.get("gpu_celsius")) for fact in facts]
    known = [float(fact["foreign_cores"]) for fact in facts if isinstance(fact.get("foreign_cores"), int | float)]
    return {
        "sm_clock_mhz_low": min((pair[0] for pair in clocks if pair), default=None),
        "sm_clock_mhz_high": max((pair[1] for pair in clocks if pair), default=None),
        "temperature_high": max((pair[1] for pair in heat if pair), default=None),
        "foreign_cores": max(known, default=None),
    }


def _pair(value: Any) -> tuple[float, float] | None:
    return (float(value[0]), float(value[1])) if isinstance(value, list | tuple) and len(value) == 2 else None


def _name(value: Any) -> str:
    return str(value.get("name", "")) if isinstance(value, Mapping) else str(value or "")
