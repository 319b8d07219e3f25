"""Runs the real command line many times a second: one process imports it, and forks for each case.

Trials have the scripted measuring process of `fake_worker.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import fake_sweep
import psutil
from ended import wait_until
from paths import SUPPORT

TRIAL = (sys.executable, str(SUPPORT / "fake_trial.py"))
SWEEP = (sys.executable, str(SUPPORT / "fake_sweep.py"))

MEMORY_BYTES = 4 * 2**30
"""Most memory that a case may allocate."""

OUTPUT_BYTES = 2**20

Content = bytes | str | None
"""Content of a path of a case: a file's bytes, the target of a link, or None for a pipe."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One command line, with what it finds in its folder and its environment.

    Attributes:
        arguments: what follows `python -m xla_sweeps`.
        files: of the working folder, by relative path; one that ends with / is a folder.
        environ: variables beside those that every case has.
    """

    arguments: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The result of a case.

    Attributes:
        code: the exit code; negative where a signal ended it.
        hung: whether it was killed after the time that it had.
        written: what it left in its working folder.
        littered: what it left elsewhere, and processes that outlived it.
    """

    code: int
    stdout: str
    stderr: str
    seconds: float
    hung: bool
    written: tuple[str, ...]
    littered: tuple[str, ...]


def warm_up() -> None:
    """Import what the commands import, and have trials measure nothing."""
    import forked_command  # noqa: F401

    fake_sweep.use_scripts()


def run(case: Case, folder: Path, *, limit_s: float, forked: bool = True) -> Ended:
    """Run a case in a folder of its own.

    Args:
        case: what to run.
        folder: made, and left for the caller to remove.
        limit_s: after so many seconds it is killed.
        forked: whether this process forks (`warm_up` first), or starts a fresh interpreter.
    """
    work, home, temporary = (folder / name for name in ("work", "home", "tmp"))
    for each in (work, home, temporary):
        each.mkdir(parents=True)
    _lay_out(work, case.files)
    before = _listing(work)
    environ = {
        **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join([str(SUPPORT.parent.parent), str(SUPPORT)]),
        "FAKE_WORKER": "",
        "WANDB_BASE_URL": "http://127.0.0.1:9",
        **case.environ,
    }
    out, err = folder / "out", folder / "err"
    started = time.monotonic()
    with out.open("wb") as output, err.open("wb") as errors:
        start = _forked if forked else _spawned
        pid = start(case.arguments, work, environ, output.fileno(), errors.fileno())
    code, hung = _waited(pid, started + limit_s)
    seconds = time.monotonic() - started
    littered = [f"process {left}" for left in _end_session(pid)]
    littered += [name for name in _listing(folder) if not name.startswith("work/")]
    encoding = environ.get("PYTHONIOENCODING", "utf-8")
    return Ended(
        code=code,
        stdout=_text(out, encoding),
        stderr=_text(err, encoding),
        seconds=seconds,
        hung=hung,
        written=tuple(sorted(_listing(work) - before)),
        littered=tuple(sorted({*littered} - {"work", "home", "tmp", "out", "err", "home/.config"})),
    )


def _text(path: Path, encoding: str) -> str:
    """The output of a case, without colours."""
    text = path.read_bytes()[:OUTPUT_BYTES].decode(encoding, "replace").replace("\ufeff", "")
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _lay_out(work: Path, files: Mapping[str, Content]) -> None:
    for name, content in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif content is None:
            os.mkfifo(path)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)


def _listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _spawned(
    arguments: tuple[str, ...], work: Path, environ: dict[str, str], output: int, errors: int
) -> int:
    is_trial = not arguments or not arguments[0].isalpha()
    is_sweep = arguments[:1] == ("sweep",)
    program = SWEEP if is_sweep else TRIAL if is_trial else (sys.executable, "-m", "xla_sweeps")
    return subprocess.Popen(
        [*program, *arguments],
        cwd=work,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        start_new_session=True,
        preexec_fn=_bound,
    ).pid


def _forked(
    arguments: tuple[str, ...], work: Path, environ: dict[str, str], output: int, errors: int
) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        from forked_command import become

        become(work, environ, arguments, output, errors)
        _bound()
        from xla_sweeps.__main__ import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)


def _bound() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _waited(pid: int, deadline: float) -> tuple[int, bool]:
    """The exit code, and whether it had to be killed."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), False
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), True
        time.sleep(0.002)


def _end_session(leader: int) -> list[str]:
    """Kill what is left of a session a moment later; their command lines."""
    wait_until(lambda: not _session(leader), 60)
    said = []
    for process in _session(leader):
        with contextlib.suppress(psutil.Error):
            said.append(" ".join(process.cmdline())[:200])
            process.kill()
    return said


def _session(leader: int) -> list[psutil.Process]:
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes
