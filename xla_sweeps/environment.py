"""Facts about the host, without TensorFlow: devices, versions, flags, and the environment of the measuring process."""

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
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xla_sweeps import __version__
from xla_sweeps.errors import DeviceError
from xla_sweeps.trial import Precision

FLAGS = (
    "XLA_FLAGS", "TF_XLA_FLAGS", "TF_ENABLE_ONEDNN_OPTS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS", "TF_GPU_ALLOCATOR", "NVIDIA_TF32_OVERRIDE",
)  # fmt: skip
"""Variables that change what TensorFlow does; recorded with every trial."""

PACKAGES = (
    "tensorflow", "keras", "tf_keras", "keras-cv", "keras-hub", "tensorflow-hub", "numpy", "wandb", "hydra-core",
)  # fmt: skip
_TENSORFLOW_PACKAGES = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly")
_KEPT = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|PYTHONPATH|PYTHONHOME|VIRTUAL_ENV|CUDA_\w+|XLA_\w+|TF_\w+"
    r"|NVIDIA_\w+|KERAS_HOME|TFHUB_CACHE_DIR|OMP_\w+|MKL_\w+|KMP_\w+|XDG_CACHE_HOME"
)
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.I)
REPLICA_VERSION = 1
"""Of the architectures that replicas have; another version does not use this one's files."""

_FLOAT16_CAPABILITY, _BFLOAT16_CAPABILITY = (7, 0), (8, 0)
_MEMORY_SHARE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device that a trial can own.

    Attributes:
        kind: `cpu` or `gpu`.
        capability: CUDA compute capability, or None.
    """

    kind: str
    index: int
    name: str
    uuid: str = ""
    memory_bytes: int = 0
    capability: tuple[int, int] | None = None
    pci: str = ""

    @property
    def label(self) -> str:
        """As written on the command line: `cpu` or `gpu:0`."""
        return "cpu" if self.kind == "cpu" else f"gpu:{self.index}"


@cache
def devices() -> tuple[Device, ...]:
    """The NVIDIA GPUs that the driver shows and CUDA_VISIBLE_DEVICES leaves, and the CPU last."""
    return (
        *visible(_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")),
        Device(kind="cpu", index=0, name=cpu_name(), memory_bytes=memory_bytes()),
    )


def visible(gpus: Sequence[Device], mask: str | None) -> list[Device]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, in its order: by index in the driver's order, or by UUID.

    As CUDA does, the first entry that names none ends the list.

    Raises:
        DeviceError: it names a part of a GPU, which would go unseen and leave the trial to the CPU.
    """
    if mask is None:
        return list(gpus)
    if mask.startswith("MIG-"):
        raise DeviceError(f"CUDA_VISIBLE_DEVICES={mask}: parts of a GPU (MIG) are not supported; give a whole one")
    found: list[Device] = []
    for word in mask.split(","):
        matches = [
            gpu
            for gpu in gpus
            if word.strip() and (str(gpu.index) == word.strip() or gpu.uuid.startswith(word.strip()))
        ]
        if not matches:
            break
        found += [gpu for gpu in matches[:1] if gpu not in found]
    return found


def resolve_device(text: str) -> Device:
    """The device that `auto`, `cpu`, `gpu` or `gpu:N` means here.

    Raises:
        DeviceError: it is absent or no device at all; with those there are.
    """
    found = {device.label: device for device in devices()}
    labels = list(found)
    if text == "auto":
        return found[labels[0]]
    wanted = labels[0] if text == "gpu" and labels[0] != "cpu" else text
    if wanted in found:
        return found[wanted]
    if not re.fullmatch(r"cpu|gpu(:\d+)?", text):
        raise DeviceError(f"device={text}: allowed are auto, cpu, gpu and gpu:N; this machine has {', '.join(labels)}")
    missing = "no NVIDIA GPU that its driver shows" if labels == ["cpu"] else f"only {', '.join(labels)}"
    raise DeviceError(f"device={text}: this machine has {missing}; allowed here: auto, {', '.join(labels)}")


def check_accelerator(device: Device, wanted: Any) -> None:
    """Refuse a device whose name lacks the accelerator that was asked for.

    Raises:
        DeviceError: with the device's name.
    """
    if wanted is not None and not is_accelerator(device.name, str(wanted)):
        raise DeviceError(
            f"accelerator={wanted}: {device.label} here is {device.name}; run this trial where there is one, or drop it"
        )


def is_accelerator(name: str, wanted: str) -> bool:
    """Whether a device's name is that of the accelerator: `NVIDIA A100-SXM4-80GB` is an `A100` and an `a100_sxm4`."""
    return _folded(wanted) in _folded(name)


