"""The page of `doctor --full`."""

from __future__ import annotations

from xla_sweeps.doctor.check_result import Checked, Verdict
from xla_sweeps.report.self_check import page

CHECKS = [
    Checked("error of a matmul in xla", "6e-07 of the largest", "under 2e-05", Verdict.OK),
    Checked("a trial's block / a bare loop", "1.0500", "1 ± 0.01", Verdict.BAD),
    Checked("a second process", " ".join(["busy"] * 30), "noticed", Verdict.IMPOSSIBLE),
]


def test_the_page_is_plain_text_of_80_columns_with_each_figure_and_what_was_expected() -> None:
    text = page(CHECKS, {"device": "gpu:0, NVIDIA H100", "flags": "X=1 " * 40})
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in text
    assert "device  gpu:0, NVIDIA H100" in lines
    assert "ok    error of a matmul in xla: 6e-07 of the largest" in lines
    assert "      expected: under 2e-05" in lines
    assert "bad   a trial's block / a bare loop: 1.0500" in lines
    assert "      expected: noticed; not possible here" in lines
    assert lines[-1] == "1 ok, 1 bad, 1 not possible here"
