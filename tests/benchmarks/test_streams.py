"""Streams of calls are timed between two synchronizations, and compared with a trial's figure."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from factories import make_record
from paths import ROOT

from benchmarks import streams
from xla_sweeps.store.store import Store


class Noted:
    """An executable that notes what it is asked to do."""

    trace_s = None
    position = 0

    def __init__(self) -> None:
        self.asked: list[str] = []

    def prepare(self) -> None:
        self.asked.append("prepare")

    def step(self) -> None:
        self.asked.append("step")

    def synchronize(self) -> None:
        self.asked.append("synchronize")


def test_a_stream_is_so_many_calls_between_two_synchronizations() -> None:
    noted = Noted()
    assert streams._stream_s(noted, 3) > 0  # type: ignore[arg-type]
    assert noted.asked == ["prepare", "synchronize", "step", "step", "step", "synchronize"]


def test_the_median_stream_is_set_beside_the_trials_figure_of_the_same_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = make_record({"graph": 0.2, "xla": 0.1})
    Store(tmp_path / "results").save(record)
    asked = asdict(streams.question(record.trial, "xla"))
    with (tmp_path / "s.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*asked, "calls", "repetition", "call_s"])
        for batch_size in (record.trial.batch_size, 999):
            values = {**asked, "batch_size": batch_size}.values()
            table.writerows([*values, 40, index, 0.04 + index / 100] for index in range(3))
    streams.compare(tmp_path / "s.csv", tmp_path / "results")
    (line,) = capsys.readouterr().out.splitlines()[2:]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:4] == ["resnet50", str(record.trial.batch_size), "xla", "40"]
    assert float(cells[4]) == 50
    assert float(cells[6]) == pytest.approx(2, rel=0.05)


@pytest.mark.exhaustive
def test_streams_of_a_real_model_are_timed_by_the_command(tmp_path: Path) -> None:
    program = (sys.executable, "-P", "-m", "benchmarks.streams")
    words = ("model=mnist_mlp", "batch_size=4", "modes=[graph,xla]", "device=cpu")
    file = tmp_path / "s.csv"
    subprocess.run([*program, "--out", str(file), *words], cwd=ROOT, check=True)
    with file.open(newline="") as handle:
        lines = list(csv.DictReader(handle))
    timed = {(line["mode"], int(line["calls"])) for line in lines}
    assert timed == {(mode, calls) for mode in ("graph", "xla") for calls in streams.CALLS}
    assert all(float(line["call_s"]) > 0 for line in lines)
