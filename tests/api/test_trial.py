"""The result of `measure` and tables, from stored records."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow
import pytest
from factories import failed_outcome, make_record

import xla_sweeps as xs
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.api.progress import Line
from xla_sweeps.api.shipping import _arrays, _canonical
from xla_sweeps.api.table import SHORT
from xla_sweeps.report.figures import times
from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.trial import Precision
from xla_sweeps.store.store import Store

RECORD = make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01)


def trial_of(record: Record, text: str = "as the terminal has it") -> xs.Trial:
    return xs.Trial(
        trial_id=record.trial_id,
        text=text,
        words=("model=mobilenet_v2",),
        exit_code=0,
        records=(),
        logs=(Path("a.log"),),
        document=msgspec.json.decode(msgspec.json.encode(summarize([record]))),
    )


def test_a_trial_says_what_its_record_says() -> None:
    trial = trial_of(RECORD)
    row = summarize([RECORD]).comparisons[0]
    assert trial.summary == summarize([RECORD])
    assert (trial.verdict, trial.speedup) == ("faster", row.speedup.value)
    assert trial.interval == (row.speedup.low, row.speedup.high)
    assert "faster" in trial.sentence
    assert list(trial.modes) == ["eager", "graph", "xla"]
    assert trial.command == "xla-sweeps model=mobilenet_v2"
    assert len(trial.table) == len(trial.rows)


def test_a_trial_saves_its_comparisons_as_a_picture(tmp_path: Path) -> None:
    path = trial_of(RECORD).plot(tmp_path / "a.svg")
    assert path.read_text("utf-8").count("<circle") == len(summarize([RECORD]).comparisons)


def test_a_notebook_gets_text_and_html_without_scripts_or_addresses() -> None:
    bundle = trial_of(RECORD)._repr_mimebundle_()
    page = bundle["text/html"]
    assert bundle["text/plain"] == "as the terminal has it"
    assert page.count("images/s") == page.count("\n graph ") == 1
    assert len(page.encode()) < 25_000
    assert "<script" not in page
    assert "://" not in page


def test_a_failure_is_a_value_and_its_text_is_escaped() -> None:
    failure = failed_outcome(Status.COMPILE_ERROR, '<img onerror=x>"' * 5000)
    several = {f"xla_{number}": failure for number in range(2, 20)}
    trial = trial_of(replace(RECORD, modes={**RECORD.modes, "xla": failure, **several}))
    assert trial.failures["xla"].message.startswith("<img")
    page = trial._repr_mimebundle_()["text/html"]
    assert "<img" not in page
    assert len(page.encode()) < 25_000


def test_tables_are_read_by_data_frames(tmp_path: Path) -> None:
    Store(tmp_path).save(RECORD)
    table = xs.results(tmp_path)
    assert pyarrow.table(table).num_rows == len(table) == 1
    assert table[0]["candidate"] == "xla"
    assert "resnet50" in repr(table)
    page = table._repr_mimebundle_()["text/html"]
    assert page.count("resnet50") == 1
    assert len(page.encode()) < 25_000
    assert len(xs.results(tmp_path, "verdict=slower")) == 0
    with pytest.raises(xs.ConfigError, match="speedupp"):
        xs.results(tmp_path, "speedupp>1")
    with pytest.raises(xs.XlaSweepsError, match="nowhere"):
        xs.results(tmp_path / "nowhere")


def test_a_notebook_s_line_is_drawn_twice_a_second_and_not_between_timed_blocks() -> None:
    drawn: list[Any] = []

    class Handle:
        def update(self, shown: Any, raw: bool) -> None:
            drawn.append(shown["text/plain"])

    def display(shown: Any, raw: bool, display_id: bool) -> Handle:
        drawn.append(shown["text/plain"])
        return Handle()

    now = [0.0]
    line = Line(display, lambda: now[0])
    line({"event": "start", "title": "mine"})
    for step in range(20):
        now[0] += 0.1
        line({"event": "stage", "stage": "compile", "mode": f"m{step}", "detail": ""})
    assert len(drawn) <= 5
    before = len(drawn)
    now[0] += 10
    line({"event": "rounds"})
    assert len(drawn) == before
    line({"event": "progress", "done": 1, "total": 3})
    line({"event": "running", "trial": "resnet50 b4"})
    assert drawn[-1] == "1 of 3 trials · resnet50 b4"
    line({"event": "end"})
    assert drawn[-1] == ""


def test_the_session_s_numbers_do_not_count_in_a_configuration() -> None:
    def config(number: int) -> dict[str, Any]:
        layer = {"name": f"dense_{number}", "shared_object_id": number}
        return {"layers": [layer, {"name": "head"}], "inputs": [[f"dense_{number}", 0, 0]]}

    assert _canonical(config(3)) == _canonical(config(7))
    assert _canonical(config(3)) != _canonical({**config(3), "inputs": [["head", 0, 0]]})


def test_inputs_give_shapes_dtypes_and_ranges() -> None:
    rng = np.random.default_rng(0)
    one, two = _arrays({"a": rng.random((4, 3), np.float32), "b": np.array([[0], [9]])})
    assert one.spec == {"shape": [3], "dtype": "float32", "low": 0, "high": 1, "name": "a"}
    assert two.spec == {"shape": [1], "dtype": "int64", "low": 0, "high": 10, "name": "b"}
    assert _arrays([[0.5, 2.0]])[0].values.dtype == np.float32
    with pytest.raises(xs.ConfigError, match="text, which XLA does not take"):
        _arrays(["text"])


def test_what_a_prompt_shows_of_modes_and_rows_is_a_line_each() -> None:
    trial = trial_of(RECORD)
    assert repr(trial.modes["xla"]).startswith("<xla: ok, ")
    assert repr(trial.headline).startswith("<resnet50 xla against graph: faster 2")
    missing = replace(RECORD, modes={**RECORD.modes, "xla": failed_outcome(Status.OOM_GPU, "x")})
    failed = trial_of(missing)
    assert repr(failed.modes["xla"]).startswith("<xla: oom_gpu")
    assert repr(failed.headline) == "<resnet50 xla against graph: failed, oom_gpu>"
    alone = trial_of(replace(RECORD, modes={"xla": RECORD.modes["xla"]}))
    for shown in (*trial.rows, *failed.rows, *alone.rows, *alone.modes.values()):
        assert len(repr(shown)) < 100, repr(shown)


def test_a_filter_that_matches_nothing_says_of_how_many_rows(tmp_path: Path) -> None:
    Store(tmp_path).save(RECORD)
    nothing = xs.results(tmp_path, "verdict=slower")
    words = "0 of 1 row match --where 'verdict=slower'"
    assert words in repr(nothing)
    assert "0 of 1 row match --where" in nothing._repr_mimebundle_()["text/html"]
    assert "match" not in repr(xs.results(tmp_path, "verdict=faster"))


def test_rows_of_several_devices_say_which_and_rows_of_one_do_not(tmp_path: Path) -> None:
    Store(tmp_path).save(RECORD)
    name = RECORD.device["name"]
    assert f"\non {name}" in repr(xs.results(tmp_path))
    assert f"({name}" not in repr(xs.results(tmp_path))
    other = replace(RECORD, trial_id="0" * 16, device={**RECORD.device, "name": "H100"})
    Store(tmp_path).save(other)
    shown = repr(xs.results(tmp_path))
    assert "(Some)" in shown
    assert "(H100)" in shown


def test_a_notebook_writes_what_the_terminal_writes_and_no_column_s_name(tmp_path: Path) -> None:
    Store(tmp_path).save(RECORD)
    other = replace(RECORD.trial, scenario=Scenario.TRAIN_STEP, precision=Precision.MIXED_FLOAT16)
    Store(tmp_path).save(replace(RECORD, trial_id="0" * 16, trial=other))
    table = xs.results(tmp_path)
    heading, *lines = repr(table).splitlines()
    (row, *_) = (one for one in table if one["scenario"] == "call")
    assert heading.split()[:4] == ["scenario", "model", "px", "batch"]
    assert "_" not in heading
    assert times(row["speedup"]) in lines[0]
    assert "▲ faster" in lines[0]
    assert lines[1].startswith("train_step")
    assert "(mixed_float16)" in lines[1]
    changes = repr(xs.compare(tmp_path, tmp_path))
    assert changes.split()[:4] == ["trial", "quantity", "ratio", "95"]
    assert "ratios are B / A" in changes


def test_a_notebook_says_caveats_in_words() -> None:
    word = f"{Flag.WARMUP_NOT_STATIONARY}:xla"
    trial = trial_of(RECORD)
    rows = [{**row, "flags": [word]} for row in trial.document["comparisons"]]
    trial = replace(trial, document={**trial.document, "flags": [word], "comparisons": rows})
    page = trial._repr_mimebundle_()["text/html"]
    assert "still changed when warm-up ended" in " ".join(page.split())
    assert "(XLA)" in page
    assert Flag.WARMUP_NOT_STATIONARY not in page


def test_a_data_frame_has_all_columns_or_those_that_are_asked_for(tmp_path: Path) -> None:
    Store(tmp_path).save(RECORD)
    table = xs.results(tmp_path)
    for odd in ("shorrt", 3, [3], None):
        with pytest.raises(xs.ConfigError, match="unknown columns"):
            table.to_pandas(odd)  # type: ignore[arg-type]
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(xs.ConfigError, match="pip install pandas"):
            table.to_pandas("short")
        return
    assert list(table.to_pandas().columns) == list(table.columns)
    assert len(table.to_pandas("short").columns) == len(SHORT)
