"""Distribution of tests among pytest-xdist's workers, and their order.

A file stays with one worker, so that its fixtures are made once; a browser likewise, over all
files. What takes longest begins first, and short tests that share nothing end the run, so that no
worker ends long after the others.
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
    "tests/sweep/launchers/test_ray.py",
    "tests/end_to_end/test_faults.py",
    "tests/report/wandb/test_tracker.py",
    "tests/report/wandb_report/test_publish.py",
    "tests/report/wandb_report/test_publish_faults.py",
    "tests/sweep/test_driver.py",
    "tests/end_to_end/test_sweep_robustness.py",
    "tests/backends/tensorflow/test_sources.py",
    "tests/end_to_end/test_command.py",
    "tests/backends/tensorflow/test_replicate.py",
    "tests/end_to_end/test_wandb_agent.py",
    "tests/backends/tensorflow/test_bench.py",
    "tests/backends/tensorflow/test_flags.py",
)
"""Groups that take long, or have few long tests, the longest first."""

SINGLE = "tests/backends/tensorflow/test_models.py"
"""Its tests share nothing: any worker runs any of them, at the end."""


def group_of(nodeid: str) -> str:
    """The tests that stay together with this one: a browser's, or a file's."""
    path, _, name = nodeid.partition("::")
    _, _, parameters = name.partition("[")
    alone = nodeid if path == SINGLE else path
    return next(
        (browser for browser in NAMES if browser in parameters.removesuffix("]").split("-")), alone
    )


def place_of(item: pytest.Item) -> int:
    """Place of a test's group in the order, for sorting."""
    group = group_of(item.nodeid)
    if group in LONGEST:
        return LONGEST.index(group)
    return len(LONGEST) + group.startswith(SINGLE)


class ByGroup(LoadScopeScheduling):
    """Gives a worker a whole group at a time, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
