"""The command `doctor`: is this machine fit to measure on?

Checks devices, versions, flags, load, disk and W&B; whether XLA compiles for a device; and, with
`--full`, whether its figures can be trusted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xla_sweeps.cli.arguments import add_results_dir, command_parser
from xla_sweeps.config.catalog import SOURCES
from xla_sweeps.doctor import toolchain
from xla_sweeps.doctor.check_result import Verdict
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report.figures import duration
from xla_sweeps.report.self_check import page
from xla_sweeps.report.terminal.console import Heartbeat, progress_bar, progress_console, say
from xla_sweeps.report.terminal.tables import show_findings
from xla_sweeps.report.wandb.credentials import login
from xla_sweeps.schema.backend import Backend, backends, default_backend
from xla_sweeps.store.store import Store
from xla_sweeps.system import devices, environment, nvml
from xla_sweeps.system.installation import how_to_install, install, unmet
from xla_sweeps.trial.monitor import FOREIGN_CORES, STEAL_SHARE, Sampler
from xla_sweeps.trial.neighbours import in_words


def doctor_command(arguments: Sequence[str]) -> int:
    """Check the machine; exit code 1 if it cannot measure."""
    parser = command_parser("doctor", "Exit code 1 if this machine cannot measure.")
    add_results_dir(parser)
    text = "how long to watch the machine (default: 3)"
    parser.add_argument("--seconds", type=float, default=3.0, help=text)
    text = "also compile a matrix product and a convolution with XLA there: cpu, gpu, gpu:N"
    parser.add_argument("--device", metavar="NAME", help=text)
    text = "also measure whether figures of the device can be trusted, in under 10 minutes (2 on a "
    text += "CPU), and print a page to paste into an issue"
    parser.add_argument("--full", action="store_true", help=text)
    options = parser.parse_args(arguments)
    if not 0 <= options.seconds <= MAX_SECONDS:
        raise ConfigError(f"--seconds {options.seconds}: expected 0 to {MAX_SECONDS}")
    if options.full and all(map(environment.absent, backends())):
        missing = environment.absent(default_backend())
        raise ConfigError(f"--full: needs {default_backend().title}: {install(*missing)}")
    device = None
    if options.device is not None or options.full:
        device = devices.resolve_device(options.device or "auto")
    with progress_bar("checking the machine"):
        findings = diagnose(options.dir, seconds=options.seconds, device=device)
    show_findings(findings, _next(findings))
    trusted = _check_fully(device) if options.full and device else True
    return 1 if not trusted or any(finding.level == "bad" for finding in findings) else 0


LOW_DISK_BYTES = 2 * 2**30

MAX_SECONDS = 3600

NOISE = ("quiet", "steal", "quota")
"""Subjects that contaminate rounds."""


class Finding(NamedTuple):
    """The result of one check: `ok`, `absent` (not needed), `warn` (figures suffer) or `bad`."""

    level: str
    subject: str
    shown: str
    fix: str = ""


def diagnose(
    results_dir: Path, *, seconds: float, device: devices.Device | None = None
) -> list[Finding]:
    """Check everything; takes `seconds`, during which the machine is watched."""
    facts = environment.environment()
    return [
        *_devices(),
        *_versions(facts["packages"]),
        *_flags(facts["flags"]),
        *_search_path(),
        _governor(facts["cpu"]),
        *_quiet(seconds),
        *_disk(results_dir),
        _wandb(),
        *(_compiles(device) if device else ()),
    ]


def _search_path() -> Iterator[Finding]:
    """An empty part of PYTHONPATH, as `PYTHONPATH=$PYTHONPATH:/x` makes."""
    if "" in (os.environ.get("PYTHONPATH") or "x").split(os.pathsep):
        shown = "PYTHONPATH has an empty part: Python loads modules of the current folder"
        yield Finding("warn", "PYTHONPATH", shown, "remove the colon at its start, end or middle")


def _next(findings: Sequence[Finding]) -> str:
    """Their conclusion in one sentence, and the next command on a line of its own."""
    if any(finding.level == "bad" for finding in findings):
        return "This machine cannot measure yet: fix what is marked ✕. Next:\nxla-sweeps doctor"
    noise = [one.shown for one in findings if one.level == "warn" and one.subject in NOISE]
    expected = f", but expect contaminated rounds: {'; '.join(noise)}" if noise else ""
    good = {finding.subject for finding in findings if finding.level == "ok"}
    able = [each for each in backends() if _main_package(each) in good]
    other = f" backend={able[0].name}" if able and default_backend() not in able else ""
    return f"You can measure now{expected}. Next:\npython -m xla_sweeps model=mobilenet_v2{other}"


def _devices() -> Iterator[Finding]:
    for device in devices.devices():
        memory = f"{device.memory_bytes / 2**30:.0f} GiB"
        cores = f", {devices.usable_cores()} cores" if device.kind == "cpu" else ""
        watts = device.settings.power_limit_w
        limit = "" if watts is None else f", power limit {watts} W"
        yield Finding("ok", device.label, f"{device.name}{cores}, {memory}{limit}")
        if device.kind == "gpu":
            yield from _gpu_state(device)
    only_cpu, problems = len(devices.devices()) == 1, devices.gpu_problems()
    for problem in problems:
        level, fix = ("bad", "until then: device=cpu") if only_cpu else ("warn", "")
        yield Finding(level, "gpu", problem, fix)
    if only_cpu and not problems:
        able = _find_installed()
        how = how_to_install("gpu") if default_backend() in able else install(able[0].for_gpu)
        fix = f"if there is one, install its driver, and: {how}"
        yield Finding("warn", "gpu", "no NVIDIA GPU: trials measure this CPU", fix)


def _gpu_state(gpu: devices.Device) -> Iterator[Finding]:
    """Causes of contaminated rounds on a GPU, and those that its driver does not report."""
    others = len(nvml.compute_processes(gpu.uuid) or ())
    if others:
        shown, fix = f"other processes compute on it: {others}", "stop them: nvidia-smi lists them"
        yield Finding("warn", gpu.label, shown, fix)
    seen = nvml.read(gpu.uuid)
    if seen is None or (seen.reasons is None and seen.thermal_ns is None):
        shown = "its driver does not say whether heat or power slow it (flag no_gpu_telemetry)"
        yield Finding("warn", gpu.label, shown, "update the driver")


def _versions(packages: Mapping[str, str]) -> Iterator[Finding]:
    """The packages of the backends that are installed, and how to install each other backend."""
    extras = {source.package: source.extra for source in SOURCES.values()}
    able = _find_installed()
    needed = {name for each in able for name in each.identity}
    for name in {name: None for each in able for name in environment.packages_of(each)}:
        how = how_to_install(extras[name]) if name in extras else install(name)
        if name in packages:
            yield Finding("ok", name, packages[name])
        elif name in needed and name not in extras:
            yield Finding("bad", name, "not installed", how)
        else:
            yield Finding("absent", name, f"not installed (optional: {how})")
    for each in backends():
        if each not in able:
            name = _main_package(each)
            how = install(*(environment.absent(each) or [name]))
            yield Finding("absent", name, f"not installed (optional: {how})")
    for lacking, words in unmet(*(name for each in able for name in each.packages)).items():
        yield Finding("warn", "packages", lacking, install(*words))


def _find_installed() -> list[Backend]:
    """The backends that can be used here; the default one where none can."""
    return [each for each in backends() if not environment.absent(each)] or [default_backend()]


def _main_package(backend: Backend) -> str:
    """The package that a backend is named for: the first that it declares."""
    return next(iter(backend.packages), "")


def _flags(flags: Mapping[str, str]) -> Iterator[Finding]:
    if not flags:
        titles = " or ".join(backend.title for backend in backends())
        yield Finding("ok", "flags", f"no variable that changes {titles} is set")
    fix = "unset it, unless it is what you want to measure; it is part of the trial's identity"
    for name, value in flags.items():
        own = [each.title for each in backends() if name.partition("_")[0] in each.prefixes]
        changed = " and ".join(own) or "what every backend measures"
        yield Finding("warn", "flags", f"{name}={value} changes {changed}", fix)


def _governor(cpu: Mapping[str, Any]) -> Finding:
    governor = cpu["governor"] or "the kernel shows no CPU frequency governor (a virtual machine?)"
    slow, fix = cpu["governor"] not in ("", "performance"), "cpupower frequency-set -g performance"
    return _warn_if(slow, "governor", governor, fix)


def _quiet(seconds: float) -> Iterator[Finding]:
    """Watch the machine while this process sleeps: any load is foreign."""
    device = devices.devices()[0]
    with Sampler(device=device, memory_limit_bytes=2**62) as sampler:
        time.sleep(seconds)
        seen = sampler.summary()
    cores, steal = seen["foreign_cores"], seen["steal_share"]
    shown = in_words(cores, seen["cores"], seen["busiest"])
    fix = "stop them, or measure later: contaminated rounds are repeated, and many mark the trial"
    yield _warn_if(cores > FOREIGN_CORES, "quiet", shown, fix)
    fix = "other virtual machines share the host: measure at another time, or elsewhere"
    shown = f"the hypervisor takes {steal:.1%} of the CPU"
    yield _warn_if(steal > STEAL_SHARE, "steal", shown, fix)
    if seen["throttled_s"]:
        fix = "raise the CPU quota of this container"
        yield Finding("warn", "quota", "the control group is throttled", fix)


def _warn_if(bad: bool, subject: str, shown: str, fix: str) -> Finding:
    return Finding("warn", subject, shown, fix) if bad else Finding("ok", subject, shown)


def _disk(results_dir: Path) -> Iterator[Finding]:
    folder = results_dir.absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    level, shown, fix = "ok", f"{results_dir} does not exist yet; it can be created", ""
    if results_dir.is_dir():
        shown = f"{results_dir} is writable"
        try:
            Store(results_dir).check_writable()
        except StoreError as error:
            level, shown = "bad", str(error)
    elif not os.access(existing, os.W_OK) or not existing.is_dir():
        level, shown = "bad", f"{results_dir} cannot be created"
        fix = "choose another: results_dir=PATH"
    yield Finding(level, "results_dir", shown, fix)
    free, fix = shutil.disk_usage(existing).free, "a long sweep may need more"
    yield _warn_if(free < LOW_DISK_BYTES, "disk", f"{free / 2**30:.1f} GiB free", fix)


def _wandb() -> Finding:
    asked = login()
    if asked.logged_in:
        return Finding("ok", "W&B", f"logged in to {asked.url}: tracker=wandb works online")
    shown = f"{asked.problem or 'no API key'}: after `wandb login`, `xla-sweeps push` sends runs"
    return Finding("ok", "W&B", shown)


def _compiles(device: devices.Device) -> Iterator[Finding]:
    able = [
        one for one in backends() if "self_check" in one.programs and not environment.absent(one)
    ]
    for diagnosis in (each for backend in able for each in toolchain.check(device, backend)):
        compiled, cause = diagnosis.compiled, diagnosis.cause
        verb = "does not compile" if compiled.error else "compiles"
        reason = ": ".join(filter(None, (cause.what if cause else "", diagnosis.line)))
        shown = ": ".join(filter(None, (f"XLA {verb} a {compiled.program}", reason)))
        level = "bad" if compiled.error else "warn" if cause else "ok"
        yield Finding(level, device.label, shown, cause.fix if cause else "")


def _check_fully(device: devices.Device) -> bool:
    """Print the page on what figures of the device are worth; returns whether nothing is bad."""
    from xla_sweeps.doctor import self_check  # the runner loads SciPy

    began, checks = time.monotonic(), []
    heart = Heartbeat(lambda: _say(f"… {duration(time.monotonic() - began)} so far"))
    with contextlib.redirect_stdout(sys.stderr), heart:
        print()
        for checked in self_check.check(device, default_backend(), _say):
            checks.append(checked)
            _say(f"{checked.verdict}: {checked.name}")
    facts = environment.environment()
    packages = [
        f"{name} {version}"
        for name, version in facts["packages"].items()
        if name in default_backend().identity or name.startswith("nvidia-")
    ]
    told = {
        "device": f"{device.label}, {device.name}, {device.memory_bytes / 2**30:.0f} GiB",
        "driver": ", ".join(f"{name} {value}" for name, value in facts["driver"].items()),
        "host": f"{facts['cpu']['name']}, {facts['cpu']['cores']} cores, {facts['os']}",
        "software": ", ".join([f"xla-sweeps {facts['xla_sweeps']} {facts['git']}", *packages]),
        "flags": " ".join(f"{name}={value}" for name, value in facts["flags"].items()),
        "took": f"{time.monotonic() - began:.0f} s",
    }
    say("\n" + page(checks, {name: value for name, value in told.items() if value}).rstrip())
    return all(checked.verdict is not Verdict.BAD for checked in checks)


def _say(text: str) -> None:
    say(f"  {text}", console=progress_console())
