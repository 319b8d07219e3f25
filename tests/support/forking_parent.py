"""A parent whose forked processes do what the first argument of their order says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from xla_sweeps.system import forking


def work(order: forking.Order, descriptors: Sequence[int]) -> int:
    what, *rest = order.arguments
    if what == "say":
        text = sys.stdin.readline().strip()
        print(f"{text} {rest[0]} {os.getsid(0) == os.getpid()}", flush=True)
        os.write(descriptors[0], b"event")
    elif what == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "raise":
        raise RuntimeError("own words")
    elif what == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        print("hangs", flush=True)
        time.sleep(600)
    return int(rest[0]) if what == "exit" else 0


def unfit(order: forking.Order) -> str:
    if order.arguments[0] == "unfit":
        raise SystemExit("as the test asked for")
    return "as the test asked for" if order.arguments[0] == "refuse" else ""


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "broken":
        sys.exit(1)
    if how == "early":  # its first process gets a SIGTERM before it begins
        early = [signal.SIGTERM]
        os.register_at_fork(
            after_in_child=lambda: list(map(signal.raise_signal, early)),
            after_in_parent=early.clear,
        )
    forking.LOST_S = 0.2
    lost = signal.SIGTERM if how == "asks" else signal.SIGKILL
    forking.serve(forking.inherited(), work, unfit=unfit, lost=lost)
