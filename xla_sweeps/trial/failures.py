"""Diagnose an exception or a dead process: a status, one line for a person, and what to do. Pure.

A framework reports the same fault under different exception types (in TensorFlow a compile error is
a ValueError from the compiler IR and an InvalidArgumentError from a call), so the text decides, not
the type. The texts are declared by the backend.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection
from functools import partial

from xla_sweeps.schema.backend import Backend
from xla_sweeps.schema.measurement import Failure, Phase, Status
from xla_sweeps.system.installation import install

CHANNEL_LOST_CODE = 74
"""Exit code of a measuring process whose channel takes no more events (sysexits' EX_IOERR)."""

TEXT_LIMIT = 64 * 1024

_LINE_LIMIT = 400

_WRAPPED = re.compile(r"^(\S.{28,}[^\s.:;!?])\n(?=[a-z])", re.M)
"""A line of a sentence that goes on in the next one, as Keras wraps its own."""

_MARKUP = re.compile(
    r"\x1b\[[0-9;]*m|\{\{function_node [^}]*\}\} ?|,? metadata=\{[^}]*\}"
    r"|during context \[Unknown\]: | \[Op:[^\]]*\](?: name: ?\S*)?"
)
"""What frameworks put around a message for their own developers."""

WRAPPER = "Exception encountered when calling"
"""Beginning of a first line in which Keras says nothing of an error."""

_LONG = 160
_FIRST_SENTENCE = re.compile(r"(.{20,}?[.!])\s+[A-Z]")


class WorkerLost(Exception):
    """A worker ended before it was told to; its process and all that it started are gone.

    An interrupt loses all labels. Its death is blamed on `mode`, which it was preparing, or "".
    """

    def __init__(
        self, labels: Collection[str], *, status: Status, failure: Failure, mode: str = ""
    ) -> None:
        super().__init__(", ".join(labels))
        self.labels = frozenset(labels)
        self.status, self.failure, self.mode = status, failure, mode


_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|ResourceExhausted|OOM when allocating|out of memory|std::bad_alloc"
    r"|(?:can't|cannot|failed to) allocate memory|not enough memory|STATUS_ALLOC_FAILED",
    re.I,
)
_RETRIED = re.compile(r"^.*The caller indicates that this is not a failure.*$", re.M)
"""XLA's autotuner looks for more memory than there is, and goes on."""

_GPU = re.compile(r"\bGPU\b|CUDA|device:GPU|GPU_\d+_bfc|CU(?:BLAS|DNN)_STATUS", re.I)
_HOST = re.compile(r"on CPU\b|CPUAllocator|std::bad_alloc|host memory|device:CPU", re.I)
_LOST = re.compile(
    r"CUDA_ERROR_(?!OUT_OF_MEMORY)\w+|GPU[ _]is[ _]lost|fallen off the bus|\bXid\b.*\d"
    r"|uncorrectable ECC|unspecified launch failure|no CUDA-capable device|is/are busy or unav"
    r"|CUDA error: (?:unknown error|an illegal memory access)",
    re.I,
)
_ARGUMENTS = re.compile(
    r"TypeError: .*(?:missing (?:a|\d+) required (?:positional )?argument"
    r"|takes \d+ positional arguments? but \d+ (?:was|were) given|too many positional arguments)"
)
_ARGUMENTS_HINT = (
    "input_spec lists every input; bind what is none, as in functools.partial(apply, params)"
)
_LIBRARY = re.compile(r"\b(lib[\w+-]+\.so[.\d]*): cannot open shared object file")

_FATAL = re.compile(r"^F\d{4} .*?\] (.+)$", re.M)
"""The last words of a process that ends itself, as XLA and TensorFlow log them."""

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

_SHARED_HINT = "; {workers} processes share this GPU: a trial of fewer backends needs less memory"

_FULL_HINT = "the temporary folder may be full: free some space, or name another in TMPDIR"

_NOEXEC_HINT = "the temporary folder may be mounted noexec: name another in TMPDIR"

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)

