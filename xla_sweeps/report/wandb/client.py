"""Start and use the process that runs the W&B client: send orders, read answers, with timeouts.

Nothing here imports wandb. A failure of that process never raises an exception here.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import queue
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xla_sweeps.system import files
from xla_sweeps.system.process import carries, python_command, signal_process

SCRATCH = "XLA_SWEEPS_SCRATCH"
"""Environment variable that names the helper's folder for temporary and cached files.

It identifies the helper and its descendants, since W&B's own service leaves the process group.
"""

MODULE = "xla_sweeps.report.wandb.client_process"

REPAIR = "`xla-sweeps push` uploads what is missing"

CLOSE_GRACE_S = 4.0
KILLED_S = 1.0
KILL_TRIES = 50
KILL_PAUSE_S = 0.02


class Helper:
    """The helper process, its orders and answers; the client's output goes to `log`.

    A thread writes the orders from a queue, because the pipe to a helper that hangs fills up;
    another thread reads the answers. Both block, and end with the helper.
    """

    def __init__(self, log: Path, *, module: str = MODULE) -> None:
        files.folder_in(log.parent.parent, log.parent.name)
        self._scratch = new_scratch(log.parent)
        environment = {**os.environ, "WANDB_SILENT": "true"}
        names = ("TMPDIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR", SCRATCH)
        environment |= dict.fromkeys(names, str(self._scratch))
        environment.setdefault("WANDB_ERROR_REPORTING", "false")
        # The client must not join the service of a process that may outlive this one.
        environment.pop("WANDB_SERVICE", None)
        read_end, write_end = os.pipe()
        try:
            with os.fdopen(files.own_file(log), "ab") as output:
                self._process = subprocess.Popen(
                    python_command(module, str(os.getpid()), str(write_end)),
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    pass_fds=[write_end],
                    env=environment,
                    cwd=self._scratch,  # the client obeys a file wandb/settings where it starts
                    start_new_session=True,
                )
        except OSError:
            os.close(read_end)
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        finally:
            os.close(write_end)
        self._orders: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._sent = 0
        self._gone = False
        self._threads = [
            threading.Thread(target=work, args=args, daemon=True)
            for work, args in ((self._write, ()), (self._read, (read_end,)))
        ]
        for thread in self._threads:
            thread.start()

    def order(self, name: str, **arguments: Any) -> int:
        """Queue an order and return its number; if the helper is dead, no answer will come."""
        self._sent += 1
        order = {"number": self._sent, "order": name, **arguments}
        text = json.dumps(order, default=str, ensure_ascii=False)
        self._orders.put(text.encode("utf-8", "replace") + b"\n")
        return self._sent

    def answer(self, number: int, timeout_s: float) -> dict[str, Any] | None:
        """The answer to that order, or None if it is late or the helper is dead."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or self._gone, timeout_s)
            return self._answers.pop(number, None)

    def ask(self, name: str, timeout_s: float, **arguments: Any) -> dict[str, Any] | None:
        """Order, and wait for the answer."""
        return self.answer(self.order(name, **arguments), timeout_s)

    def end(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """End the helper and all its descendants, by force after `grace_s` seconds."""
        self._orders.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        kill_users_of(str(self._scratch))
        for wait in (self._process.wait, *(thread.join for thread in self._threads)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                wait(KILLED_S)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            while (line := self._orders.get()) is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as channel:
            for line in channel:
                with contextlib.suppress(ValueError, KeyError), self._changed:
                    answer = json.loads(line)
                    self._answers[answer["number"]] = answer
                    self._changed.notify_all()
        with self._changed:
            self._gone = True
            self._changed.notify_all()


def new_scratch(folder: Path) -> Path:
    """A new folder for a helper's temporary files; those of killed helpers are removed."""
    prefix = f"tmp-{os.uname().nodename}-"
    for left in folder.glob(f"{glob.escape(prefix)}*"):
        owner = left.name.removeprefix(prefix).partition("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(left, ignore_errors=True)
    made = folder.absolute() / f"{prefix}{os.getpid()}-{secrets.token_hex(4)}"
    made.mkdir()
    return made


def kill_users_of(scratch: str, *, spare: Sequence[int] = ()) -> None:
    """Kill every process with that `SCRATCH` in its environment, and wait until all are gone."""
    for _ in range(KILL_TRIES):
        pids = {int(path.name) for path in Path("/proc").glob("[0-9]*")}.difference(spare)
        left = [pid for pid in pids if carries(pid, {SCRATCH: scratch})]  # zombies carry nothing
        if not left:
            return
        for pid in left:
            signal_process(pid, signal.SIGKILL)
        time.sleep(KILL_PAUSE_S)
