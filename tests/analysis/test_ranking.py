"""Rankings of models: the fastest at each resolution, shared ranks, agreement of devices."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from xla_sweeps.analysis import ranking
from xla_sweeps.analysis.overview import answers
from xla_sweeps.config.catalog import load_catalog
from xla_sweeps.report import study
from xla_sweeps.schema.row import columns_of as plain_columns
from xla_sweeps.schema.row import value_of
from xla_sweeps.store import published


def line(model: str, rate: float, *, margin: float = 0.01, **changes: Any) -> dict[str, Any]:
    """A row with this throughput of XLA, half of it with graph, and intervals so wide."""
    row = {
        **dict.fromkeys(ranking.NEEDED, ""),
        "scenario": "call",
        "batch_size": 4,
        "precision": "float32",
        "batches": 1,
        "steps_per_execution": 1,
        "copies": "together",
        "resolution_px": 224,
        "device": "A100",
        "model": model,
        "family": "Family",
        "params": 1e6,
        "macs": 1e9,
        "candidate": "xla",
        "baseline": "graph",
        "origin": "measured",
        "status": "ok",
        "replicates": 3,
        **dict.fromkeys(("speedup", "speedup_low", "speedup_high")),
    }
    for prefix, value in (("", rate), ("baseline_", rate / 2)):
        row[f"{prefix}throughput_samples_per_s"] = value
        row[f"{prefix}throughput_low"] = value * (1 - margin)
        row[f"{prefix}throughput_high"] = value * (1 + margin)
    ends = {f"throughput_{end}": changes.pop(end) for end in ("low", "high") if end in changes}
    return row | ends | changes


def columns_of(lines: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The columns of rows."""
    return {name: [row[name] for row in lines] for name in ranking.NEEDED}


def entries(*lines: dict[str, Any]) -> list[ranking.Entry]:
    """The modes of these rows that are ranked."""
    return ranking.entries_of(columns_of(lines))


def study_of(*lines: dict[str, Any]) -> dict[str, study.Table]:
    return {table.key: table for table in study.tables(columns_of(lines))}


def test_the_fastest_model_of_each_place_says_of_how_many_and_who_is_as_fast() -> None:
    rows = [
        line("a", 100.0, device="A100"),
        line("b", 98.0, device="A100", margin=0.05),
        line("c", 50.0, device="A100"),
        line("b", 40.0, device="T4"),
        line("a", 30.0, device="T4"),
        line("a", 10.0, device="T4", resolution_px=384),
    ]
    shown = [(*cells[1:4], *cells[5:]) for cells in study_of(*rows)["fastest"].lines]
    assert shown == [
        ("A100", "a *", "100", "3", "b"),
        ("T4", "b *", "40.0", "2", "—"),
        ("T4", "a", "10.0", "1", "—"),
    ]


def test_contaminated_rows_are_not_ranked_and_published_ones_stand_apart() -> None:
    rows = [
        line("a", 9.0, status="contaminated"),
        line("b", 8.0, origin="imported", low=None, high=None),
        line("c", 7.0),
    ]
    shown = [cells[1:3] for cells in study_of(*rows)["fastest"].lines]
    assert shown == [("A100", "c"), ("A100, published", "b")], "neither had a choice"
    rivals = [line("b", 5.0), line("c", 4.0, origin="imported", low=None, high=None)]
    shown = [cells[1:3] for cells in study_of(*rows, *rivals)["fastest"].lines]
    assert shown == [("A100", "c *"), ("A100, published", "b *")]


def test_podiums_are_by_rate_and_by_gain_over_each_baseline_for_models_and_families() -> None:
    def compared(model: str, rate: float, ratio: float, **changes: Any) -> dict[str, Any]:
        ends = {"speedup_low": ratio * 0.98, "speedup_high": ratio * 1.02}
        baseline = {"baseline_throughput_samples_per_s": rate / ratio}
        return line(model, rate, speedup=ratio, **ends, **baseline, **changes)

    rows = [
        compared("a", 100.0, 1.25),
        compared("b", 90.0, 3.0, family="Other"),
        compared("c", 60.0, 2.0, family="Other"),
        compared("d", 200.0, 8.0, baseline="eager", family="Third"),
    ]
    made = study_of(*rows)
    assert [cells[2:] for cells in made["podium"].lines] == [
        ("images/s", "1 d (200)", "2 a (100)", "3 b (90.0)", "4"),
        ("images/s more than graph", "1 b (+60.0)", "2 c (+30.0)", "3 a (+20.0)", "3"),
        ("% more than graph", "1 b (+200)", "2 c (+100)", "3 a (+25.0)", "3"),
    ]
    assert [cells[2:] for cells in made["families"].lines] == [
        ("Third", "d", "200", "d", "eager execution", "+700"),
        ("Family", "a", "100", "a", "graph", "+25.0"),
        ("Other", "b", "90.0", "b", "graph", "+200"),
    ]


