"""The real command line with a scripted measuring process in place of TensorFlow.

Started as `python fake_trial.py key=value ...`; the script's steps are in $FAKE_WORKER (see
fake_worker.py), and beside them `contaminated`, `busy`, and `impatient`: it waits 3 s, not 20, for
W&B's server.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import scripted

from xla_sweeps.__main__ import main
from xla_sweeps.trial import monitor, recording, runner, workers
from xla_sweeps.trial.tracking import RunHeader


def acknowledge(save: Callable[..., Any], path: str, *given: Any, **named: Any) -> Any:
    """Save a record, and then note that it is."""
    stored = save(*given, **named)
    with Path(path).open("a") as notes:
        notes.write(f"{stored[0].trial_id} {stored[0].replicate} {stored[0].started_at}\n")
    return stored


def take_no_notice(cause: str = "") -> None:
    """Have this process's records contaminated by this cause alone, whatever runs beside it.

    Without one, no later replicate waits for quiet.
    """
    monitor.contamination = lambda samples, *, cores: cause
    workers.CLOCK_SLACK_S = math.inf


def use_script() -> None:
    """Have this process's trials follow the script."""
    script = os.environ.get("FAKE_WORKER", "").split()
    if "busy" in script:
        monitor.FOREIGN_CORES = monitor.FOREIGN_SHARE = -math.inf
    else:
        take_no_notice("as the script says" if "contaminated" in script else "")
        monitor.WAIT_LIMIT_S = 0.1  # it will not become quiet
    if ack := os.environ.get("ACK"):
        recording.save = partial(acknowledge, recording.save, ack)
        vars(runner)["save"] = recording.save
    if "impatient" in script:
        defaults = RunHeader.__init__.__kwdefaults__
        assert defaults is not None
        defaults["connect_timeout_s"] = 3.0
    scripted.use(scripted.scripted(*script))


if __name__ == "__main__":
    use_script()
    main()
