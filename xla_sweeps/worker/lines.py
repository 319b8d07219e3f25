"""Lines of Python that something in a model comes from."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from xla_sweeps.schema.backend import backends

_PACKAGES = tuple(f"{Path(sysconfig.get_path(name)).resolve()}/" for name in ("purelib", "platlib"))

_NOT_USERS = (
    *_PACKAGES,
    f"{Path(sysconfig.get_path('stdlib')).resolve()}/",
    f"{Path(__file__).resolve().parents[1]}/",
)

_FRAMEWORKS = {"", "xla_sweeps", *(name for backend in backends() for name in backend.identity)}


def users_line(error: BaseException) -> str:
    """The innermost line of the user's code that an error passed, as `file:line`, or ""."""
    line = innermost_line(_frames(error))
    file = line.rpartition(":")[0]
    return line if file and Path(file).is_file() else ""


def innermost_line(frames: Sequence[tuple[str, int]], *, frameworks: bool = False) -> str:
    """The innermost line of the user's code as `file:line`, else of the model's library; or "".

    The innermost frame is the last. With `frameworks` a line of Keras or the engine is the last
    resort.
    """
    files = [(_resolve_path(file), line) for file, line in frames if not file.startswith("<")]
    own = [frame for frame in files if not frame[0].startswith(_NOT_USERS)]
    others = [frame for frame in files if _package_of(frame[0]) not in _FRAMEWORKS]
    if frameworks:
        others = others or [frame for frame in files if frame[0].startswith(_PACKAGES)]
    for file, line in (own or others)[-1:]:
        return f"{_short(file)}:{line}"
    return ""


def line_of(error: BaseException) -> str:
    """The innermost line of an error, of the user's code where there is one."""
    return innermost_line(_frames(error), frameworks=True)


def _frames(error: BaseException) -> list[tuple[str, int]]:
    frames = traceback.extract_tb(error.__traceback__)
    return [(frame.filename, frame.lineno or 0) for frame in frames]


def _package_of(file: str) -> str:
    """The installed package that a file is part of, or ""."""
    folder = next(filter(file.startswith, _PACKAGES), file)
    return file.removeprefix(folder).partition("/")[0]


@cache
def _resolve_path(file: str) -> str:
    return str(Path(file).resolve())


def _short(file: str) -> str:
    """A file's path, without the folder that this process runs in or that packages lie in."""
    for folder in (Path(sysconfig.get_path("purelib")), Path.cwd()):
        if Path(file).is_relative_to(folder):
            return str(Path(file).relative_to(folder))
    return file
