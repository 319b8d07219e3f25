"""The command `doctor`: is this machine fit to measure on?

Checks devices, versions, flags, load, disk and W&B; and whether XLA compiles for a device.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_sweeps.cli import command_parser
from xla_sweeps.config.catalog import SOURCES
from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import ConfigError, StoreError, how_to_install
from xla_sweeps.measure import toolchain
from xla_sweeps.measure.monitor import FOREIGN_CORES, STEAL_SHARE, Sampler
from xla_sweeps.measure.neighbours import in_words
from xla_sweeps.report.terminal.tables import show_findings
from xla_sweeps.report.wandb.credentials import login
from xla_sweeps.results.store import Store
from xla_sweeps.system import devices, environment, nvml


def doctor_command(arguments: Sequence[str]) -> int:
    """Check the machine; exit code 1 if it cannot measure."""
    parser = command_parser("doctor", "Exit code 1 if this machine cannot measure.")
    parser.add_argument(
        "dir",
        nargs="?",
        default="results",
        type=folder_of,
        help="results folder (default: results)",
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="how long to watch the machine (default: 3)"
    )
    parser.add_argument(
        "--device",
        metavar="NAME",
        help="also compile a matrix product and a convolution with XLA there: cpu, gpu, gpu:N",
    )
    options = parser.parse_args(arguments)
    if not 0 <= options.seconds <= MAX_SECONDS:
        raise ConfigError(f"--seconds {options.seconds}: expected 0 to {MAX_SECONDS}")
    device = None if options.device is None else devices.resolve_device(options.device)
    findings = diagnose(options.dir, seconds=options.seconds, device=device)
    show_findings(
        [(item.level, item.subject, item.found, item.fix) for item in findings], _next(findings)
    )
    return 1 if any(item.level == "bad" for item in findings) else 0


LOW_DISK_BYTES = 2 * 2**30

MAX_SECONDS = 3600

NOISE = ("quiet", "steal", "quota")
"""Subjects that contaminate rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        level: `ok`, `absent` (and not needed), `warn` (figures may suffer) or `bad` (it will not
            work).
        fix: what to do, or "".
    """

    level: str
    subject: str
    found: str
    fix: str = ""


def diagnose(
    results_dir: Path, *, seconds: float, device: devices.Device | None = None
) -> list[Finding]:
    """Check everything; takes `seconds`, during which the machine is watched.

    Args:
        results_dir: where results would go; probed only if it exists, never created.
        seconds: how long to watch.
        device: where to compile with XLA; None for nowhere.
    """
    facts = environment.environment()
    return [
        *_devices(),
        *_versions(facts["packages"]),
        *_flags(facts["flags"]),
        *_governor(facts["cpu"]),
        *_quiet(seconds),
        *_disk(results_dir),
        *_wandb(),
        *(_compiles(device) if device else ()),
    ]


def _next(findings: Sequence[Finding]) -> str:
    """What follows from them, in one sentence, and the next command on a line of its own."""
    if any(item.level == "bad" for item in findings):
        return "This machine cannot measure yet: fix what is marked ✕. Next:\nxla-sweeps doctor"
    noise = [item.found for item in findings if item.level == "warn" and item.subject in NOISE]
    expected = f", but expect contaminated rounds: {'; '.join(noise)}" if noise else ""
    return f"You can measure now{expected}. Next:\npython -m xla_sweeps model=mobilenet_v2"


def _devices() -> list[Finding]:
    findings = []
    for device in devices.devices():
        memory = f"{device.memory_bytes / 2**30:.0f} GiB"
        cores = f", {devices.usable_cores()} cores" if device.kind == "cpu" else ""
        watts = device.settings.power_limit_w
        limit = "" if watts is None else f", power limit {watts} W"
        findings.append(
            Finding(
                level="ok", subject=device.label, found=f"{device.name}{cores}, {memory}{limit}"
            )
        )
        if device.kind == "gpu":
            findings += _gpu_state(device)
    only_cpu, problems = len(devices.devices()) == 1, devices.gpu_problems()
    for problem in problems:
        level = "bad" if only_cpu else "warn"
        fix = "until then: device=cpu" if only_cpu else ""
        findings.append(Finding(level=level, subject="gpu", found=problem, fix=fix))
    if only_cpu and not problems:
        found, fix = (
            "no NVIDIA GPU: trials measure this CPU",
            f"if there is one, install its driver, and: {how_to_install('gpu')}",
        )
        findings.append(Finding(level="warn", subject="gpu", found=found, fix=fix))
    return findings


def _gpu_state(gpu: devices.Device) -> list[Finding]:
    """What would contaminate rounds on a GPU, or could not be seen."""
    findings = []
    others = len(nvml.compute_processes(gpu.uuid) or ())
    if others:
        found, fix = f"other processes compute on it: {others}", "stop them: nvidia-smi lists them"
        findings.append(Finding(level="warn", subject=gpu.label, found=found, fix=fix))
    seen = nvml.read(gpu.uuid)
    if seen is None or (seen.reasons is None and seen.thermal_ns is None):
        found = "its driver does not say whether heat or power slow it (flag no_gpu_telemetry)"
        fix = "update the driver"
        findings.append(Finding(level="warn", subject=gpu.label, found=found, fix=fix))
    return findings


def _versions(packages: Mapping[str, str]) -> list[Finding]:
    extras = {name: source.extra for source in SOURCES.values() for name in source.packages}
    findings = []
    for name in environment.PACKAGES:
        if name in packages:
            findings.append(Finding(level="ok", subject=name, found=packages[name]))
        elif name in extras:
            found = f"not installed (optional: {how_to_install(extras[name])})"
            findings.append(Finding(level="absent", subject=name, found=found))
        else:
            fix = f"pip install {name}"
            findings.append(Finding(level="bad", subject=name, found="not installed", fix=fix))
    return findings


def _flags(flags: Mapping[str, str]) -> list[Finding]:
    if not flags:
        return [
            Finding(
                level="ok",
                subject="flags",
                found="no variable that changes TensorFlow is set",
            )
        ]
    findings = []
    for name, value in flags.items():
        fix = "unset it, unless it is what you want to measure; it is part of the trial's identity"
        findings.append(Finding(level="warn", subject="flags", found=f"{name}={value}", fix=fix))
    return findings


def _governor(cpu: Mapping[str, Any]) -> list[Finding]:
    governor = cpu["governor"]
    if not governor:
        return [
            Finding(
                level="ok",
                subject="governor",
                found="the kernel shows no CPU frequency governor (a virtual machine?)",
            )
        ]
    if governor == "performance":
        return [Finding(level="ok", subject="governor", found=governor)]
    return [
        Finding(
            level="warn",
            subject="governor",
            found=governor,
            fix="cpupower frequency-set -g performance",
        )
    ]


def _quiet(seconds: float) -> list[Finding]:
    """Watch the machine while this process sleeps: any load is foreign."""
    device = devices.devices()[0]
    with Sampler.watching(
        os.getpid(), device=device, memory_limit_bytes=2**62, exceeded=lambda: None
    ) as sampler:
        time.sleep(seconds)
        seen = sampler.summary()
    findings = []
    cores, steal = seen["foreign_cores"], seen["steal_share"]
    busy, stolen = cores > FOREIGN_CORES, steal > STEAL_SHARE
    findings.append(
        Finding(
            level="warn" if busy else "ok",
            subject="quiet",
            found=in_words(cores, seen["cores"], seen["busiest"]),
            fix="stop them, or measure later: contaminated rounds are repeated, and too many of "
            "them mark the trial contaminated"
            if busy
            else "",
        )
    )
    findings.append(
        Finding(
            level="warn" if stolen else "ok",
            subject="steal",
            found=f"the hypervisor takes {steal:.1%} of the CPU",
            fix="other virtual machines share the host: measure at another time, or elsewhere"
            if stolen
            else "",
        )
    )
    if seen["throttled_s"]:
        fix = "raise the CPU quota of this container"
        findings.append(
            Finding(level="warn", subject="quota", found="the control group is throttled", fix=fix)
        )
    return findings


def _disk(results_dir: Path) -> list[Finding]:
    existing = next(
        path for path in (results_dir.absolute(), *results_dir.absolute().parents) if path.exists()
    )
    free = shutil.disk_usage(existing).free
    findings = []
    if results_dir.is_dir():
        try:
            Store(results_dir).check_writable()
        except StoreError as error:
            return [Finding(level="bad", subject="results_dir", found=str(error))]
        findings.append(
            Finding(level="ok", subject="results_dir", found=f"{results_dir} is writable")
        )
    elif not os.access(existing, os.W_OK) or not existing.is_dir():
        fix = "choose another: results_dir=PATH"
        findings.append(
            Finding(
                level="bad",
                subject="results_dir",
                found=f"{results_dir} cannot be created",
                fix=fix,
            )
        )
    else:
        findings.append(
            Finding(
                level="ok",
                subject="results_dir",
                found=f"{results_dir} does not exist yet; it can be created",
            )
        )
    low = free < LOW_DISK_BYTES
    findings.append(
        Finding(
            level="warn" if low else "ok",
            subject="disk",
            found=f"{free / 2**30:.1f} GiB free",
            fix="a long sweep may need more" if low else "",
        )
    )
    return findings


def _wandb() -> list[Finding]:
    asked = login()
    if asked.logged_in:
        found = f"logged in to {asked.url}: tracker=wandb works online"
        return [Finding(level="ok", subject="W&B", found=found)]
    found = (
        f"{asked.problem or 'no API key'}: runs stay offline below results_dir (the default); "
        "`xla-sweeps push` sends them later"
    )
    return [Finding(level="ok", subject="W&B", found=found)]


def _compiles(device: devices.Device) -> list[Finding]:
    """Compile with XLA, and say what goes wrong."""
    findings = []
    for item in toolchain.check(device):
        compiled, cause = item.compiled, item.cause
        found = f"XLA compiles a {compiled.program}"
        if compiled.error:
            found = f"XLA does not compile a {compiled.program}"
        reason = ": ".join(filter(None, (cause.what if cause else "", item.line)))
        level = "bad" if compiled.error else "warn" if cause else "ok"
        findings.append(
            Finding(
                level=level,
                subject=device.label,
                found=f"{found}: {reason}" if reason else found,
                fix=cause.fix if cause else "",
            )
        )
    return findings
