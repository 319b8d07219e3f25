"""Call a function on the parts of much work, in several processes where that is faster.

A process imports the function's module, and nothing of the program that asks: multiprocessing would
run a script without a main guard once more in each.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any, TypeVar

import msgspec

from xla_sweeps.system.devices import usable_cores
from xla_sweeps.system.process import die_with_parent, python_command

PART = 100
"""Items of a part."""

PARTS_OF_PROCESS = 5
"""Parts that a process must have for its start to pay."""

MOST = 16
"""The most processes."""

_LENGTH_BYTES = 8

Result = TypeVar("Result", bound=msgspec.Struct)


class _Request(msgspec.Struct):
    """A function of a module, as `module:name`, and its arguments."""

    function: str
    folder: str
    items: Sequence[str]


def in_parts(
    function: Callable[[str, Sequence[str]], Result],
    folder: str,
    items: Sequence[str],
    kind: type[Result],
) -> Iterator[tuple[int, Result]]:
    """Number of items that are done and the result of a part, part by part in their order.

    A process that cannot be started, or fails, costs time only: its part is done in this one.
    """
    parts = [items[first : first + PART] for first in range(0, len(items), PART)]
    count = min(usable_cores(), len(parts) // PARTS_OF_PROCESS, MOST)
    call = partial(function, folder)
    with ExitStack() as stack:
        results: Iterator[Result] = map(call, parts)
        if count > 1:
            name = f"{function.__module__}:{function.__qualname__}"
            processes = stack.enter_context(_Processes(count, name, folder, kind))
            pool = stack.enter_context(ThreadPoolExecutor(count))
            stack.callback(processes.kill)
            results = pool.map(lambda part: processes.answer(part) or call(part), parts)
        done = 0
        for part, result in zip(parts, results, strict=True):
            done += len(part)
            yield done, result


class _Processes(AbstractContextManager["_Processes"]):
    """Processes that answer for whichever part comes first."""

    def __init__(self, count: int, function: str, folder: str, kind: type[Any]) -> None:
        self._function, self._folder = function, folder
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._killed = False
        self._started: list[subprocess.Popen[bytes]] = []
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes] | None] = queue.SimpleQueue()
        for _ in range(count):
            process = None
            with contextlib.suppress(OSError):
                process = subprocess.Popen(
                    python_command(__name__),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                self._started.append(process)
            self._idle.put(process)

    def __exit__(self, *ended: object) -> None:
        for process in self._started:
            with contextlib.suppress(OSError), process:  # what it was asked last may be unsent
                pass

    def kill(self) -> None:
        """End the processes, and the calls that wait for them."""
        self._killed = True
        for process in self._started:
            process.kill()

    def answer(self, part: Sequence[str]) -> Any:
        """The result for a part by the first idle process; None if it is gone or fails."""
        process = self._idle.get()
        try:
            if process and process.stdin and process.stdout:
                request = _Request(self._function, self._folder, part)
                process.stdin.write(msgspec.json.encode(request) + b"\n")
                process.stdin.flush()
                size = int.from_bytes(process.stdout.read(_LENGTH_BYTES))
                return self._decoder.decode(process.stdout.read(size))
        except (OSError, msgspec.DecodeError):
            process = None
            if self._killed:
                raise
        finally:
            self._idle.put(process)
        return None


def main() -> None:
    """Answer requests until there are no more, or one fails."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the asker hears it too, and ends this process
    die_with_parent(os.getppid())
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what prints
        for line in sys.stdin.buffer:
            request = msgspec.json.decode(line, type=_Request)
            function = pkgutil.resolve_name(request.function)
            answer = msgspec.msgpack.encode(function(request.folder, request.items))
            answers.write(len(answer).to_bytes(_LENGTH_BYTES) + answer)
            answers.flush()


if __name__ == "__main__":
    main()