def test_kendalls_tau_is_that_of_scipy_and_only_given_from_five_models() -> None:
    one, other = [1.0, 2.0, 3.0, 4.0, 4.0, 6.0], [2.0, 1.0, 3.0, 5.0, 4.0, 6.0]
    expected = stats.kendalltau(one, other).statistic
    assert ranking.kendall(one, other) == pytest.approx(expected)
    for models in (4, 6):
        rows = [
            line(f"m{place}", rate, device=device)
            for device, rates in (("A", one), ("B", other))
            for place, rate in enumerate(rates[:models])
        ]
        xla = (entry for entry in entries(*rows) if entry.mode == "xla")
        made = ranking.agreements(ranking.at_places(xla))
        assert len(made) == (models == 6)
    assert made[0].tau == pytest.approx(expected)
    assert -1 <= made[0].low < expected < made[0].high <= 1


def test_ranks_are_shared_with_a_leader_whose_interval_is_reached() -> None:
    figures = [(9.0, 8.5, 9.5), (8.8, 8.3, 9.3), (8.4, 8.2, 8.45), (8.0, None, None)]
    assert ranking.ranks(figures) == [1, 1, 3, None]


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("MobileNetV3", "MobileNet"),
        ("MobileNet_V1", "MobileNet"),
        ("ResNetRS", "ResNet"),
        ("EfficientNetV2", "EfficientNet"),
        ("RegNetX", "RegNetX"),
        ("VGG", "VGG"),
    ],
)
def test_a_line_is_a_family_without_its_version(family: str, name: str) -> None:
    assert ranking.line_of(family) == name


def test_a_larger_model_that_is_faster_counts_only_where_intervals_are_apart() -> None:
    rows = [
        line("v1", 100.0, family="MobileNetV1", params=4.2e6),
        line("v2", 80.0, family="MobileNetV2", params=3.5e6),
        line("v3", 99.0, family="MobileNetV3", params=2.5e6, margin=0.05),
        line("other", 1.0, family="VGG", params=1e6),
    ]
    found, counts = ranking.inversions(one for one in entries(*rows) if one.mode == "xla")
    assert counts == {("A100", "xla"): (1, 3)}
    ((larger, smaller),) = [(one.larger.model, one.smaller.model) for one in found]
    assert (larger, smaller) == ("v1", "v2")
    assert found[0].ratio == pytest.approx(1.25)
    assert not found[0].preliminary


def test_how_far_apart_models_are_is_given_for_each_resolution_and_device() -> None:
    rates = {"a": 100.0, "b": 80.0, "c": 60.0, "d": 40.0, "e": 20.0}
    rows = [
        *(line(model, rate) for model, rate in rates.items()),
        *(line(model, rate, resolution_px=384) for model, rate in [("a", 9.0), ("b", 3.0)]),
        line("a", 1.0, device="T4"),
    ]
    shown = study_of(*rows)["distribution"]
    assert shown.finding == (
        "The fastest model is 3.00 to 5.00 times as fast as the slowest, in 2 settings."
    )
    assert shown.lines == (
        ("224 px, batch 4", "A100", "20.0", "40.0", "60.0", "80.0", "100", "5"),
        ("384 px, batch 4", "A100", "3.00", "4.50", "6.00", "7.50", "9.00", "2"),
    )
    assert "distribution" not in study_of(rows[0])


def test_machines_with_one_short_name_stand_apart_and_a_finding_names_its_mode_once() -> None:
    devices = [f"Intel(R) Xeon(R) Processor @ 2.{digit}0GHz" for digit in "18"]
    pair: dict[str, Any] = {"candidate": "predict_xla", "baseline": "predict_graph"}
    rows = [
        line(f"m{rate}", float(rate), device=device, scenario="predict", **pair)
        for device in devices
        for rate in range(1, 7)
    ]
    made = study_of(*rows)
    assert [cells[1] for cells in made["fastest"].lines] == devices
    assert made["fastest"].finding.startswith("The fastest model (model.predict with XLA) in 1")
    assert made["agreement"].finding == "Kendall's tau between devices: 1.00 at 224 px."


def test_pairs_without_an_inversion_are_an_answer_too() -> None:
    small = line("v2", 80.0, family="MobileNetV2", params=3.5e6)
    large = line("v1", 40.0, family="MobileNetV1", params=4.2e6)
    shown = study_of(small, large)["inversions"]
    assert shown.lines == ()
    words = "Pairs of a line in which the larger model is faster"
    assert shown.finding == f"{words}: XLA 0 of 1, graph 0 of 1."
    there = [{**row, "device": "T4"} for row in (small, {**large, "throughput_low": 99.0})]
    shown = study_of(small, large, *there)["inversions"]
    assert shown.finding.endswith(
        "XLA 1 of 2, graph 0 of 2. By device, with XLA: A100 0 of 1, T4 1 of 1."
    )
    assert "inversions" not in study_of(small)


