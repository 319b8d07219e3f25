"""Imported figures: names, pairs, and files that are wrong, damaged or replaced."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_figures import HEADER, SAMPLE, line, text

from xla_sweeps.config.catalog import load_catalog
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.report import advice
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.store import imported
from xla_sweeps.store.table import table_of

STUDY = {
    "applications": (
        *(f"resnet{depth}_v{version}" for version in (1, 2) for depth in (50, 101, 152)),
        *(f"resnetrs_{depth}" for depth in (50, 101, 152, 200, 270, 350, 420)),
        *(f"convnext_{size}" for size in ("tiny", "small", "base", "large", "xlarge")),
        *(f"efficient_b{number}" for number in range(8)),
        *(f"efficient_{size}_v2" for size in ("b0", "b1", "b2", "b3", "s", "m", "l")),
        *(f"densenet_{depth}" for depth in (121, 169, 201)),
        *("inception_v3", "inception_resnetv2", "xception", "vgg16", "vgg19"),
        *("mobilenet_v1", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large"),
        *("nasnet_large", "nasnet_mobile"),
    ),
    "regnets": tuple(
        f"regnet{kind}_{size:03}"
        for kind in "xy"
        for size in (2, 4, 6, 8, 16, 32, 40, 64, 80, 120, 160, 320)
    ),
    "keras_cv": ("yolo_v8_m_pascalvoc", "retinanet_resnet50_pascalvoc"),
    "hub": (
        *("vit_s16", "vit_b8", "vit_b16", "vit_b32", "vit_l16", "vit_r26_s32", "vit_r50_l32"),
        *(f"deit_{size}_patch16_224" for size in ("tiny", "small", "base")),
        *(f"deit_{size}_distilled_patch16_224" for size in ("tiny", "small", "base")),
        *("deit_base_patch16_384", "deit_base_distilled_patch16_384"),
        *(f"swin_{size}_patch4_window7_224" for size in ("tiny", "small", "base", "large")),
        *("swin_base_patch4_window12_384", "swin_large_patch4_window7_384"),
        *(f"swin_s3_{size}_224" for size in ("tiny", "small", "base")),
        *("mixer_b16", "mixer_b32", "mixer_l16"),
    ),
}
"""Every name of the study, by its source."""


def read(content: str) -> tuple[list[ComparisonRow], list[str]]:
    figures = imported.parse(content.encode("utf-8", "replace"), where="F")
    return imported.rows_of(figures, load_catalog(), label="study")


def rows(*lines: str) -> list[ComparisonRow]:
    return read(text(*lines))[0]


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("efficient_s_v2", "efficientnetv2s"),
        ("resnet50_v1", "resnet50"),
        ("inception_resnetv2", "inception_resnet_v2"),
        ("mobilenet", "mobilenet_v1"),
        ("regnety_320", "regnety_320"),
        ("vit_small_patch16_224", "vit_s16"),
        ("swin_large_patch4_window7_384", "swin_large_patch4_window12_384"),
        ("yolo_v8_m_pascalvoc", "yolo_v8_m"),
    ],
)
def test_names_in_published_files_are_matched_to_catalog_models(variant: str, name: str) -> None:
    (row,) = rows(line(variant))
    entry = load_catalog()[name]
    assert (row.trial.model, row.trial.family) == (name, entry.family)
    assert row.trial.source in entry.sources


@pytest.mark.parametrize("family", STUDY)
def test_every_name_of_the_study_is_a_name_or_an_alias_of_the_catalog(family: str) -> None:
    figures = rows(*(line(name) for name in STUDY[family]))
    assert {row.trial.model for row in figures} <= {*load_catalog()}
    assert not any("not in the catalog" in row.provenance.note for row in figures)


@pytest.mark.parametrize(
    ("columns", "cells", "speedup", "absolute"),
    [
        ("speedup_percent", "300", 4.0, None),
        ("absolute_speedup", "50", None, 50.0),
        ("absolute_speedup,speedup_percent", "-5,-50", 0.5, -5.0),
    ],
)
def test_a_speedup_without_throughputs_has_a_row(
    columns: str, cells: str, speedup: float | None, absolute: float | None
) -> None:
    (row,), _ = read(f"{HEADER},{columns}\nF,vgg16,224,,t4,,,,{cells}\n")
    assert (row.speedup.value, row.speedup.absolute_samples_per_s) == (speedup, absolute)
    assert str(row.speedup.verdict) == ("none" if speedup is None else "ambiguous")
    assert row.provenance.note == "the speedup alone is in the file"
    assert ("faster" in advice.answer(row)) is (speedup is not None and speedup > 1)


def test_a_run_has_a_row_of_its_own_with_its_note_and_date() -> None:
    lines = [
        f"F,vgg16,224,True,t4,,,{rate},{rest}" for rate, rest in ((9, ",,"), (8, "old,n,2020"))
    ]
    newer, older = read("\n".join([f"{HEADER},run,note,date", *lines]) + "\n")[0]
    assert [one.candidate.throughput_samples_per_s for one in (newer, older)] == [9, 8]
    assert newer.trial.trial_id != older.trial.trial_id
    assert older.provenance.note.startswith("run: old; n; ")
    assert (newer.provenance.measured_at, older.provenance.measured_at) == ("", "2020")


def test_a_models_source_is_the_one_that_the_study_used() -> None:
    sources = {
        row.trial.model: row
        for row in rows(
            *map(line, ("vit_b16", "yolo_v8_m_pascalvoc", "regnetx_002", "resnet50_v1"))
        )
    }
    named = [row.trial.source for row in sources.values()]
    assert named == ["hub", "keras_cv", "applications", "applications"]
    assert sources["vit_b16"].trial.eager_is_graph
    assert not sources["resnet50"].trial.eager_is_graph


def test_eager_and_xla_of_the_same_become_one_row_without_an_interval() -> None:
    (row,) = rows(
        line("resnet50_v1", params="25.64", flop="3.86", xla=False, rate=50),
        line("resnet50_v1", rate=200),
    )
    assert (row.baseline.mode, row.candidate.mode, row.headline) == ("eager", "xla", True)
    sides = (row.baseline, row.candidate)
    rates = [(side.throughput_samples_per_s, side.call_ms) for side in sides]
    assert rates == [(50, 80), (200, 20)]
    speedup = row.speedup
    assert (speedup.value, speedup.percent, speedup.absolute_samples_per_s) == (4, 300, 150)
    missing = (speedup.low, speedup.high, speedup.p_value, row.candidate.throughput_low)
    assert missing == (None, None, None, None)
    assert (speedup.verdict, speedup.replicates) == (Verdict.AMBIGUOUS, 1)
    assert (row.provenance.origin, row.flags) == ("imported", ("imported",))
    assert (row.trial.device, row.trial.precision) == ("NVIDIA A100", "float32")
    counts = (row.trial.params, row.trial.macs, row.trial.batch_size)
    assert counts == (25_640_000, 3_860_000_000, 4)
    command = "python -m xla_sweeps model=resnet50 source=applications jit=true"
    assert row.provenance.command == command


def test_a_figure_without_its_counterpart_keeps_its_throughput_and_notes_what_is_missing() -> None:
    (row,) = rows(line("resnet50_v1", xla=False, rate=50))
    rates = [side.throughput_samples_per_s for side in (row.baseline, row.candidate)]
    assert (rates, row.speedup.value) == ([50, None], None)
    assert (str(row.status), row.speedup.verdict) == ("ok", Verdict.NONE)
    assert "XLA is not in the file" in row.provenance.note


def test_repeated_figures_become_their_median() -> None:
    (row,) = rows(*(line("vgg16", params="138.36", rate=rate) for rate in (90, 100, 130)))
    assert row.candidate.throughput_samples_per_s == 100
    assert "XLA is in the file 3 times: the median" in row.provenance.note


def test_a_model_that_the_study_built_under_another_name_is_named_by_the_column_model() -> None:
    (row,), warnings = read(f"{HEADER},model\n{line('regnetx_016')},regnetx_002\n")
    assert (row.trial.model, warnings) == ("regnetx_002", [])
    assert "called regnetx_016 in the file, whose study built regnetx_002" in row.provenance.note


def test_an_unknown_name_is_kept_with_a_warning() -> None:
    kept_rows, warnings = read(text(line("resnet51_v1"), line("zzz")))
    trials = [(row.trial.model, row.trial.family, row.trial.source) for row in kept_rows]
    assert trials == [("resnet51_v1", "Family", ""), ("zzz", "Family", "")]
    assert {row.provenance.command for row in kept_rows} == {""}
    assert warnings == [
        "line 2: 'resnet51_v1' is not in the catalog and keeps its name",
        "line 3: 'zzz' is not in the catalog and keeps its name",
    ]


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e300", "-1e300"])
@pytest.mark.parametrize(
    ("column", "allowed"),
    [("absolute_speedup", "-1e9 to 1e9"), ("speedup_percent", "-99.99 to 1e9")],
)
def test_a_speedup_that_no_page_can_show_is_refused(column: str, allowed: str, value: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(f"{HEADER},{column}\na,b,224,,t4,1,1,,{value}\n")
    expected = f"expected a number from {allowed}, got '{value}'"
    assert str(error.value) == f"F, line 2, column '{column}': {expected}"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "F: expected a header, and a line for each figure below it"),
        (" \n,\n", "F: expected a header, and a line"),
        (HEADER + "\n", "F: expected a header, and a line"),
        (HEADER.replace("xla", "jit") + "\na\n", "F, line 1: expected one column 'xla', got 0."),
        (HEADER + ",xla\na\n", "F, line 1: expected one column 'xla', got 2."),
        (text("a,b,224,True,t4,1,1"), "F, line 2, column 'throughput (samples/sec)': expected a n"),
        (text("a,b,224,True,t4,1,1,-5"), "F, line 2, column 'throughput (samples/sec)': expected"),
        (text("a,b,224,True,t4,1,1,nan"), "F, line 2, column 'throughput (samples/sec)': expect"),
        (text("a,b,224,True,t4,inf,1,5"), "F, line 2, column 'flop (giga)': expected"),
        (text("a,b,224,True,t4,1,1e30,5"), "F, line 2, column 'params (million)': expected"),
        (text("a,b,224.5,True,t4,1,1,5"), "F, line 2, column 'resolution': expected an integer f"),
        (text("a,b,224,maybe,t4,1,1,5"), "F, line 2, column 'xla': expected True or False, got"),
        (text(line("vgg16"), "a,,224,True,t4,1,1,5"), "F, line 3, column 'model_variant': expect"),
        (text('a,"b"c,224,True,t4,1,1,5'), "F, line 2: not CSV"),
    ],
)
def test_mistakes_in_a_file_are_reported_with_line_and_column(content: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(content)
    assert str(error.value).startswith(complaint)
    assert "\n" not in str(error.value)


CELLS = [
    *("", "224", "True", "t4", "nan", "-1", "1e999", "0x1", "regnetx_016", "é", '"', "\n", "\x00"),
    *(",", "٣"),
]


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(CELLS), max_size=30).map(
        lambda words: HEADER + "\n" + ",".join(words)
    )
)
@settings(max_examples=100, deadline=None)
def test_any_text_is_a_file_of_figures_or_a_reported_mistake(content: str) -> None:
    with contextlib.suppress(ConfigError):
        made, _ = read(content)
        assert table_of(made).num_rows == len(made)


def test_columns_may_be_in_any_order_with_others_among_them() -> None:
    names = ["note", *reversed(imported.NEEDED)]
    cells = ["hm", "100", "25.6", "3.9", "T4", "FALSE", "224", "resnet50_v1", "ResNet_V1"]
    content = ",".join(names) + "\r\n" + ",".join(cells) + "\r\n"
    (figure,) = imported.parse(content.encode(), where="F")
    assert (figure.variant, figure.xla, figure.accelerator) == ("resnet50_v1", False, "T4")
    assert figure.throughput_samples_per_s == 100


def test_the_answer_for_a_published_figure_promises_nothing() -> None:
    pair, alone = rows(
        line("resnet50_v1", params="25.6", flop="3.9", xla=False, rate=50),
        line("resnet50_v1", params="25.6", flop="3.9", rate=200),
        line("vgg16", params="138.4", flop="15.5", rate=100),
    )
    assert advice.answer(pair) == (
        "Published, not measured here: XLA 4.00× faster than eager execution, from single "
        "measurements, so the uncertainty is unknown. Note: float32 with TF32 in matrix products, "
        "TensorFlow's default there. To measure it here: "
        "python -m xla_sweeps model=resnet50 source=applications jit=true"
    )
    assert advice.answer(alone).startswith(
        "Published, not measured here: XLA ran at 100 samples/s; there is no baseline. Note: eager "
        "is not in"
    )


def test_a_file_in_another_encoding_is_refused_with_its_line(tmp_path: Path) -> None:
    content = text(line("vgg16"), line("resnet_é")).encode("latin-1")
    (tmp_path / "f.csv").write_bytes(content)
    with pytest.raises(ConfigError, match=r"f\.csv, line 3: not UTF-8; save it as UTF-8"):
        imported.add(tmp_path / "f.csv", tmp_path / "r")


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"\xef\xbb\xbf" + text(line("vgg16")).encode())
    assert imported.add(tmp_path / "f.csv", tmp_path / "r").figures == 1


def test_a_reader_of_an_import_that_is_being_replaced_sees_all_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = imported.add(SAMPLE, tmp_path).path
    old = path.read_text(encoding="utf-8")
    (tmp_path / SAMPLE.name).write_text(text(line("vgg16")))
    with path.open(encoding="utf-8") as handle:
        assert imported.add(tmp_path / SAMPLE.name, tmp_path).replaced
        assert handle.read() == old
    new = path.read_text(encoding="utf-8")

    def full(source: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match="No space left on device"):
        imported.add(SAMPLE, tmp_path)
    assert path.read_text(encoding="utf-8") == new
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'"' + b"[" * 200_000, b"x" * 2**25])
def test_a_damaged_import_is_reported_and_the_others_are_shown(
    content: bytes, tmp_path: Path
) -> None:
    imported.add(SAMPLE, tmp_path)
    (tmp_path / "imported" / "bad.csv").write_bytes(content)
    figures, (problem,) = imported.load(tmp_path)
    assert len(figures) == 116
    assert "bad.csv" in problem


def test_a_pipe_among_the_imports_is_not_waited_for(tmp_path: Path) -> None:
    imported.add(SAMPLE, tmp_path)
    os.mkfifo(tmp_path / "imported" / "pipe.csv")
    figures, problems = imported.load(tmp_path)
    assert len(figures) == 116
    assert "pipe.csv: not a regular file" in problems[0]
