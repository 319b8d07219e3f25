"""Distribution of tests among pytest-xdist's workers, and their order.

A file stays with one worker, so that its fixtures are made once; a browser likewise, over all
files. The tests of some files share nothing, and go to whichever worker is free. What takes longest
begins first, and short tests that share nothing end the run, so that no worker ends long after the
others.
"""

from __future__ import annotations

import pytest
from browser import NAMES
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

LONGEST = (
    *NAMES,
    "tests/backends/test_engines.py",
    "tests/backends/test_accelerator.py",
    "tests/sweeps/launchers/test_ray.py",
    "tests/cli/test_sweep.py",
    "tests/sweeps/launchers/test_slurm.py",
    "tests/backends/tensorflow/test_sources.py",
    "tests/backends/tensorflow/test_training.py",
    "tests/backends/tensorflow/test_brought_models.py",
    "tests/sweeps/launchers/test_wandb_agents.py",
    "tests/report/wandb_report/test_publish.py",
    "tests/report/wandb/test_tracker.py",
    "tests/report/wandb/test_push.py",
    "tests/end_to_end/test_training.py",
    "tests/sweeps/test_driver.py",
    "tests/trial/test_conductor.py",
    "tests/end_to_end/test_endings.py",
    "tests/api/test_shipping.py",
    "tests/api/test_functions.py",
    "tests/end_to_end/test_trial.py",
    "tests/end_to_end/test_faults.py",
    "tests/backends/tensorflow/test_bench.py",
    "tests/config/test_settings.py",
)
"""Files and browsers that take long, or have few long tests, the longest first."""

SINGLE = (
    "tests/backends/tensorflow/test_models.py",
    "tests/cli/test_sweep.py",
    "tests/end_to_end/test_trial.py",
    "tests/sweeps/launchers/test_wandb_agents.py",
)
"""Their tests share nothing: any worker runs any of them; at the end where it is not `LONGEST`."""


def group_of(nodeid: str) -> str:
    """The tests that stay together with this one: a browser's, or a file's."""
    path, _, name = nodeid.partition("::")
    _, _, parameters = name.partition("[")
    alone = nodeid if path in SINGLE else path
    return next(
        (browser for browser in NAMES if browser in parameters.removesuffix("]").split("-")), alone
    )


def place_of(item: pytest.Item) -> int:
    """Place of a test's group in the order, for sorting."""
    group, path = group_of(item.nodeid), item.nodeid.partition("::")[0]
    for name in (group, path):
        if name in LONGEST:
            return LONGEST.index(name)
    return len(LONGEST) + (path in SINGLE)


class ByGroup(LoadScopeScheduling):
    """Gives a worker a whole group at a time, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
