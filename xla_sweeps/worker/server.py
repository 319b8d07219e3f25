"""Serve a worker's parent: read requests from standard input, send events and replies.

Messages have a descriptor of their own; standard output and error go to the replicate's log.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

from xla_sweeps.schema.measurement import Phase
from xla_sweeps.system.process import die_with_parent
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import CHANNEL_LOST_CODE, error_text
from xla_sweeps.worker.lines import users_line

_CLOCKS = {name: getattr(time, name) for name in vars(time) if name.startswith(("perf", "mono"))}
"""Clocks before a model's code is loaded, which may replace them."""


class Channel:
    """The connection to the parent, outwards."""

    def __init__(self, descriptor: int) -> None:
        self._out = os.fdopen(descriptor, "wb", buffering=0)
        self.stage = protocol.Stage(phase=Phase.IMPORT)

    def send(self, message: protocol.Message) -> None:
        """Send one message; without a parent, this process ends.

        Raises:
            msgspec.ValidationError: it holds what the parent would not take for a message.
        """
        if isinstance(message, protocol.Stage):
            self.stage = message
            sys.audit(f"xla_sweeps.worker.{message.phase}")
        elif isinstance(message, protocol.Timed):
            sys.audit("xla_sweeps.worker.block")
        elif isinstance(message, protocol.Finished):
            sys.audit("xla_sweeps.worker.finished")
        vars(time).update(_CLOCKS)
        content = protocol.encode(message)
        protocol.MESSAGES.decode(content)
        try:
            self._out.write(content)
        except OSError:  # the parent is gone, or the model's code closed the descriptor
            traceback.print_exc()
            end(CHANNEL_LOST_CODE)


MakeAnswer = Callable[[Channel], Callable[[protocol.Request], protocol.Reply]]
"""Makes what answers requests, in order; the framework is loaded in the first one."""


def main(make_answer: MakeAnswer) -> NoReturn:
    """Serve the parent of a process that was started for it, then end; see `serve`."""
    parent, descriptor = map(int, sys.argv[1:])
    del sys.argv[1:]  # a model's code may read them where it is imported
    die_with_parent(parent)
    end(serve(descriptor, make_answer))


def serve(descriptor: int, make_answer: MakeAnswer) -> int:
    """Answer requests until the parent has no more; returns the exit code.

    It is 0 even if modes failed. A first request that fails ends the process.
    """
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    channel, ready = Channel(descriptor), False
    answer = make_answer(channel)
    while line := sys.stdin.buffer.readline():
        request = protocol.REQUESTS.decode(line)
        try:
            channel.send(answer(request))
        except BaseException as error:  # also sys.exit() in the model's code
            phase, kind = channel.stage.phase, type(error).__name__
            text, place = error_text(error), users_line(error)
            with contextlib.suppress(BaseException):
                traceback.print_exc()
            channel.send(protocol.Failed(phase=phase, kind=kind, text=text, line=place))
            if not ready:
                return 1
        ready = True
    return 0


def end(code: int) -> NoReturn:
    """End this process: the libraries' exit hooks have nothing to save, and some hang."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