PRINTED = Path(__file__).parents[1] / "data" / "published_tables.csv"
"""The five tables of the README of github.com/sayakpaul/keras-xla-benchmarks (Apache-2.0)."""


def printed_in(table: int) -> dict[tuple[str, int, str], str]:
    """The figures of a table as they are printed, by model, resolution and device."""
    text = PRINTED.read_text(encoding="utf-8")
    lines = [line for line in csv.DictReader(text.splitlines()) if int(line["table"]) == table]
    names = {word: entry.name for entry in load_catalog().values() for word in entry.aliases}
    names |= {"regnetx_016": "regnetx_002"}  # what the study built under that name
    return {
        (
            names.get(line["model_variant"], line["model_variant"]),
            int(line["resolution"]),
            published.ACCELERATORS[line["accelerator"]],
        ): line["printed"]
        for line in lines
    }


def best_of_families(name: str) -> dict[tuple[str, int, str], float]:
    """The row of each family with the highest speedup on the A100 at 224 px, published last."""
    best: dict[str, tuple[float, str]] = {}
    rows = [row for row in published.study() if row.trial.device == "NVIDIA A100"]
    for row in answers(rows):
        figure = value_of(row, name)
        if row.trial.resolution_px == 224 and figure is not None:
            best[row.trial.family] = max(
                best.get(row.trial.family, (0.0, "")), (figure, row.trial.model)
            )
    return {(model, 224, "NVIDIA A100"): figure for figure, model in best.values()}


def test_the_studys_tables_of_throughput_follow_from_the_published_rows() -> None:
    rows = [row for row in published.study() if row.trial.source == "applications"]
    entries = ranking.entries_of(plain_columns(rows))
    made = ranking.at_places(entry for entry in entries if entry.mode == "xla")
    by_gpu = {
        (own[0].model, place.resolution_px, place.device): own[0].value
        for place, own in made.items()
    }
    printed = {key: float(figure) for key, figure in printed_in(2).items()}
    assert by_gpu == printed
    by_size = itertools.groupby(sorted(by_gpu, key=lambda key: key[1]), lambda key: key[1])
    overall = [max(group, key=lambda key: by_gpu[key]) for _, group in by_size]
    best = {key: float(figure) for key, figure in printed_in(1).items()}
    assert [(key, by_gpu[key]) for key in overall] == [*best.items()]


@pytest.mark.parametrize(
    ("table", "name"),
    [(3, "absolute_speedup_samples_per_s"), (4, "speedup_percent"), (5, "speedup_percent")],
)
def test_the_studys_tables_of_speedups_follow_from_the_published_rows(
    table: int, name: str
) -> None:
    best, printed = best_of_families(name), printed_in(table)
    for key, figure in printed.items():
        decimals = len(figure.partition(".")[2])
        assert best[key] == pytest.approx(float(figure), abs=0.6 * 10**-decimals, rel=2e-6), key
    others = {model for model, _, _ in best} - {model for model, _, _ in printed}
    hub = {"deit_small_distilled_patch16_224", "mixer_b32", "swin_s3_small_224", "vit_b16"}
    assert others == {3: {"mixer_b32"}, 4: hub, 5: {"mobilenet_v3_small"}}[table]


def test_published_rows_are_never_more_sure_than_single_measurements() -> None:
    rows = published.study()
    assert len(rows) == 116
    pairs = [row for row in rows if row.speedup.value is not None]
    assert len(pairs) == 45
    assert {row.baseline.mode for row in pairs} == {"eager"}
    assert {str(row.speedup.verdict) for row in pairs} == {"ambiguous"}
    assert all(row.speedup.low is None and row.flags for row in rows)


def test_a_run_that_contradicts_another_has_its_own_row_and_ranks_nowhere() -> None:
    rows = [row for row in published.study() if row.trial.model == "mixer_b32"]
    a100 = [row for row in rows if row.trial.device == "NVIDIA A100"]
    assert sorted(round(row.speedup.value or 0, 2) for row in a100) == [1.04, 1.75]
    entries = ranking.entries_of(plain_columns(a100[::-1]))
    rates = {entry.mode: entry.value for entry in entries}
    assert rates == {"xla": 1539.56, "eager": 879.1}


def test_published_figures_show_inversions_without_an_interval() -> None:
    rows = published.study()
    (table,) = [table for table in study.of_rows(rows) if table.key == "inversions"]
    assert all(cells[-1].endswith("× ○") for cells in table.lines)
    assert table.note.endswith("(○) published: single measurements without an interval.")
