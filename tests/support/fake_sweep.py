"""The real command line, whose sweeps start trials with a scripted measuring process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import scripted

from xla_sweeps.__main__ import main
from xla_sweeps.sweep.launchers.local import LocalLauncher
from xla_sweeps.sweep.launchers.slurm import SlurmLauncher


def use_scripts() -> None:
    """Have this process's sweeps start such trials."""
    here = Path(__file__)
    parent = (sys.executable, str(here.with_name("fake_parent.py")), "")
    scripted.use(scripted.scripted(parent=parent))
    parents = {"trials": (sys.executable, str(here.with_name("fake_trials.py")))}
    for launcher, more in ((LocalLauncher, parents), (SlurmLauncher, {})):
        defaults = launcher.__init__.__kwdefaults__
        assert defaults is not None
        defaults.update(command=(sys.executable, str(here.with_name("fake_trial.py"))), **more)
    os.environ["XLA_SWEEPS_FAKE_WORKER"] = os.environ.get("FAKE_WORKER", "")


if __name__ == "__main__":
    use_scripts()
    main()
