"""The program that measures what one process shows of a device, on the CPU."""

from __future__ import annotations

import json

import pytest

from xla_sweeps.schema.backend import default_backend
from xla_sweeps.system import programs

pytestmark = [pytest.mark.tf, pytest.mark.slow]


def answers(*words: str) -> list[dict[str, object]]:
    done = programs.run(default_backend(), "self_check", *words)
    assert done.code == 0, done.reason
    return [json.loads(line) for line in done.output.splitlines()]


def test_the_product_is_right_below_the_peak_and_catches_what_is_planted() -> None:
    told = {answer["name"]: answer for answer in answers("measure", "cpu", "1e13")}
    certain = [name for name in told if "at 0" not in str(name)]
    assert len(certain) == 4, "and one that a busy machine may spoil"
    assert {told[name]["verdict"] for name in certain} == {"ok"}, told
