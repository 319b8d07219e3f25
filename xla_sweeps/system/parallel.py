"""Call a function on the parts of a long list, in several processes where that is faster.

A process imports the function's module, and nothing of the program that asks: multiprocessing would
run a script without a main guard once more in each.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TypeVar, cast

import msgspec

from xla_sweeps.system.devices import usable_cores
from xla_sweeps.system.process import die_with_parent, python_command

PART = 100
"""Items of a part."""

PARTS_OF_PROCESS = 5
"""Parts that a process must have for its start to pay."""

MAX_PROCESSES = 16

_PACKAGE = str(Path(__file__).parents[1])

_LENGTH_BYTES = 8

Result = TypeVar("Result", bound=msgspec.Struct)


class _Request(msgspec.Struct):
    """A function, as `module:name`, of the package in a folder, and what it is called with."""

    package: str
    function: str
    folder: str
    parts: Sequence[Sequence[str]]


def in_parts(
    function: Callable[[str, Sequence[str]], Result],
    folder: str,
    items: Sequence[str],
    result_type: type[Result],
) -> Generator[tuple[int, Result], None, None]:
    """Number of items that are done and the result of a part, part by part in their order.

    Parts are dealt out to the processes in turn. One that cannot be started, or fails, costs time
    only: its parts are done in this one, one of them for the second time perhaps.
    """
    parts = [items[first : first + PART] for first in range(0, len(items), PART)]
    count = max(1, min(usable_cores(), len(parts) // PARTS_OF_PROCESS, MAX_PROCESSES))
    name = f"{function.__module__}:{function.__qualname__}"
    with ExitStack() as stack:
        started = [_start(stack) for _ in range(count)] if count > 1 else [None]
        for place, process in enumerate(started):
            _ask(process, _Request(_PACKAGE, name, folder, parts[place::count]))
        done = 0
        for place, part in enumerate(parts):
            result = _answer(started[place % count], result_type)
            done += len(part)
            yield done, result or function(folder, part)


def _start(stack: ExitStack) -> subprocess.Popen[bytes] | None:
    """A process that ends with the stack; None where none can be started."""
    with contextlib.suppress(OSError):
        process = subprocess.Popen(
            python_command(__name__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0,  # an interrupt is for this process, which ends the other
        )
        stack.enter_context(process)
        stack.callback(process.kill)
        return process
    return None


def _ask(process: subprocess.Popen[bytes] | None, request: _Request) -> None:
    """Send a request, unless the process is gone or a name of a file is no text."""
    if process:
        with (
            contextlib.suppress(OSError, UnicodeEncodeError),
            cast(IO[bytes], process.stdin) as ask,
        ):
            ask.write(msgspec.json.encode(request))


def _answer(process: subprocess.Popen[bytes] | None, result_type: type[Result]) -> Result | None:
    """The result for its next part; None if the process failed."""
    if process:
        answers = cast(IO[bytes], process.stdout)
        with contextlib.suppress(OSError, msgspec.DecodeError):
            size = int.from_bytes(answers.read(_LENGTH_BYTES))
            return msgspec.msgpack.decode(answers.read(size), type=result_type)
    return None


def main() -> None:
    """Answer a request, part by part."""
    die_with_parent(os.getppid())
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
    if request.package != _PACKAGE:  # another one is installed
        return
    function = pkgutil.resolve_name(request.function)
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # print() goes to standard error
        for part in request.parts:
            answer = msgspec.msgpack.encode(function(request.folder, part))
            answers.write(len(answer).to_bytes(_LENGTH_BYTES) + answer)
            answers.flush()


if __name__ == "__main__":
    main()
