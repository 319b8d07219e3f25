"""Diagnose an exception or a dead process: a status, one line for a person, and what to do. Pure.

A framework reports the same fault under different exception types (in TensorFlow a compile error is
a ValueError from the compiler IR and an InvalidArgumentError from a call), so the text decides, not
the type. The texts are declared by the backend.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from xla_sweeps.schema.backend import Backend, backends
from xla_sweeps.schema.measurement import Failure, Phase, Status

CHANNEL_LOST_CODE = 74
"""Exit code of a measuring process whose channel takes no more events (sysexits' EX_IOERR)."""

TEXT_LIMIT = 64 * 1024

_LINE_LIMIT = 400
_MARKUP = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """End of a measuring process.

    Attributes:
        exit_code: as `Popen.returncode`: negative for a signal.
        phase: the last stage that it announced.
        killed_for: why we killed it (`timeout`, `memory`, `interrupt`, `closed`, `flood`), or "".
        limit: the limit that it exceeded, with its unit, or "".
        oom_kills: the kernel's out-of-memory kills in that time.
        log_tail: the end of its log.
    """

    exit_code: int
    phase: Phase
    killed_for: str = ""
    limit: str = ""
    oom_kills: int = 0
    log_tail: str = ""


class WorkerLost(Exception):
    """A worker ended before it was told to; its process and all that it started are gone.

    Attributes:
        labels: those that it measured; all of the trial after an interrupt.
        status: why it ended; INTERRUPTED after an interrupt.
        failure: the same in words.
        mode: the label that it was preparing, which its death is blamed on; or "".
    """

    def __init__(
        self, labels: Collection[str], *, status: Status, failure: Failure, mode: str = ""
    ) -> None:
        super().__init__(", ".join(labels))
        self.labels = frozenset(labels)
        self.status, self.failure, self.mode = status, failure, mode


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
    Status.OOM_GPU: "try batch_size=1, a smaller resolution or a larger GPU; "
    "the batch size is never changed automatically",
    Status.OOM_HOST: "try batch_size=1 or a smaller resolution, or raise memory_limit_gib; "
    "the batch size is never changed automatically",
}


def diagnose_exception(
    phase: Phase, kind: str, text: str, *, backend: Backend
) -> tuple[Status, Failure]:
    """Status and failure for a Python exception in the measuring process, by type and text."""
    usual = _PHASE_STATUS.get(phase, Status.RUN_ERROR)
    failure = partial(Failure, phase=phase, kind=kind)
    told = f"{kind}: {first_line(text)}"
    if kind == "MemoryError" or _MEMORY.search(text):
        status = Status.OOM_GPU if kind != "MemoryError" and _GPU.search(text) else Status.OOM_HOST
        return status, failure(message=told, hint=_OOM_HINT[status])
    if _LOST.search(text):
        hint = "the device or its driver failed: check nvidia-smi"
        return Status.INFRA, failure(message=told, hint=hint)
    for pattern in backend.failures:
        if match := pattern.expression.search(text):
            message, op = pattern.describe(match)
            return pattern.status, failure(message=message, hint=pattern.hint, op=op)
    if kind in {"ConfigError", "DeviceError", "XlaSweepsError"}:
        return usual, failure(message=first_line(text))
    return usual, failure(message=told, hint="see the traceback in the log")


def diagnose_end(end: ProcessEnd, *, backend: Backend) -> tuple[Status, Failure]:
    """Status and failure for a measuring process that ended without reporting a reason."""
    name, failure = signal_name(end.exit_code), partial(Failure, phase=end.phase)
    out_of_memory = partial(failure, hint=_OOM_HINT[Status.OOM_HOST])
    if end.killed_for == "timeout":
        key = timeout_key(end.phase)
        hint = f"raise timeouts.{key}=SECONDS; the end of the log shows where it was"
        message = f"stage '{end.phase}' timed out after {end.limit}"
        return Status.TIMEOUT, failure(kind="timeout", message=message, hint=hint)
    if end.killed_for == "memory":
        message = f"the process exceeded its memory limit of {end.limit}"
        return Status.OOM_HOST, out_of_memory(kind="memory_limit", message=message)
    if end.killed_for == "interrupt":
        return Status.INTERRUPTED, failure(kind="interrupted", message="interrupted")
    if end.killed_for == "flood":
        return _strange(end, "flood", "wrote more into the channel of our events than events")
    if end.killed_for == "closed" or end.exit_code == CHANNEL_LOST_CODE:
        return _strange(end, "closed", "closed a file descriptor that it did not open")
    if end.oom_kills or _MEMORY.search(end.log_tail):
        killed = f"killed by {name}: out of memory"
        message = killed if end.exit_code < 0 else f"out of memory ({name})"
        return Status.OOM_HOST, out_of_memory(kind=name, message=message)
    if end.phase is Phase.IMPORT and end.exit_code > 0:
        message = f"{backend.title} could not be loaded (exit code {end.exit_code})"
        return Status.INFRA, failure(kind=name, message=message, hint="see the log")
    message = f"the process died with {name} in stage '{end.phase}'"
    return Status.CRASHED, failure(
        kind=name, message=message, hint="see the stack at the end of the log"
    )


def _strange(end: ProcessEnd, kind: str, what: str) -> tuple[Status, Failure]:
    return Status.RUN_ERROR, Failure(
        phase=end.phase,
        kind=kind,
        message=f"the model's code {what}, in stage '{end.phase}'",
        hint="look for os.close, os.closerange, os.fork or os.write in the model's code",
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
    """The first informative line, shortened; a framework's wrapper around an error is skipped."""
    plain = _MARKUP.sub("", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    for wrapper in (backend.wrapper for backend in backends() if backend.wrapper):
        if len(lines) > 1 and lines[0].startswith(wrapper):
            lines[0] = f"{lines[1]} (in {lines[0].removeprefix(wrapper).strip().rstrip('.')})"
    line = lines[0] if lines else "no message"
    return line if len(line) <= _LINE_LIMIT else line[: _LINE_LIMIT - 1] + "…"


def error_text(error: BaseException) -> str:
    """Text of an exception; a very long one without its middle.

    It never raises, whatever the exception's own code does.
    """
    try:
        text = str(error)
    except BaseException:
        text = "(its message cannot be shown)"
    if isinstance(error, SystemExit):
        text = f"the model's code called sys.exit({text})"
    elif isinstance(error, KeyboardInterrupt):
        text = text or "raised by the model's code"
    half = TEXT_LIMIT // 2
    return text if len(text) <= TEXT_LIMIT else f"{text[:half]}\n[... cut ...]\n{text[-half:]}"


def error_line(error: BaseException) -> str:
    """The first informative line of an exception's message, or the name of its type."""
    return first_line(str(error)) if str(error).strip() else type(error).__name__


def timeout_key(phase: Phase) -> str:
    """The key of `timeouts` that limits a stage."""
    return {Phase.IMPORT: "build", Phase.VERIFY: "compile", Phase.RECORD: "measure"}.get(
        phase, str(phase)
    )
