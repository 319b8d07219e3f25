"""The oracle finds what is inconsistent in a record, and what `check` finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from golden_record import GOLDEN, folder_with, put
from oracle import contradictions

from xla_sweeps.schema.record import seal


def test_the_golden_record_is_without_fault(tmp_path: Path) -> None:
    folder_with(tmp_path, GOLDEN.read_bytes())
    assert contradictions(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        ("replicate", 7, "replicate 7 differs from its name"),
        ("status", "crashed", "status crashed, and the failure None"),
        ("modes.xla.status", "compile_error", "xla: status compile_error, and the failure None"),
        ("modes.xla.effective.in_force", False, "it was not in force"),
        ("modes.xla.latencies_s", [1e-9] * 20, "alone and"),
        ("trial.modes", ["graph", "xla"], "are not those of the trial"),
        ("rounds.3.blocks.0.elapsed_ns", 10**12, "take longer than the round"),
    ],
)
def test_each_kind_of_inconsistency_is_found(
    place: str, value: Any, line: str, tmp_path: Path
) -> None:
    document = json.loads(GOLDEN.read_bytes())
    put(place, value)(document)
    folder_with(tmp_path, seal(document))
    assert any(line in found for found in contradictions(tmp_path)), contradictions(tmp_path)
