"""Which worker of pytest-xdist runs which tests, and which begin first.

A file stays with one worker, so that its fixtures are made once; a browser likewise, over all
files. What takes longest begins first, so that no worker ends long after the others.
"""

from __future__ import annotations

import pytest
from browser import NAMES
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

LONGEST = (
    "tests/end_to_end/test_trial.py",
    *NAMES,
    "tests/sweep/launchers/test_wandb_agents.py",
    "tests/cli/test_sweep.py",
    "tests/sweep/launchers/test_slurm.py",
    "tests/tf/test_models.py",
    "tests/sweep/launchers/test_ray.py",
    "tests/end_to_end/test_faults.py",
    "tests/report/wandb/test_tracker.py",
    "tests/report/wandb_report/test_publish.py",
    "tests/report/wandb_report/test_publish_faults.py",
    "tests/sweep/test_driver.py",
    "tests/end_to_end/test_sweep_robustness.py",
    "tests/tf/test_sources.py",
    "tests/end_to_end/test_command.py",
)
"""Groups of a minute and more, the longest first."""


def group_of(nodeid: str) -> str:
    """The tests that stay together with this one: a browser's, or a file's."""
    path, _, name = nodeid.partition("::")
    _, _, parameters = name.partition("[")
    return next((browser for browser in NAMES if browser in parameters.split("-")), path)


def place_of(item: pytest.Item) -> int:
    """When a test's group begins, for sorting."""
    group = group_of(item.nodeid)
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


class ByGroup(LoadScopeScheduling):
    """Gives a worker a whole group at a time, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
