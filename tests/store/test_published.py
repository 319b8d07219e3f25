"""The study's figures: names, pairs, what is missing, and what a row says of itself."""

from __future__ import annotations

import csv
from collections import Counter

import pytest
from paths import ROOT

from xla_sweeps.config.catalog import load_catalog, names
from xla_sweeps.report import advice
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.store import published

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

A100, T4, V100 = "NVIDIA A100", "NVIDIA T4", "NVIDIA V100"


def row_of(model: str, device: str, *, run: str = "") -> ComparisonRow:
    """The study's row of a model on a device, of a run with a name if it has one."""
    rows = [
        row
        for row in published.study()
        if (row.trial.model, row.trial.device) == (model, device)
        and row.provenance.note.startswith("run: " + run) == bool(run)
    ]
    (row,) = rows
    return row


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        ("efficient_s_v2", "efficientnetv2s"),
        ("resnet50_v1", "resnet50"),
        ("inception_resnetv2", "inception_resnet_v2"),
        ("regnety_320", "regnety_320"),
        ("vit_small_patch16_224", "vit_s16"),
        ("swin_large_patch4_window7_384", "swin_large_patch4_window12_384"),
        ("yolo_v8_m_pascalvoc", "yolo_v8_m"),
    ],
)
def test_names_of_the_study_are_matched_to_catalog_models(variant: str, name: str) -> None:
    assert names()[variant] == name


@pytest.mark.parametrize("family", STUDY)
def test_every_name_of_the_study_is_a_name_or_an_alias_of_the_catalog(family: str) -> None:
    assert {*STUDY[family]} <= names().keys()


def test_no_two_lines_of_the_file_are_one_figure_of_a_row() -> None:
    path = ROOT / "xla_sweeps" / "store" / "published.csv"
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    figures = ("throughput (samples/sec)", "absolute_speedup", "speedup_percent")
    kinds = [[name for name in figures if line[name]] for line in lines]
    assert {len(kind) for kind in kinds} == {1}
    place = ("model_variant", "model", "resolution", "accelerator", "run", "xla")
    rows = (tuple(line[name] for name in place) for line in lines)
    assert {*Counter(zip(rows, map(tuple, kinds), strict=True)).values()} == {1}
    assert len(lines) == 197


@pytest.mark.parametrize(
    ("model", "device", "speedup", "absolute"),
    [("vit_b16", A100, 1.0569305, None), ("densenet121", T4, None, 311.11)],
)
def test_a_speedup_without_throughputs_has_a_row(
    model: str, device: str, speedup: float | None, absolute: float | None
) -> None:
    row = row_of(model, device)
    assert (row.speedup.value, row.speedup.absolute_samples_per_s) == (speedup, absolute)
    assert str(row.speedup.verdict) == ("none" if speedup is None else "ambiguous")
    assert "the speedup alone is in the file" in row.provenance.note
    assert ("faster" in advice.answer(row)) is (speedup is not None and speedup > 1)


def test_a_run_has_a_row_of_its_own_with_its_note_and_date() -> None:
    newer, older = row_of("mixer_b32", A100), row_of("mixer_b32", A100, run="older")
    rates = [one.candidate.throughput_samples_per_s for one in (newer, older)]
    assert rates == [1539.56, 1486.84]
    assert newer.trial.trial_id != older.trial.trial_id
    assert older.provenance.note.startswith("run: older; contradicts 1539.56 in 44568e7: ")
    dates = (newer.provenance.measured_at, older.provenance.measured_at)
    assert dates == ("2023-06-30", "2023-06-23")


def test_a_models_source_is_the_one_that_the_study_used() -> None:
    entries = load_catalog()
    for row in published.study():
        others = {"applications", "hub", "keras_cv"} & {*entries[row.trial.model].sources}
        assert row.trial.source in others, row.trial.model
        assert row.trial.eager_is_graph is (row.trial.source == "hub")
    sources = Counter(row.trial.source for row in published.study())
    assert sources == {"applications": 78, "hub": 28, "keras_cv": 10}


def test_eager_and_xla_of_the_same_become_one_row_without_an_interval() -> None:
    row = row_of("resnet50", A100)
    assert (row.baseline.mode, row.candidate.mode, row.headline) == ("eager", "xla", True)
    sides = (row.baseline, row.candidate)
    rates = [(side.throughput_samples_per_s, side.call_ms) for side in sides]
    assert rates == [(48.18, 4e3 / 48.18), (719.42, 4e3 / 719.42)]
    speedup = row.speedup
    assert speedup.value == 719.42 / 48.18
    assert speedup.percent == pytest.approx(1393.192195931922)
    assert speedup.absolute_samples_per_s == pytest.approx(671.24)
    missing = (speedup.low, speedup.high, speedup.p_value, row.candidate.throughput_low)
    assert missing == (None, None, None, None)
    assert (speedup.verdict, speedup.replicates) == (Verdict.AMBIGUOUS, 1)
    assert (row.provenance.origin, row.flags) == ("imported", ("imported",))
    assert (row.trial.device, row.trial.precision) == (A100, "float32")
    counts = (row.trial.params, row.trial.macs, row.trial.batch_size)
    assert counts == (25_640_000, 3_860_000_000, 4)
    command = "python -m xla_sweeps model=resnet50 source=applications jit=true"
    assert row.provenance.command == command


def test_a_figure_without_its_counterpart_keeps_its_throughput_and_notes_what_is_missing() -> None:
    row = row_of("mobilenet_v1", V100)
    rates = [side.throughput_samples_per_s for side in (row.baseline, row.candidate)]
    assert (rates, row.speedup.value) == ([None, 2842.09], None)
    assert (str(row.status), row.speedup.verdict) == ("ok", Verdict.NONE)
    assert row.provenance.note == "eager is not in the file"


def test_a_model_that_the_study_built_under_another_name_is_named_by_the_column_model() -> None:
    note = "called regnetx_016 in the file, whose study built regnetx_002 under that name"
    assert row_of("regnetx_002", A100).provenance.note.startswith(note)


def test_the_answer_for_a_published_figure_promises_nothing() -> None:
    assert advice.answer(row_of("resnet50", A100)) == (
        "Published, not measured here: XLA 14.9× faster than eager execution, from single "
        "measurements, so the uncertainty is unknown. Note: float32 with TF32 in matrix products, "
        "TensorFlow's default there. To measure it here: "
        "python -m xla_sweeps model=resnet50 source=applications jit=true"
    )
    assert advice.answer(row_of("mobilenet_v1", V100)).startswith(
        "Published, not measured here: XLA ran at 2842 samples/s; the other mode was not "
        "published. Note: eager is not in"
    )
    alone = next(row for row in published.study() if row.trial.model == "vit_s16")
    assert advice.answer(alone).startswith("Published, not measured here: eager execution ran at ")
