"""A Slurm cluster on this machine, as a fixture."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from paths import SUPPORT
from programs import run_program

CLUSTER = str(SUPPORT / "slurm_cluster.sh")

SLURMCTLD = shutil.which("slurmctld", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")

needs_slurm = pytest.mark.skipif(
    not SLURMCTLD or os.geteuid() != 0,
    reason="no slurmctld here, or not root: `tests/support/slurm_cluster.sh install` on Debian",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A running cluster; the clients find it by SLURM_CONF."""
    folder = tmp_path_factory.mktemp("slurm")
    port = 17000 + os.getpid() % 900 * 3
    environ = {
        "SLURM_SIM": str(folder),
        "SLURM_SIM_PORT": str(port),
        "SLURM_CONF": str(folder / "etc" / "slurm.conf"),
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
    }
    before = {name: os.environ.get(name) for name in environ}
    os.environ.update(environ)
    try:
        run_program(CLUSTER, "start", limit_s=300)
        yield
    finally:
        run_program(CLUSTER, "stop", code=None, limit_s=300)
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
