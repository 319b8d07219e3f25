"""Wait for what ends or stops a little later than it was asked to."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path


def freeze(child: int) -> None:
    """Stop a child of this process, and wait until it has stopped."""
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)


def join(thread: threading.Thread) -> None:
    """Wait for a thread, until the system has ended it too, which is a little later."""
    thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        time.sleep(0.01)
