"""The command line in the test's own process, for commands that only read files and write text."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from programs import with_code

from xla_sweeps.cli.main import run


def command(
    *arguments: str, cwd: Path, code: int | None = None, **environ: str
) -> CompletedProcess[str]:
    """Output and exit code, `code` if given, of the command line with these arguments."""
    outputs = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2)]
    settings = {"HOME": str(cwd), "COLUMNS": "120", **environ}
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, settings),
        contextlib.redirect_stdout(outputs[0]),
        contextlib.redirect_stderr(outputs[1]),
    ):
        try:
            got = run(arguments)
        except SystemExit as leaving:
            got = int(leaving.code or 0)
    texts = []
    for output in outputs:
        output.seek(0)
        texts.append(output.read().replace("\r\n", "\n"))
    return with_code(CompletedProcess(arguments, got, *texts), code)
