"""Reports of all tests here: on a busy machine each step takes long."""

from __future__ import annotations

import pytest

from xla_sweeps.report.wandb_report import publish


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long for what comes in the end."""
    for name in ("SPEC_S", "STEP_S"):
        monkeypatch.setattr(publish, name, 300.0)
