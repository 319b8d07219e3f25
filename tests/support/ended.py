"""Wait for what ends a little later than it says."""

from __future__ import annotations

import threading
import time
from pathlib import Path


def join(thread: threading.Thread) -> None:
    """Wait for a thread, until the system has ended it too, which is a little later."""
    thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        time.sleep(0.01)
