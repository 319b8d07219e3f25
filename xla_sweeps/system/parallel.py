"""Call a function on the parts of much work, in several processes where that is faster.

They import what the function needs, and nothing of the program that asks: multiprocessing would run
a script without a main guard once more in each.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

from xla_sweeps.system.devices import usable_cores
from xla_sweeps.system.process import die_with_parent, python_command

PART = 100
"""Items of a part."""

PARTS_OF_PROCESS = 5
"""Parts that a process must have for its start to pay."""

MOST = 16

Result = TypeVar("Result")


def in_parts(
    function: Callable[[Sequence[Any]], Result], items: Sequence[Any]
) -> Iterator[tuple[int, Result]]:
    """Number of items that are done and the result of a part, part by part in their order.

    Function and results are pickled. A process that cannot be started, or dies, costs time only.
    """
    parts = [items[first : first + PART] for first in range(0, len(items), PART)]
    count = min(usable_cores(), len(parts) // PARTS_OF_PROCESS, MOST)
    with ExitStack() as stack:
        call: Callable[[Sequence[Any]], Result] = function
        each: Callable[..., Iterator[Result]] = map
        if count > 1:
            call = processes = stack.enter_context(_Processes(count, function))
            each = stack.enter_context(ThreadPoolExecutor(count)).map
            stack.callback(processes.kill)
        done = 0
        for part, result in zip(parts, each(call, parts), strict=True):
            done += len(part)
            yield done, result


class _Processes(AbstractContextManager["_Processes"]):
    """Calls a function in whichever process is idle; in this one where none is left."""

    def __init__(self, count: int, function: Callable[..., Any]) -> None:
        self._function, self._killed = function, False
        self._started: list[subprocess.Popen[bytes]] = []
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes] | None] = queue.SimpleQueue()
        for _ in range(count):
            process = None
            with contextlib.suppress(OSError):
                command, pipe = python_command(__name__), subprocess.PIPE
                process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
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

    def __call__(self, part: Sequence[Any]) -> Any:
        process = self._idle.get()
        try:
            if process and process.stdin and process.stdout:
                pickle.dump((self._function, part), process.stdin)
                process.stdin.flush()
                error, result = pickle.load(process.stdout)
                if error:
                    raise error
                return result
        except (EOFError, OSError, pickle.UnpicklingError):
            process = None
            if self._killed:
                raise
        finally:
            self._idle.put(process)
        return self._function(part)


def main() -> None:
    """Answer with an error or a result until nothing more is asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the asker hears it too, and ends this process
    die_with_parent(os.getppid())
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what prints
        while True:
            try:
                function, part = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            error = result = None
            try:
                result = function(part)
            except Exception as raised:
                error = raised
            pickle.dump((error, result), answers)
            answers.flush()


if __name__ == "__main__":
    main()
