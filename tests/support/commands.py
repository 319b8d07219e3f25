"""The command line in a process of its own."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

import forked_command
from paths import ROOT, SUPPORT
from programs import run_program, with_code

TIMEOUT_S = 600.0


def command(
    *arguments: str, cwd: Path, code: int | None = None, **environ: str
) -> CompletedProcess[str]:
    """Output and exit code, `code` if given, of `python -m xla_sweeps` with these arguments.

    It is forked from a process that has imported the command line: that saves a second.
    """
    done = forked("command", *arguments, cwd=cwd, environment=_environment(cwd, environ))
    return with_code(done, code)


def fresh_command(
    *arguments: str, cwd: Path, code: int | None = None, **environ: str
) -> CompletedProcess[str]:
    """The same where Python starts, as it does for a person."""
    words = (sys.executable, "-m", "xla_sweeps", *arguments)
    return run_program(*words, cwd=cwd, env=_environment(cwd, environ), code=code)


def _environment(cwd: Path, more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(cwd), "COLUMNS": "120", **more}


def forked(
    program: str,
    *arguments: str,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    more: Mapping[str, str] = {},
) -> CompletedProcess[str]:
    """Output and exit code of a forked process; `program` as in `forked_command.py`.

    Its variables are those of this process, or `environment`, and `more`.
    """
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / name for name in ("stdout", "stderr")]
        process = _fork(program, arguments, cwd, environment, more, outputs)
        process.join(TIMEOUT_S)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"{program} {arguments} does not end")
        encoding = {**(environment or {}), **more}.get("PYTHONIOENCODING", "utf-8")
        texts = (path.read_bytes().decode(encoding, "replace") for path in outputs)
        said, complained = (text.replace("\r\n", "\n") for text in texts)
    return CompletedProcess([program, *arguments], process.exitcode, said, complained)


class Running:
    """A forked process that still runs, with the arguments of `forked` and methods of `Popen`.

    Attributes:
        stdout: its output and its errors.
    """

    def __init__(
        self,
        program: str,
        *arguments: str,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        more: Mapping[str, str] = {},
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            pipe = Path(folder) / "output"
            os.mkfifo(pipe)
            self._process = _fork(program, arguments, cwd, environment, more, [pipe])
            self.stdout = pipe.open(encoding="utf-8")
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the signal that ended it."""
        return self._process.exitcode

    def communicate(self, timeout: float = TIMEOUT_S) -> tuple[str, None]:
        """The rest of its output, once it has ended."""
        said = "" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self._process.join(timeout)
        return said, None

    def finish(self, code: int = 0, timeout: float = TIMEOUT_S) -> str:
        """The same of one that must end with this exit code."""
        said, _ = self.communicate(timeout)
        assert self.returncode == code, said
        return said

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def _fork(
    program: str,
    arguments: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str] | None,
    more: Mapping[str, str],
    outputs: Sequence[Path],
) -> ForkServerProcess:
    usual = {**os.environ, "PYTHONPATH": str(ROOT)} if environment is None else environment
    process = _server().Process(
        target=forked_command.run,
        args=(program, str(cwd), {**usual, **more}, list(map(str, outputs)), arguments),
    )
    process.start()
    return process


@functools.cache
def _server() -> ForkServerContext:
    """Starts the process that forks them, which lives as long as this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["forked_command"])
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    paths = os.pathsep.join([str(ROOT), str(SUPPORT)])
    with mock.patch.dict(os.environ, {**kept, "PYTHONPATH": paths}, clear=True):
        forkserver.ensure_running()
    return context


def in_terminal(*arguments: str, cwd: Path, columns: int) -> list[str]:
    """The lines that the command line writes to a real terminal of this width."""
    parent, child = os.openpty()
    termios.tcsetwinsize(child, (50, columns))
    process = subprocess.Popen(
        [sys.executable, "-m", "xla_sweeps", *arguments],
        cwd=cwd,
        stdin=child,
        stdout=child,
        stderr=child,
        env={
            **{name: value for name, value in os.environ.items() if name != "COLUMNS"},
            "PYTHONPATH": str(ROOT),
            "TERM": "dumb",
            "NO_COLOR": "1",
        },
    )
    os.close(child)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody writes to it any more
        while part := os.read(parent, 65536):
            shown += part
    os.close(parent)
    assert process.wait(timeout=300) == 0
    return shown.decode().replace("\r", "").splitlines()


def own_model(folder: Path, name: str = "tiny") -> Path:
    """A folder for `--config-dir` with one small model that the catalog does not have."""
    path = folder / "own" / "model" / f"{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"name: {name}\nfamily: MobileNetV2\nvariant: MobileNetV2 0.35\ntask: classification\n"
        "resolution: 96\nmin_resolution: 32\n"
        "sources: {applications: {constructor: MobileNetV2, arguments: {alpha: 0.35}}}\n"
    )
    return folder / "own"
