"""Programs that are run until they end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess


def run_program(
    *words: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    more: Mapping[str, str] = {},
    code: int | None = 0,
    limit_s: float = 600.0,
) -> CompletedProcess[str]:
    """Output, errors and exit code of a program.

    Args:
        words: its path and its arguments.
        cwd: where it runs, if not here.
        env: its variables, by default those of this process.
        more: further ones.
        code: with which it must end; None for any.
        limit_s: after which it is killed.

    Raises:
        AssertionError: it ends with another code.
    """
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env={**(os.environ if env is None else env), **more},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return with_code(done, code)


def with_code(done: CompletedProcess[str], code: int | None) -> CompletedProcess[str]:
    """The same, which must have this exit code, if one is given."""
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done
