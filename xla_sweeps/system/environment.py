"""Versions, flags and identity of the host, and the environment of the measuring process."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.schema.backend import NAMES_FILES, Backend, backends
from xla_sweeps.system import devices as machine
from xla_sweeps.system import nvml
from xla_sweeps.system.devices import Device, read_or_empty
from xla_sweeps.system.files import scratch_folder
from xla_sweeps.system.installation import install, version_of
from xla_sweeps.system.text import SECRET_NAME, SECRET_VALUE, has_credentials, redact
from xla_sweeps.version import __version__

_PACKAGES = ("numpy", "wandb", "hydra-core")
"""Packages that count besides those of a backend."""

_LIBRARIES = (
    *("cublas", "cuda-nvcc", "cuda-runtime", "cudnn", "cufft", "cusolver", "cusparse", "nccl"),
)
"""NVIDIA's packages; their names end in the version of CUDA, or in nothing."""

_KEPT = (
    *("PATH", "HOME", "USER", "LANG", r"LC_\w+", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD"),
    *("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "XDG_CACHE_HOME", "GLIBC_TUNABLES"),
    r"(?:CUBLAS|CUBLASLT|CUDA|CUDNN|DNNL|GOMP|KMP|MALLOC|MKL|NCCL|NVIDIA|OMP|ONEDNN|OPENBLAS"
    r"|TCMALLOC|XLA)_\w+",
)
"""Variables that the measuring process gets, if neither name nor value looks like a secret."""

_FOREIGN = (r"NCCL_(?:COMM_ID|HOSTID)", r"\w+_(?:SERVICE_(?:HOST|PORT\w*)|PORT(?:_\d+_\w+)?)")
"""Exceptions: addresses of a cluster's jobs and services, which would give each job an identity."""

_HARMLESS = (
    r"PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|PYTHONPATH|PYTHONHOME"
    r"|VIRTUAL_ENV|XDG_CACHE_HOME"
    r"|CUDA_(?:HOME|PATH|ROOT|CACHE_PATH|DEVICE_ORDER|MPS_(?:PIPE|LOG)_DIRECTORY|VISIBLE_DEVICES)"
    r"|NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_\w+|BUILD_ID|PRODUCT_NAME)"
    r"|(?:CUBLAS|CUDA|CUDNN|NCCL|NVIDIA)_(?:\w+_)?VERSION"
    r"|XLA_SWEEPS_\w+"
    r"|(?i:(?:https?|all|no)_proxy)|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE"
    r"|HF_(?:HOME|HUB_\w+|ENDPOINT)|KAGGLEHUB_CACHE",
)
"""Paths, log levels, caches and the way to the network: not recorded, and in no identity."""

_FOR_FILES = re.compile(
    r".*(?:DUMP|TRACE(?![A-Z])|LOGS_OUT|LOGDEST|COMPILE_DEBUG|METRIC_TABLES|(?<!PRO)FILE|PATH"
    r"|_(?:DIR|OUTPUT|PREFIX|TO)$).*",
    re.I,
)
"""Variables of libraries that write files, or name them."""

_READS_FILES = re.compile(r"LD_PRELOAD|\w+_PTXAS(?:_\w+)?_PATH")
"""Exceptions to the rule that a value is no path."""


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Names of variables that are kept, foreign and harmless, those of all backends included."""
    kept, foreign, harmless = list(_KEPT), list(_FOREIGN), list(_HARMLESS)
    for backend in backends():
        own = (*backend.caches, *backend.variables, backend.harmless, backend.log_level)
        ignored = list(filter(None, own))
        kept += [*ignored, *(rf"{prefix}_\w+" for prefix in backend.prefixes)]
        foreign += filter(None, [backend.foreign])
        harmless += ignored
    return re.compile("|".join(kept)), re.compile("|".join(foreign)), re.compile("|".join(harmless))


REPLICA_VERSION = 1
"""Version of the replicas' architectures; files of another version are not used."""


def environment() -> dict[str, Any]:
    """Host, versions and flags for the record: no secret, and only a hash of the host's name."""
    return {
        "xla_sweeps": __version__,
        "git": _own_commit(),
        "python": platform.python_version(),
        "os": platform.platform(),
        "host": hashlib.sha256(platform.node().encode()).hexdigest()[:8],
        "packages": versions(),
        "cpu": {
            "name": machine.cpu_name(),
            **processor(read_or_empty(Path("/proc/cpuinfo"))),
            "cores": machine.usable_cores(),
            "governor": read_or_empty(machine.CORES / "cpu0/cpufreq/scaling_governor"),
            "memory_bytes": machine.memory_bytes(),
        },
        "driver": _driver(),
        "flags": {name: redact(value) for name, value in _flags(os.environ)[0].items()},
    }


def identity(
    device: Device,
    facts: Mapping[str, Any],
    *measured: Backend,
    also: Sequence[str] = (),
    cores: int | None = None,
) -> dict[str, Any]:
    """The machine and software that make results comparable; part of a trial's identity.

    The versions of the measured frameworks count, and those of the packages in `also`. The trial
    may use all cores in the facts of `environment`, or so many.
    """
    packages, cpu, driver = facts["packages"], facts["cpu"], ""
    names = [*(name for backend in measured for name in backend.identity), *also]
    power: dict[str, int | None] = {}
    if device.kind == "gpu":
        driver = facts["driver"].get("driver", "")
        power["power_limit_w"] = device.settings.power_limit_set_w or device.settings.power_limit_w
        names += [name for name in packages if name.startswith("nvidia-")]
    return {
        "device": device.name,
        "cpu": [cpu["model"], cpu["instruction_sets"]],
        "memory_gib": round(device.memory_bytes / 2**30),
        "cores": cpu["cores"] if cores is None else cores,
        "driver": driver,
        **power,
        **{name: packages.get(name, "") for name in names},
        **facts["flags"],
    }


def environment_id(device: Device, facts: Mapping[str, Any], *measured: Backend) -> str:
    """Eight hex digits of `identity`, for all trials of a machine, software and flags."""
    document = json.dumps(identity(device, facts, *measured), sort_keys=True)
    return hashlib.sha256(document.encode()).hexdigest()[:8]


def child_environment(
    environ: Mapping[str, str],
    *,
    device: Device,
    backend: Backend,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The measuring process's environment: an allow-list without secrets, one visible device.

    CUDA keeps no compiled kernels between processes unless it is told to (CUDA_CACHE_DISABLE=0), so
    that each replicate's compile times are those of a first start.
    """
    _, _, harmless = _patterns()
    usual, shown = {}, {"CUDA_VISIBLE_DEVICES": "-1"}
    if device.kind == "gpu":
        usual = {"CUDA_CACHE_DISABLE": "1"}
        shown = {"CUDA_VISIBLE_DEVICES": device.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    kept = {
        name: value
        for name, value in environ.items()
        if harmless.fullmatch(name) and not _is_secret(name, value)
    }
    return {
        **usual,
        **kept,
        **_flags(environ)[0],
        **backend.variables,
        "PYTHONUNBUFFERED": "1",
        **shown,
        **extra,
    }


def _is_secret(name: str, value: str) -> bool:
    """True for a variable whose name says so, or whose address has a user and a password."""
    is_proxy = name.lower().endswith("_proxy")
    return bool(SECRET_NAME.search(name)) or has_credentials(value) or (is_proxy and "@" in value)


def cpu_environment(backend: Backend) -> dict[str, str]:
    """The environment of a process that loads a framework on the CPU, without its notices."""
    cpu = machine.devices()[-1]
    return child_environment(os.environ, device=cpu, backend=backend, extra=backend.logging(2))


def uses_wandb(environ: Mapping[str, str]) -> bool:
    """True if a variable or a login of W&B is there."""
    try:
        home = Path(environ.get("HOME") or Path.home())
    except RuntimeError:  # a user without an entry, as in some containers
        home = Path(os.devnull)
    netrc = read_or_empty(Path(environ.get("NETRC") or home / ".netrc"))
    given = any(name.startswith("WANDB_") and value for name, value in environ.items())
    return given or "wandb" in netrc or read_or_empty(home / ".config/wandb/settings") != ""


def dropped_flags(environ: Mapping[str, str]) -> list[str]:
    """Flags and variables that name files or seem to hold a secret, which a trial ignores."""
    return _flags(environ)[1]


def _flags(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables that change what is measured, and the flags and variables that are dropped."""
    ours, foreign, harmless = _patterns()
    holding_flags = {"XLA_FLAGS"}.union(*(backend.flags.values() for backend in backends()))
    kept: dict[str, str] = {}
    dropped: list[str] = []
    for name, value in sorted(environ.items()):
        if harmless.fullmatch(name) and "@" in value and _is_secret(name, value):
            dropped.append(name)
        if not ours.fullmatch(name) or SECRET_NAME.search(name):
            continue
        if harmless.fullmatch(name) or foreign.fullmatch(name):
            continue
        names_files = _FOR_FILES.fullmatch(name) or "/" in value
        is_exempt = name in holding_flags or _READS_FILES.fullmatch(name)
        if SECRET_VALUE.search(value) or (names_files and not is_exempt):
            dropped.append(name)
            continue
        if name in holding_flags:
            words = value.split()
            unsafe = [word for word in words if _names_files(word)]
            dropped += unsafe
            value = " ".join(word for word in words if word not in unsafe) if unsafe else value
        if value:
            kept[name] = value
    return kept, dropped


def _names_files(word: str) -> bool:
    """True for a flag of XLA that names a file, or a file that holds flags."""
    if not word.startswith("--"):
        return True
    if word.partition("=")[0] == "--xla_gpu_cuda_data_dir":
        return False
    return "/" in word or any(map(NAMES_FILES.search, word.split("=")))


def packages_of(backend: Backend) -> dict[str, tuple[str, ...]]:
    """The packages that matter for a backend, each under the names that it may have."""
    return {**backend.packages, **{name: (name,) for name in _PACKAGES}}


def versions() -> dict[str, str]:
    """Installed versions of every backend's packages, and of NVIDIA's libraries by CUDA version."""
    names: dict[str, tuple[str, ...]] = {}
    for backend in backends():
        names |= packages_of(backend)
    for library in _LIBRARIES:
        for suffix in ("-cu12", "-cu13", ""):
            names[f"nvidia-{library}{suffix}"] = (f"nvidia-{library}{suffix}",)
    installed = {
        package: next(filter(None, map(version_of, alternatives)), "")
        for package, alternatives in names.items()
    }
    return {package: version for package, version in installed.items() if version}


_CPU_MODEL = re.compile(
    r"^(vendor_id|cpu family|model|stepping|CPU (?:implementer|architecture|variant|part|revision))"
    r"\s*:\s*(.+)$",
    re.M,
)

_CPU_FLAGS = re.compile(r"^(?:flags|Features)\s*:\s*(.+)$", re.M)

_INSTRUCTION_SET = re.compile(
    r"s?sse\d?|sse4_\d|avx\w*|amx\w*|fma|f16c|bmi\d|asimd\w*|sve\w*|sme\d?|\w*bf16|i8mm|fphp"
)


def processor(cpuinfo: str) -> dict[str, str]:
    """Facts that tell CPUs of one name apart, from the first processor of /proc/cpuinfo.

    `model` is vendor, family, model and stepping; `instruction_sets` those for vectors and
    matrices. Virtual machines often hide the name only.
    """
    first = cpuinfo.split("\n\n")[0]
    flags = _CPU_FLAGS.search(first)
    words = sorted(set(flags[1].split())) if flags else []
    return {
        "model": " ".join(f"{name} {value}" for name, value in _CPU_MODEL.findall(first)),
        "instruction_sets": " ".join(word for word in words if _INSTRUCTION_SET.fullmatch(word)),
    }


def is_installed(module: str) -> bool:
    """True if a module can be imported, without importing more than the packages it is in.

    A folder of its name without code, which an uninstalled package may leave, is no module.
    """
    try:
        spec = importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return False
    return spec is not None and spec.origin is not None


def absent(backend: Backend, library: str = "") -> list[str]:
    """Modules that a backend needs for a model of a library and that are not installed."""
    needed = (one for one in backend.identity if one not in backend.only_for or one == library)
    return [module for module in needed if not is_installed(module)]


def require(backend: Backend, library: str = "") -> None:
    """Refuse a backend that is not installed, with the command that installs it.

    Raises:
        ConfigError: a module that it needs is not there.
    """
    if missing := absent(backend, library):
        able = [f"backend={each.name}" for each in backends() if not absent(each)]
        instead = f"; or add {' or '.join(able)}" if able else ""
        verb = "is" if len(missing) == 1 else "are"
        why = f"{' and '.join(missing)} {verb} not installed; install: {install(*missing)}"
        raise ConfigError(f"backend={backend.name}: {why}{instead}")


def cache_dir() -> Path:
    """Folder of the cache: $XLA_SWEEPS_CACHE, else one below the user's cache folder.

    Raises:
        ConfigError: the user has no home folder, as in some containers.
    """
    try:
        if own := os.environ.get("XLA_SWEEPS_CACHE"):
            return Path(own).expanduser()
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError as error:
        raise ConfigError("there is no home folder: set XLA_SWEEPS_CACHE to a folder") from error
    return caches / "xla-sweeps"


def replica_folder(name: str) -> Path:
    """The folder of a TensorFlow Hub model's replica, built or not."""
    return cache_dir() / "replicas" / f"v{REPLICA_VERSION}" / name


@cache
def _own_commit() -> str:
    """`commit_of` the checkout that this package runs from; "" outside one."""
    root = Path(__file__).resolve().parents[2]
    return commit_of(root) if (root / ".git").exists() else ""


def commit_of(folder: Path) -> str:
    """Commit of the checkout that a folder is in, `+dirty` if it has changes; "" outside one.

    No program that the checkout names is run: Git would run filters, hooks and monitors of its
    configuration while it looks for changes, so it looks from a folder without one. Changes within
    submodules do not count.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("GIT_CONFIG") or not name.startswith("GIT_")  # a hook's
    }
    asked = ("--show-toplevel", "--git-path", "objects", "--git-path", "index", "HEAD")
    words = ["-C", str(folder), "rev-parse", "--path-format=absolute", *asked]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, StoreError):
        top, objects, index, commit = _git_says(words, kept).splitlines()
        return f"{commit[:12]}{'+dirty' if _has_changes(top, objects, index, commit) else ''}"
    return ""


def _has_changes(top: str, objects: str, index: str, commit: str) -> bool:
    """True if files of a checkout differ from its commit, to a Git that reads no more of it."""
    words = ["-C", top, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"]
    with scratch_folder() as scratch:
        for name in ("objects", "refs"):
            (scratch / name).mkdir()
        (scratch / "HEAD").write_text(f"{commit}\n")
        places = {
            **{"GIT_DIR": str(scratch), "GIT_WORK_TREE": top, "GIT_INDEX_FILE": index},
            **{"GIT_OBJECT_DIRECTORY": objects, "GIT_OPTIONAL_LOCKS": "0"},
            **{"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        }
        return bool(_git_says(words, {"PATH": os.environ.get("PATH", os.defpath), **places}))


def _git_says(words: Sequence[str], variables: Mapping[str, str]) -> str:
    return subprocess.run(
        ["git", *words], env=variables, capture_output=True, text=True, check=True, timeout=5
    ).stdout


def _driver() -> dict[str, str]:
    if not any(device.kind == "gpu" for device in machine.devices()):
        return {}
    cuda = int(nvml.ask("nvmlSystemGetCudaDriverVersion") or 0)
    return {
        "driver": str(nvml.ask("nvmlSystemGetDriverVersion") or ""),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
    }
