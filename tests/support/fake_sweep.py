"""The real command line, whose sweeps start trials with a scripted measuring process."""

from __future__ import annotations

import sys
from pathlib import Path

import scripted

from xla_sweeps.__main__ import main
from xla_sweeps.sweeps.launchers import LauncherRequest

TRIAL = (sys.executable, str(Path(__file__).with_name("fake_trial.py")))


def use_scripts(*trial: str) -> None:
    """Have this process's sweeps start such trials, by another command if one is given."""
    scripted.use(scripted.scripted())
    defaults = LauncherRequest.__init__.__kwdefaults__
    assert defaults is not None
    defaults["command"] = trial or TRIAL


if __name__ == "__main__":
    use_scripts()
    main()
