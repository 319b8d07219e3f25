"""Entry point of the measuring process: reads a job from standard input and sends events.

Events have a file descriptor of their own; standard output and error belong to the libraries and
go to the replicate's log.
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

import msgspec

from xla_sweeps.measure import protocol
from xla_sweeps.measure.failures import CHANNEL_LOST_CODE, error_text
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system.faults import fault_point
from xla_sweeps.system.process import die_with_parent


class Channel:
    """The connection to the parent: events out, reviews in."""

    def __init__(self, descriptor: int) -> None:
        self._out = os.fdopen(descriptor, "wb", buffering=0)
        self._answers = sys.stdin.buffer
        self.stage = protocol.Stage(phase=Phase.IMPORT)

    def send(self, event: protocol.Event) -> None:
        """Send one event; without a parent, this process ends."""
        if isinstance(event, protocol.Stage):
            self.stage = event
            fault_point(f"worker.{event.phase}")
        elif isinstance(event, protocol.Square | protocol.Finished):
            fault_point(f"worker.{type(event).__name__.lower()}")
        try:
            self._out.write(protocol.encode(event))
        except OSError:  # the parent is gone, or the model's code closed the descriptor
            traceback.print_exc()
            end(CHANNEL_LOST_CODE)

    def wait_for_turn(self) -> None:
        """Return once this process may time something."""
        self.send(protocol.Turn())
        self._answer()

    def report(self, progress: protocol.Progressed) -> None:
        """Send the progress and wait until it is shown."""
        self.send(progress)
        self._answer()

    def review(self, square: protocol.Square) -> protocol.Review:
        """Send a square's rounds and wait for their review."""
        self.send(square)
        return self._answer()

    def _answer(self) -> protocol.Review:
        line = self._answers.readline()
        if not line:
            end(CHANNEL_LOST_CODE)
        return msgspec.json.decode(line, type=protocol.Review)


def measure(job: ReplicateJob, channel: Channel) -> None:
    """Measure one replicate; TensorFlow loads here, after the stage is announced."""
    began = time.perf_counter()
    from xla_sweeps.tf import replicate

    replicate.measure(job, channel, import_s=time.perf_counter() - began)


def main(work: Callable[[ReplicateJob, Channel], None] = measure) -> int:
    """Do the job of a process that was started for it; see `run`."""
    parent, descriptor = int(sys.argv[1]), int(sys.argv[2])
    die_with_parent(parent)
    return run(descriptor, work)


def run(descriptor: int, work: Callable[[ReplicateJob, Channel], None] = measure) -> int:
    """Do the job; the exit code is 0 even if modes failed, which the events report.

    Args:
        descriptor: of the channel of events.
        work: what to do with the job.
    """
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    channel = Channel(descriptor)
    try:
        job = msgspec.json.decode(sys.stdin.buffer.readline(), type=ReplicateJob)
        channel.send(protocol.Stage(phase=Phase.IMPORT))
        work(job, channel)
    except BaseException as error:  # also sys.exit() in the model's code
        text = error_text(error)
        channel.send(
            protocol.Failed(
                phase=channel.stage.phase, mode="", kind=type(error).__name__, text=text
            )
        )
        with contextlib.suppress(BaseException):
            traceback.print_exc()
        return 1
    return 0


def end(code: int) -> NoReturn:
    """End this process: the libraries' exit hooks have nothing to save, and some hang."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    end(main())
