"""Wait until the device is this trial's own and quiet; no deadline runs meanwhile."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from xla_sweeps.trial.monitor import Sampler
from xla_sweeps.trial.replicate import WAITING, Setting

WAIT_SAY_S = 10.0  # between two reports of what disturbs


@dataclass
class QuietWait:
    """The waits of one replicate."""

    setting: Setting
    watcher: Sampler
    device: str
    replicate: int
    waited_s: float = 0.0
    began: float = math.inf
    said: float = -math.inf

    def wait(self) -> bool:
        """Wait for the turn; False where a stop was requested."""
        setting = self.setting
        if not setting.leases.wait(setting.stop, self._say_holder, also=self._is_quiet):
            return False
        if self.watcher.gpu:
            self.watcher.gpu.begin()
        return True

    def _say_holder(self, holder: str) -> None:
        self.setting.screen.warn(WAITING.format(device=self.device, holder=holder))

    def _is_quiet(self) -> bool:
        """True once nothing disturbs any more, or after a while; to be asked twice a second."""
        now, limit_s = time.monotonic(), self.setting.quiet_s
        self.began = min(now, self.began)
        self.waited_s = min(now - self.began, limit_s)
        left_s = limit_s - self.waited_s
        cause = self.watcher.disturbance() if left_s > 0 else ""
        if cause and now >= self.said + WAIT_SAY_S:
            self.said = now
            detail = f"for quiet: {cause}, at most {left_s:.0f} s"
            self.setting.screen.stage(self.replicate, "wait", None, detail)
        return not cause