_KILLED_HINT = "by a person, a scheduler or a memory killer: rerun to measure it again"

_LOST_HINT = (
    "the device or its driver failed: check nvidia-smi, and `dmesg | grep Xid`; "
    "after a reset of the GPU, rerun to resume"
)


def diagnose_exception(
    phase: Phase,
    kind: str,
    text: str,
    *,
    backend: Backend,
    device: str = "",
    workers: int = 1,
    line: str = "",
) -> tuple[Status, Failure]:
    """Status and failure for a Python exception in one of the workers, by type and text.

    `line` is the line of the user's code that raised it, as `file:line`, or "".
    """
    usual = _PHASE_STATUS.get(phase, Status.RUN_ERROR)
    failure = partial(Failure, phase=phase, kind=kind)
    told = f"{kind}: {_first_sentence(first_line(text))}"
    if kind == "MemoryError" or _MEMORY.search(text):
        status = Status.OOM_HOST if kind == "MemoryError" else _status_of_memory(text, device)
        return status, failure(message=told, hint=_oom_hint(status, workers))
    if "No space left on device" in text:
        return usual, failure(message=told, hint=_FULL_HINT)
    if "failed to map segment from shared object" in text:
        return usual, failure(message=told, hint=_NOEXEC_HINT)
    if _LOST.search(text):
        return Status.INFRA, failure(message=f"{kind}: {_line(_LOST, text)}", hint=_LOST_HINT)
    if phase is Phase.IMPORT and (missing := _LIBRARY.search(text)):
        package = next(iter(backend.packages), backend.name)
        hint = f"install it with its framework: {install(package, again=True)}"
        message = f"{backend.title} cannot be loaded: {missing[1]} is missing"
        return usual, failure(message=message, hint=hint)
    for pattern in backend.failures:
        if match := pattern.expression.search(text):
            message, hint, op = pattern.describe(match)
            message += f" ({line})" if line and line not in message else ""
            return pattern.status, failure(message=message, hint=hint, op=op)
    if kind in {"ConfigError", "DeviceError", "XlaSweepsError"}:
        return usual, failure(message=first_line(text))
    if not line and _ARGUMENTS.search(f"{kind}: {text}"):  # the call itself
        return usual, failure(message=told, hint=_ARGUMENTS_HINT)
    message = f"{told.rstrip('.')} ({line})" if line else told
    return usual, failure(message=message, hint="see the traceback in the log")


def _status_of_memory(text: str, device: str) -> Status:
    """Whose memory is exhausted; XLA's own message does not say it, as in JAX."""
    on_gpu = _GPU.search(text) or (device.startswith("gpu") and not _HOST.search(text))
    return Status.OOM_GPU if on_gpu else Status.OOM_HOST


def _oom_hint(status: Status, workers: int) -> str:
    shared = _SHARED_HINT.format(workers=workers)
    return _OOM_HINT[status] + (shared if status is Status.OOM_GPU and workers > 1 else "")


def _line(expression: re.Pattern[str], text: str) -> str:
    """The first line of a text that matches."""
    return first_line(next(filter(expression.search, text.splitlines()), text))


