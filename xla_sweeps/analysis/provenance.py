"""Provenance of a trial's figures: versions, variables, command, telemetry. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from xla_sweeps.schema.backend import backends, backends_of, is_harmless
from xla_sweeps.schema.columns import AA_TAG, ANCHOR_TAG, RESULT
from xla_sweeps.schema.options import BY_NAME
from xla_sweeps.schema.overrides import agree
from xla_sweeps.schema.record import Record

_LIBRARIES = (
    *("CUBLAS", "CUBLASLT", "CUDA", "CUDNN", "DNNL", "GOMP", "KMP", "MKL", "NCCL", "NVIDIA", "OMP"),
    *("ONEDNN", "OPENBLAS", "TCMALLOC", "XLA", "MALLOC_ARENA", "MALLOC_MMAP", "MALLOC_TRIM"),
)
"""Beginnings of variables that a row's command may set, besides those of the backends.

A record is a file that anyone may have written. So LD_PRELOAD is not among them,
though it identifies a trial.
"""

_LOADS = re.compile(r"DEST|DIR(?![A-Z])|DUMP|FILE|INJECTION|LIBRARIES|PATH|PLUGIN")
"""Parts of names of variables that load a library or write a file, as CUDA_INJECTION64_PATH."""


def purpose_of(records: Sequence[Record]) -> str:
    """`aa` or `anchor` for a trial that only sweeps asked for, to test themselves."""
    own = [[tag for tag in (AA_TAG, ANCHOR_TAG) if tag in one.tracker.tags] for one in records]
    return own[0][0] if records and all(own) else RESULT


def software_of(record: Record) -> str:
    """The versions that were loaded: `TensorFlow 2.21.0, Keras 3.15.1`, on a GPU also CUDA's."""
    loaded = {
        **(record.environment.get("packages") or {}),
        **(record.environment.get("loaded") or {}),
    }
    names = {key: name for each in backends_of(record.trial) for key, name in each.shown.items()}
    if record.on_gpu:
        names |= {"cuda": "CUDA", "cudnn": "cuDNN"}
    return ", ".join(f"{name} {loaded[key]}" for key, name in names.items() if loaded.get(key))


def driver_of(record: Record) -> str:
    """The accelerator driver's version, or ""."""
    driver = record.environment.get("driver") or {}
    return str(driver.get("driver") or "")


def flags_of(record: Record) -> str:
    """Environment variables that change what is measured: `XLA_FLAGS=...`, joined by blanks."""
    flags = record.environment.get("flags") or {}
    return " ".join(f"{name}={value}" for name, value in sorted(flags.items()))


def command_of(record: Record) -> str:
    """The shell command that measures the trial again, after the variables that change XLA.

    "" where a record's words are not those of its trial, or cannot be shown on one line.
    """
    flags = record.environment.get("flags") or {}
    given = (_assignment(name, str(value)) for name, value in sorted(flags.items()))
    variables = list(filter(None, given))
    if record.words is None or not all(map(str.isprintable, variables)):
        return ""
    words = record.words or (f"model={BY_NAME['model'].default}",)
    if not agree(words, record.trial):
        return ""
    return " ".join([*variables, "python -m xla_sweeps", *map(shlex.quote, words)])


def _assignment(name: str, value: str) -> str:
    """A variable as a shell takes it, or "" where a command may not set it."""
    if any(name in backend.flags.values() for backend in backends()):
        flags = (word.removeprefix("--").partition("=") for word in value.split())
        value = " ".join(f"--{flag}={each}" for flag, _, each in flags if is_harmless(flag, each))
    prefixes = _LIBRARIES + tuple(prefix for backend in backends() for prefix in backend.prefixes)
    switches = re.fullmatch(rf"({'|'.join(prefixes)})_[A-Z0-9_]+", name)
    allowed = value and switches and not _LOADS.search(name)
    return f"{name}={shlex.quote(value)}" if allowed else ""


def telemetry_of(records: Sequence[Record]) -> dict[str, Any]:
    """Extremes over records of the GPU's clock (MHz), heat (°C), power (W) and others' cores."""
    spans = [span for record in records for span in record.gpu]
    clocks = [float(span.sm_mhz) for span in spans if span.sm_mhz is not None]
    heat = [float(span.celsius) for span in spans if span.celsius is not None]
    cores = [record.contamination.get("foreign_cores") for record in records]
    foreign_cores = [float(number) for number in cores if isinstance(number, int | float)]
    return {
        "sm_clock_mhz_low": min(clocks, default=None),
        "sm_clock_mhz_high": max(clocks, default=None),
        "temperature_high": max(heat, default=None),
        "watts_high": max((span.watts for span in spans if span.watts), default=None),
        "foreign_cores": max(foreign_cores, default=None),
    }
