"""The command `batch-sizes`: the trials that it asks for, and the answer from their records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from composed import record_of
from factories import failed_outcome

from xla_sweeps.cli.answers import batch_sizes_command
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.store import Store

pytestmark = pytest.mark.usefixtures("composed_once")

WORDS = ["model=mobilenet_v2", "device=cpu", "modes=[graph,xla]"]


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder with sizes whose throughput is flat from 4 on, and no memory at 16."""
    for size in (1, 2, 4, 8, 16):
        call_s = dict.fromkeys(("graph", "xla"), 0.001 * max(4, size))
        words = [*WORDS, f"batch_size={size}"]
        record = record_of(*words, call_s=call_s, noise=0.001, seed=size)
        if size == 16:
            lost = failed_outcome(Status.OOM_GPU, "out of memory")
            record = replace(record, modes={**record.modes, "xla": lost})
        Store(tmp_path).save(record)
    return tmp_path


def ask(folder: Path, *more: str) -> int:
    return batch_sizes_command([*WORDS, f"results_dir={folder}", *more])


def test_auto_goes_on_until_two_sizes_gain_nothing_and_names_the_knee(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured) == 0
    text = capsys.readouterr().out
    said = " ".join(text.split())
    assert "graph: within 5 % of its most" in said
    assert "from batch 4 on" in said
    assert "xla: within 5 % of its most" in said
    assert "Out of memory at batch 16." in said
    assert "oom_gpu" in said
    assert "█" in text


def test_the_same_as_json(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(measured, "--sizes", "1,4", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [point["batch_size"] for point in document["points"]] == [1, 1, 4, 4]
    assert [knee["batch_size"] for knee in document["knees"]] == [4, 4]


def test_only_what_is_missing_is_asked_for(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(measured, "--sizes", "4,64", "--dry-run") == 0
    commands = [line for line in capsys.readouterr().out.splitlines() if "batch_size" in line]
    assert ["batch_size=64" in line for line in commands] == [True]