def _folded(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def check_precision(device: Device, precision: Precision, *, tf32: bool) -> None:
    """Refuse a precision that the device has no arithmetic for.

    Raises:
        DeviceError: with what to use instead.
    """
    capability = device.capability
    shown = f"compute capability {capability[0]}.{capability[1]}" if capability else "a CPU"
    if precision is Precision.MIXED_FLOAT16 and (capability is None or capability < _FLOAT16_CAPABILITY):
        instead = "mixed_bfloat16 or float32" if capability is None else "float32"
        raise DeviceError(
            f"precision=mixed_float16: {device.name} ({shown}) has no fast float16 arithmetic; use {instead}"
        )
    if precision is Precision.MIXED_BFLOAT16 and capability is not None and capability < _BFLOAT16_CAPABILITY:
        raise DeviceError(
            f"precision=mixed_bfloat16: {device.name} ({shown}) has no bfloat16 arithmetic; "
            "use mixed_float16 or float32"
        )
    if tf32 and (capability is None or capability < _BFLOAT16_CAPABILITY):
        raise DeviceError(f"tf32=true: {device.name} ({shown}) has no TensorFloat-32; use tf32=false")


def environment() -> dict[str, Any]:
    """Host, versions and flags as plain data, for the record. Holds no secret and no host name, only its hash."""
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
            "governor": _read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
            "memory_bytes": memory_bytes(),
        },
        "driver": _driver(),
        "flags": {name: os.environ[name] for name in FLAGS if name in os.environ},
    }


def identity(
    device: Device, facts: Mapping[str, Any], *, also: Sequence[str] = (), cores: int | None = None
) -> dict[str, Any]:
    """What of the machine and its software makes numbers comparable; part of a trial's identity.

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


def child_environment(environ: Mapping[str, str], *, device: Device, extra: Mapping[str, str]) -> dict[str, str]:
    """The measuring process's whole environment: an allow-list without keys, one visible device, the extra flags."""
    kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name) and not _SECRET.search(name)}
    shown = device.uuid or str(device.index) if device.kind == "gpu" else "-1"
    return {**kept, "KERAS_BACKEND": "tensorflow", "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": shown, **extra}


def memory_limit_default() -> int:
    """Bytes of resident memory that a measuring process may take by default: 90 % of the machine's, or its cgroup's."""
    return round(_MEMORY_SHARE * memory_bytes())


def memory_bytes() -> int:
    """Memory of the machine, or of this process's control group where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read(Path("/sys/fs/cgroup/memory.max"))
    return min(total, int(limit)) if limit.isdigit() else total


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


@cache
def cpu_name() -> str:
    """The processor's model name."""
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Installed versions of the packages that matter; TensorFlow under whichever name it was installed."""
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
    """Where what can be made again is kept: $XLA_SWEEPS_CACHE, else below the user's cache folder."""
    own = os.environ.get("XLA_SWEEPS_CACHE")
    return Path(own or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "xla-sweeps")).expanduser()


def replica_folder(name: str) -> Path:
    """Where the replica of a TensorFlow Hub model is, or will be."""
    return cache_dir() / "replicas" / f"v{REPLICA_VERSION}" / name


@cache
def git_state() -> str:
    """Commit of the checkout that this package runs from, `+dirty` where it has changes; "" outside one."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        commit, status = (
            subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=5
            ).stdout
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
        return commit.strip() + ("+dirty" if status.strip() else "")
    return ""


def _gpus() -> list[Device]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no driver, no library, no permission: no GPU for us
        return []
    found = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        found.append(
            Device(
                kind="gpu", index=index, name=str(pynvml.nvmlDeviceGetName(handle)),
                uuid=str(pynvml.nvmlDeviceGetUUID(handle)), capability=(int(major), int(minor)),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total), pci=_pci_address(pynvml, handle),
            )
        )  # fmt: skip
    return found


def near_cores(device: Device, *, sysfs: Path = Path("/sys/bus/pci/devices")) -> list[int]:
    """The cores of a GPU's NUMA node, of those this process may use; all of them where it is not told."""
    usable = os.sched_getaffinity(0)
    near = set()
    for part in _read(sysfs / device.pci / "local_cpulist").split(",") if device.pci else ():
        first, _, last = part.partition("-")
        if first.strip().isdigit():
            near |= set(range(int(first), int(last or first) + 1))
    return sorted(near & usable or usable)


def _pci_address(pynvml: Any, handle: Any) -> str:
    """As /sys names it: `0000:17:00.0`; "" where the driver does not tell."""
    with contextlib.suppress(Exception):
        info = pynvml.nvmlDeviceGetPciInfo(handle)
        return f"{int(info.domain):04x}:{int(info.bus):02x}:{int(info.device):02x}.0"
    return ""


def _driver() -> dict[str, str]:
    if not any(device.kind == "gpu" for device in devices()):
        return {}
    import pynvml

    cuda = int(pynvml.nvmlSystemGetCudaDriverVersion())
    return {"driver": str(pynvml.nvmlSystemGetDriverVersion()), "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}"}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
