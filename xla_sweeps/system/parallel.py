"""Call a function on the parts of a long list, in several processes where that is faster.

A process imports the function's module, and nothing of the program that asks: multiprocessing would
run a script without a main guard once more in each.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import queue
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from xla_sweeps.system.devices import usable_cores
from xla_sweeps.system.process import die_with_parent, python_command

PART = 25
"""Items of a part."""

PARTS_OF_PROCESS = 20
"""Parts that a process must have for its start to pay."""

MAX_PROCESSES = 16

_PACKAGE = str(Path(__file__).parents[1])

_LENGTH_BYTES = 8

Result = TypeVar("Result", bound=msgspec.Struct)


class _Request(msgspec.Struct):
    """A function, as `module:name`, of the package in a folder, and its arguments."""

    package: str
    function: str
    folder: str
    items: Sequence[str]


def in_parts(
    function: Callable[[str, Sequence[str]], Result],
    folder: str,
    items: Sequence[str],
    result_type: type[Result],
) -> Generator[tuple[int, Result], None, None]:
    """Number of items that are done and the result of a part, part by part in their order.

    A process that cannot be started, or fails, costs time only: its part is done in this one, for
    the second time perhaps.
    """
    parts = [items[first : first + PART] for first in range(0, len(items), PART)]
    count = min(usable_cores(), len(parts) // PARTS_OF_PROCESS, MAX_PROCESSES)
    call = partial(function, folder)
    with ExitStack() as stack:
        results: Iterator[Result] = map(call, parts)
        if count > 1:
            name = f"{function.__module__}:{function.__qualname__}"
            processes = stack.enter_context(_Processes(count, name, folder, result_type))
            pool = stack.enter_context(ThreadPoolExecutor(count))
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            stack.callback(processes.kill)
            results = pool.map(lambda part: processes.answer(part) or call(part), parts)
        done = 0
        for part, result in zip(parts, results, strict=True):
            done += len(part)
            yield done, result


class _Processes(AbstractContextManager["_Processes"]):
    """Processes that answer for whichever part comes first."""

    def __init__(self, count: int, function: str, folder: str, result_type: type[Any]) -> None:
        self._function, self._folder = function, folder
        self._decoder = msgspec.msgpack.Decoder(result_type)
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
                    process_group=0,  # an interrupt is for the asker, which ends it
                )
                self._started.append(process)
            self._idle.put(process)

    def __exit__(self, *ended: object) -> None:
        for process in self._started:
            with contextlib.suppress(OSError), process:  # closing its input may fail to flush
                pass

    def kill(self) -> None:
        """End the processes, and the calls that wait for them."""
        self._killed = True
        for process in self._started:
            process.kill()

    def answer(self, part: Sequence[str]) -> Any:
        """The result for a part by the first idle process; None if it is gone or fails."""
        process, result = self._idle.get(), None
        try:
            if process and process.stdin and process.stdout:
                request = _Request(_PACKAGE, self._function, self._folder, part)
                line = msgspec.json.encode(request)
                process.stdin.write(line + b"\n")
                process.stdin.flush()
                size = int.from_bytes(process.stdout.read(_LENGTH_BYTES))
                result = self._decoder.decode(process.stdout.read(size))
        except (OSError, msgspec.DecodeError):
            process = None
        except UnicodeEncodeError:  # the name of a file; the process has not been asked
            pass
        finally:
            self._idle.put(process)
        if self._killed:
            raise InterruptedError("nobody waits for the results any more")
        return result


def main() -> None:
    """Answer requests until there are no more, or one cannot be answered."""
    die_with_parent(os.getppid())
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # print() goes to standard error
        for line in sys.stdin.buffer:
            request = msgspec.json.decode(line, type=_Request)
            if request.package != _PACKAGE:  # another one is installed
                return
            function = pkgutil.resolve_name(request.function)
            answer = msgspec.msgpack.encode(function(request.folder, request.items))
            answers.write(len(answer).to_bytes(_LENGTH_BYTES) + answer)
            answers.flush()


if __name__ == "__main__":
    main()
