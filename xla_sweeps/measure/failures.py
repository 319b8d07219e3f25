"""From an exception's text or a process's end to a status, one line for a person, and what to do about it. Pure.

TensorFlow reports the same fault under different exception types (a compile error arrives as
ValueError from the compiler IR and as InvalidArgumentError from a call), so the text decides, not
the type.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from xla_sweeps.schema.measurement import Failure, Phase, Status

_LINE_LIMIT = 400

_KERAS_WRAPPER = "Exception encountered when calling"

_MARKUP = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """How a measuring process ended.

    Attributes:
        exit_code: as `Popen.returncode`: negative for a signal.
        killed_for: why we killed it (`timeout`, `memory`, `interrupt`), or "".
        phase: the last stage that it announced.
        oom_kills: the kernel's out-of-memory kills meanwhile.
        log_tail: the end of its log.
    """

    exit_code: int
    phase: Phase
    killed_for: str = ""
    limit: str = ""
    oom_kills: int = 0
    log_tail: str = ""


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A known fault: what its text looks like, and what it means."""

    expression: re.Pattern[str]
    status: Status
    describe: Callable[[re.Match[str]], tuple[str, str]]
    hint: str


def _fixed(message: str) -> Callable[[re.Match[str]], tuple[str, str]]:
    return lambda match: (message, "")


_PATTERNS = (
    _Pattern(
        re.compile(r"unsupported operations.*? on (?P<device>XLA_\w+): (?P<op>\w+) \(", re.S),
        Status.UNSUPPORTED_OP,
        lambda match: (
            f"XLA has no kernel for the operation {match['op']} on {match['device']}",
            match["op"],
        ),
        "replace the operation, or keep it outside jit_compile; auto-clustering (jit=auto) leaves it out by itself",
    ),
    _Pattern(
        re.compile(
            r"Input (?P<input>\d+) to node [`'](?P<node>.+?)[`'] with op (?P<op>\w+) must be a compile-time const"
        ),
        Status.DYNAMIC_SHAPE,
        lambda match: (
            f"input {match['input']} of {match['op']} ({match['node']}) must be known at compile time: "
            "a shape depends on computed values",
            match["op"],
        ),
        "make that shape static, or compute it outside jit_compile",
    ),
    _Pattern(
        re.compile(r"Input and output shapes of loop body do not match"),
        Status.DYNAMIC_SHAPE,
        _fixed("a while loop changes the shape of its variables, which XLA cannot compile"),
        "pad the loop's variables to a fixed shape",
    ),
    _Pattern(
        re.compile(r"failed to lift variable creations out of this tf.function", re.I),
        Status.TRACE_ERROR,
        _fixed("the model creates variables inside its call, so it cannot be compiled"),
        "create all variables when the model is built",
    ),
)

_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|ResourceExhausted|OOM when allocating|out of memory|std::bad_alloc", re.I
)

_GPU = re.compile(r"\bGPU\b|CUDA|device:GPU|GPU_\d+_bfc", re.I)

_LOST = re.compile(
    r"CUDA_ERROR_(?!OUT_OF_MEMORY)\w+|GPU is lost|fallen off the bus|Xid \d+|uncorrectable ECC",
    re.I,
)

_PHASE_STATUS = {
    Phase.IMPORT: Status.INFRA,
    Phase.BUILD: Status.BUILD_ERROR,
    Phase.TRACE: Status.TRACE_ERROR,
    Phase.COMPILE: Status.COMPILE_ERROR,
}

_OOM_HINT = {
    Status.OOM_GPU: "the batch size is never changed for you: try batch_size=1, a smaller resolution, or a larger GPU",
    Status.OOM_HOST: "the batch size is never changed for you: try batch_size=1 or a smaller resolution, "
    "or raise memory_limit_gib",
}


