"""Run a program of a backend to its end: a process of its own, as it loads the framework."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from xla_sweeps.schema.backend import Backend
from xla_sweeps.system.environment import cpu_environment, require
from xla_sweeps.system.text import last_line_of

LIMIT_S = 300.0
"""Seconds that a program has to answer a question."""


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a program: its exit code, standard output, standard error and time limit.

    The code is negative for a signal, and None if it was killed at its time limit.
    """

    code: int | None
    output: bytes
    log: str
    limit_s: float | None

    @property
    def reason(self) -> str:
        """The reason why it failed: its last words, else its exit code."""
        if self.code is None:
            return f"no answer within {self.limit_s:g} s"
        return last_line_of(self.log) or f"exit code {self.code}"


def run(
    backend: Backend,
    program: str,
    *words: str,
    environment: Mapping[str, str] | None = None,
    limit_s: float | None = LIMIT_S,
) -> Ended:
    """Run one of a backend's programs (`Backend.programs`) with these words, without input.

    By default in the environment of a program on the CPU. It is killed after `limit_s` seconds.

    Raises:
        ConfigError: the backend is not installed.
    """
    require(backend)
    try:
        done = subprocess.run(
            [*backend.command(program), *words],
            env=cpu_environment(backend) if environment is None else environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=limit_s,
        )
        code, output, log = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        code, output, log = None, error.stdout or b"", error.stderr or b""
    return Ended(code, output, log.decode(errors="replace"), limit_s)