def diagnose_end(
    phase: Phase,
    exit_code: int,
    *,
    backend: Backend,
    killed_for: str = "",
    limit: str = "",
    oom_kills: int = 0,
    log_tail: str = "",
    device: str = "",
    workers: int = 1,
) -> tuple[Status, Failure]:
    """Status and failure for a measuring process that ended without reporting a reason.

    The exit code is as `Popen.returncode`. `killed_for` is why we killed it (`timeout`, `memory`,
    `interrupt`, `closed`, `flood`), `limit` the limit that it exceeded, with its unit; or "".
    """
    name, failure = signal_name(exit_code), partial(Failure, phase=phase)
    log = _RETRIED.sub("", log_tail)
    if killed_for == "timeout":
        hint = f"raise timeouts.{timeout_key(phase)}=SECONDS; the end of the log shows where it was"
        message = f"stage '{phase}' timed out after {limit}"
        return Status.TIMEOUT, failure(kind="timeout", message=message, hint=hint)
    if killed_for == "memory":
        message = f"the process exceeded its memory limit of {limit}"
        hint = _OOM_HINT[Status.OOM_HOST]
        return Status.OOM_HOST, failure(kind="memory_limit", message=message, hint=hint)
    if killed_for == "interrupt":
        return Status.INTERRUPTED, failure(kind="interrupted", message="interrupted")
    if killed_for == "flood":
        return _strange(phase, "flood", "wrote more into the channel of our events than events")
    if killed_for == "closed" or exit_code == CHANNEL_LOST_CODE:
        return _strange(phase, "closed", "closed a file descriptor that it did not open")
    if oom_kills or _MEMORY.search(log):
        killed = f"killed by {name}: out of memory"
        message = killed if exit_code < 0 else f"out of memory ({name})"
        on_gpu = device.startswith("gpu") and not oom_kills
        status = _status_of_memory(_line(_MEMORY, log), device) if on_gpu else Status.OOM_HOST
        return status, failure(kind=name, message=message, hint=_oom_hint(status, workers))
    if device.startswith("gpu") and _LOST.search(log):
        message = f"the process died with {name}: {_line(_LOST, log)}"
        return Status.INFRA, failure(kind=name, message=message, hint=_LOST_HINT)
    if fatal := _FATAL.findall(log):
        message = f"the process died in stage '{phase}': {first_line(fatal[-1])}"
        return Status.CRASHED, failure(kind=name, message=message)
    if phase is Phase.IMPORT and exit_code > 0:
        message = f"{backend.title} could not be loaded (exit code {exit_code})"
        return Status.INFRA, failure(kind=name, message=message, hint="see the log")
    if -exit_code in _FROM_OUTSIDE:
        message = f"the process was killed from outside by {name} in stage '{phase}'"
        return Status.KILLED, failure(kind=name, message=message, hint=_KILLED_HINT)
    message = f"the process died with {name} in stage '{phase}'"
    return Status.CRASHED, failure(
        kind=name, message=message, hint="see the stack at the end of the log"
    )


def _strange(phase: Phase, kind: str, what: str) -> tuple[Status, Failure]:
    return Status.RUN_ERROR, Failure(
        phase=phase,
        kind=kind,
        message=f"the model's code {what}, in stage '{phase}'",
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
    """The first informative line, shortened; Keras's wrapper around an error is skipped."""
    plain = _WRAPPED.sub(r"\1 ", _MARKUP.sub("", text))
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(WRAPPER):
        lines[0] = f"{lines[1]} (in {lines[0].removeprefix(WRAPPER).strip().rstrip('.')})"
    line = lines[0] if lines else "no message"
    return line if len(line) <= _LINE_LIMIT else line[: _LINE_LIMIT - 1] + "…"


def _first_sentence(line: str) -> str:
    """A line, of a very long one its first sentence: what follows is advice for other cases."""
    sentence = _FIRST_SENTENCE.match(line) if len(line) > _LONG else None
    return sentence[1] if sentence else line


def error_text(error: BaseException) -> str:
    """Text of an exception, whatever its own code raises; a very long one without its middle."""
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


def root_cause(error: BaseException) -> BaseException:
    """The innermost exception behind an exception, also one that Keras hides (`from None`)."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return error


def is_out_of_memory(error: BaseException) -> bool:
    """True if an exception, or the innermost one behind it, says that memory ran out."""
    return any(
        isinstance(each, MemoryError) or _MEMORY.search(f"{type(each).__name__}: {each}")
        for each in (error, root_cause(error))
    )


def timeout_key(phase: Phase) -> str:
    """The key of `timeouts` that limits a stage."""
    return {Phase.IMPORT: "build", Phase.VERIFY: "compile", Phase.RECORD: "measure"}.get(
        phase, str(phase)
    )