def diagnose_exception(phase: Phase, kind: str, text: str) -> tuple[Status, Failure]:
    """Status and failure for a Python exception in the measuring process.

    Args:
        phase: the stage it arose in.
        kind: name of the exception's type.
        text: the whole message.
    """
    if kind == "MemoryError" or _MEMORY.search(text):
        status = Status.OOM_GPU if kind != "MemoryError" and _GPU.search(text) else Status.OOM_HOST
        return status, _failure(phase, kind, text, hint=_OOM_HINT[status])
    if _LOST.search(text):
        return Status.INFRA, _failure(
            phase, kind, text, hint="the device or its driver failed: check nvidia-smi"
        )
    for pattern in _PATTERNS:
        match = pattern.expression.search(text)
        if match:
            message, op = pattern.describe(match)
            return pattern.status, Failure(
                phase=phase, kind=kind, message=message, hint=pattern.hint, op=op
            )
    if kind in {"ConfigError", "DeviceError", "XlaSweepsError"}:
        return _PHASE_STATUS.get(phase, Status.RUN_ERROR), Failure(
            phase=phase, kind=kind, message=first_line(text)
        )
    return _PHASE_STATUS.get(phase, Status.RUN_ERROR), _failure(
        phase, kind, text, hint="the log has the whole traceback"
    )


def diagnose_end(end: ProcessEnd) -> tuple[Status, Failure]:
    """Status and failure for a measuring process that ended without saying why."""
    name = signal_name(end.exit_code)
    if end.killed_for == "timeout":
        hint = f"raise it: timeouts.{_timeout_key(end.phase)}=SECONDS; the log has the stack at the end"
        message = f"no end of the stage '{end.phase}' within {end.limit}"
        return Status.TIMEOUT, Failure(phase=end.phase, kind="timeout", message=message, hint=hint)
    if end.killed_for == "memory":
        message = f"the process used more memory than its limit of {end.limit}"
        return Status.OOM_HOST, Failure(
            phase=end.phase, kind="memory_limit", message=message, hint=_OOM_HINT[Status.OOM_HOST]
        )
    if end.killed_for == "interrupt":
        return Status.INTERRUPTED, Failure(
            phase=end.phase, kind="interrupted", message="stopped from outside"
        )
    if end.oom_kills or _MEMORY.search(end.log_tail):
        message = f"the process ended with {name} for want of memory"
        return Status.OOM_HOST, Failure(
            phase=end.phase, kind=name, message=message, hint=_OOM_HINT[Status.OOM_HOST]
        )
    if end.phase is Phase.IMPORT and end.exit_code > 0:
        message = f"TensorFlow could not be loaded (exit code {end.exit_code})"
        return Status.INFRA, Failure(
            phase=end.phase, kind=name, message=message, hint="the log says why"
        )
    message = f"the process died with {name} in the stage '{end.phase}'"
    return Status.CRASHED, Failure(
        phase=end.phase, kind=name, message=message, hint="the log's end has the stack"
    )


def signal_name(exit_code: int) -> str:
    """`SIGSEGV` for -11, `exit code 3` for 3."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def first_line(text: str) -> str:
    """The first line that says something, bounded.

    Keras's wrapper around a layer's error does not.
    """
    plain = _MARKUP.sub("", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_KERAS_WRAPPER):
        lines[0] = f"{lines[1]} (in {lines[0].removeprefix(_KERAS_WRAPPER).strip().rstrip('.')})"
    line = lines[0] if lines else "no message"
    return line if len(line) <= _LINE_LIMIT else line[: _LINE_LIMIT - 1] + "…"


def _failure(phase: Phase, kind: str, text: str, *, hint: str) -> Failure:
    return Failure(phase=phase, kind=kind, message=f"{kind}: {first_line(text)}", hint=hint)


def _timeout_key(phase: Phase) -> str:
    return {Phase.IMPORT: "build", Phase.VERIFY: "compile", Phase.RECORD: "measure"}.get(
        phase, str(phase)
    )
