"""The tests are green whatever a user's or a site's environment sets, and whatever is ignored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from paths import ROOT
from site_settings import clean

from xla_sweeps.schema.backend import backends
from xla_sweeps.system import environment

SITE = {
    "COLUMNS": "40",
    "CUDA_VISIBLE_DEVICES": "0",
    "JAX_ENABLE_X64": "1",
    "KERAS_BACKEND": "jax",
    "LC_ALL": "C",
    "MKL_NUM_THREADS": "2",
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "2",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_L2_SIZE": "512",
    "PYTHONIOENCODING": "ascii",
    "TF_NUM_INTRAOP_THREADS": "2",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "WANDB_MODE": "disabled",
    "XLA_FLAGS": "--xla_cpu_enable_fast_math=false",
}

AFFECTED = (
    "tests/end_to_end/test_command.py::test_every_kind_of_row_is_measured_again_by_its_command",
    "tests/end_to_end/test_command.py::test_a_trial_that_was_kept_from_the_gpus_says_so",
    "tests/api/test_functions.py::test_a_second_interrupt_ends_a_command_that_does_not_end",
)


def ignore(numbers: tuple[signal.Signals, ...]) -> None:
    """As `nohup` and a shell's background do."""
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


@pytest.mark.exhaustive
def test_tests_pass_in_a_site_s_environment_with_signals_ignored() -> None:
    ignored = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *AFFECTED],
        cwd=ROOT,
        env={**os.environ, **SITE},
        preexec_fn=partial(ignore, ignored),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout


def test_nothing_that_changes_a_trial_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in backends():
        for prefix in backend.prefixes:
            monkeypatch.setenv(f"{prefix}_ANYTHING", "1")
    for name, value in {**SITE, "ONEDNN_VERBOSE": "1", "GOMP_SPINCOUNT": "1"}.items():
        monkeypatch.setenv(name, value)
    left = dict(os.environ)
    clean(left)
    for name in set(os.environ) - set(left):
        monkeypatch.delenv(name)
    assert set(environment.environment()["flags"]) <= {
        "TF_ENABLE_ONEDNN_OPTS",
        "ONEDNN_MAX_CPU_ISA",
    }
