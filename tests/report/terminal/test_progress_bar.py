"""A progress bar."""

from __future__ import annotations

import pytest

from xla_sweeps.report.terminal.progress_bar import Steps


def test_steps_are_a_line_each_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Steps("making", 2) as steps:
        for name in ("one", "two\x1b[31m"):
            steps.begin(name)
            steps.end(name)
        steps.warn("three: no")
    err = capsys.readouterr().err
    assert "making: one" in err
    assert "making: two" in err
    assert "\x1b" not in err
    assert "warning: three: no" in err
