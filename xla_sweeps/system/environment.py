"""Versions, flags and identity of the host, and the environment of the measuring process."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from xla_sweeps import __version__
from xla_sweeps.errors import ConfigError
from xla_sweeps.system import nvml
from xla_sweeps.system.devices import (
    Device,
    cpu_name,
    devices,
    memory_bytes,
    read_or_empty,
    usable_cores,
)
from xla_sweeps.system.text import SECRET_NAME

FLAGS = (
    "XLA_FLAGS",
    "TF_XLA_FLAGS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
    "TF_GPU_ALLOCATOR",
    "NVIDIA_TF32_OVERRIDE",
)
"""Variables that change what TensorFlow does; recorded with every trial."""

PACKAGES = (
    "tensorflow",
    "keras",
    "tf_keras",
    "keras-cv",
    "keras-hub",
    "tensorflow-hub",
    "numpy",
    "wandb",
    "hydra-core",
)

_TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly")

_KEPT = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|PYTHONPATH|PYTHONHOME|VIRTUAL_ENV|CUDA_\w+|XLA_\w+|TF_\w+"
    r"|NVIDIA_\w+|KERAS_HOME|TFHUB_CACHE_DIR|OMP_\w+|MKL_\w+|KMP_\w+|XDG_CACHE_HOME"
)

_NAMES_FILES = re.compile(
    r"(?!--)"  # a file that holds flags
    r"|--(?!xla_gpu_cuda_data_dir\b)\w*(?:dump|_dir\b|_path\b|_file\b|_to\b|_from\b)"
    r"|--(?!xla_gpu_cuda_data_dir\b)\w+=.*/"
)
"""Flags of XLA that name files."""

REPLICA_VERSION = 1
"""Version of the replicas' architectures; files of another version are not used."""


def environment() -> dict[str, Any]:
    """Host, versions and flags for the record: no secret, and only a hash of the host name."""
    return {
        "xla_sweeps": __version__,
        "git": git_state(),
        "python": platform.python_version(),
        "os": platform.platform(),
        "host": hashlib.sha256(platform.node().encode()).hexdigest()[:8],
        "packages": versions(),
        "cpu": {
            "name": cpu_name(),
            "cores": usable_cores(),
            "governor": read_or_empty(
                Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            ),
            "memory_bytes": memory_bytes(),
        },
        "driver": _driver(),
        "flags": _flags(os.environ)[0],
    }


def identity(
    device: Device, facts: Mapping[str, Any], *, also: Sequence[str] = (), cores: int | None = None
) -> dict[str, Any]:
    """The machine and software that make results comparable; part of a trial's identity.

    Args:
        device: what is measured on.
        facts: `environment()`.
        also: further packages whose versions count.
        cores: how many the trial may use; default: as in the facts.
    """
    packages = facts["packages"]
    return {
        "device": device.name,
        "memory_gib": round(device.memory_bytes / 2**30),
        "cores": facts["cpu"]["cores"] if cores is None else cores,
        "driver": facts["driver"].get("driver", "") if device.kind == "gpu" else "",
        **{name: packages.get(name, "") for name in ("tensorflow", "keras", "tf_keras", *also)},
        **facts["flags"],
    }


def child_environment(
    environ: Mapping[str, str], *, device: Device, extra: Mapping[str, str]
) -> dict[str, str]:
    """The measuring process's environment: an allow-list without secrets, one visible device."""
    kept = {
        name: value
        for name, value in environ.items()
        if _KEPT.fullmatch(name) and not SECRET_NAME.search(name)
    }
    shown = device.uuid or str(device.index) if device.kind == "gpu" else "-1"
    return {
        **{name: value for name, value in kept.items() if name not in FLAGS},
        **_flags(kept)[0],
        "KERAS_BACKEND": "tensorflow",
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": shown,
        **extra,
    }


def dropped_flags(environ: Mapping[str, str]) -> list[str]:
    """The flags that a trial ignores, because they name files that XLA would write or read."""
    return _flags(environ)[1]


def _flags(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables of `FLAGS` that are set, without the flags that name files; and those flags."""
    kept: dict[str, str] = {}
    dropped: list[str] = []
    for name in FLAGS:
        value = environ.get(name)
        if value is not None and name in ("XLA_FLAGS", "TF_XLA_FLAGS"):
            words = value.split()
            unsafe = [word for word in words if _NAMES_FILES.match(word)]
            dropped += unsafe
            value = " ".join(word for word in words if word not in unsafe) if unsafe else value
        if value:
            kept[name] = value
    return kept, dropped


def versions() -> dict[str, str]:
    """Installed versions of the packages that matter.

    TensorFlow under whichever name it was installed.
    """
    found = {}
    for package in PACKAGES:
        names = _TENSORFLOW_PACKAGES if package == "tensorflow" else (package,)
        for name in names:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[package] = importlib.metadata.version(name)
                break
    return found


def is_installed(module: str) -> bool:
    """Whether a top-level module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def cache_dir() -> Path:
    """Folder of the cache: $XLA_SWEEPS_CACHE, else one below the user's cache folder.

    Raises:
        ConfigError: the user has no home folder, as in some containers.
    """
    own = os.environ.get("XLA_SWEEPS_CACHE")
    try:
        return Path(
            own or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "xla-sweeps")
        ).expanduser()
    except RuntimeError as error:
        raise ConfigError("there is no home folder: set XLA_SWEEPS_CACHE to a folder") from error


def replica_folder(name: str) -> Path:
    """Where the replica of a TensorFlow Hub model is, or will be."""
    return cache_dir() / "replicas" / f"v{REPLICA_VERSION}" / name


@cache
def git_state() -> str:
    """Commit of the checkout that this package runs from, `+dirty` where it has changes.

    "" outside one.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        commit, status = (
            subprocess.run(
                ["git", "-C", str(root), *words],
                capture_output=True,
                text=True,
                check=True,
                timeout=5,
            ).stdout
            for words in (
                ("rev-parse", "--short=12", "HEAD"),
                ("status", "--porcelain", "--untracked-files=no"),
            )
        )
        return commit.strip() + ("+dirty" if status.strip() else "")
    return ""


def _driver() -> dict[str, str]:
    if not any(device.kind == "gpu" for device in devices()):
        return {}
    cuda = int(nvml.ask("nvmlSystemGetCudaDriverVersion") or 0)
    return {
        "driver": str(nvml.ask("nvmlSystemGetDriverVersion") or ""),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
    }
