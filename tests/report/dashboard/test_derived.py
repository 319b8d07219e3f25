"""Columns that the page's data has, and its script does not compute."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from dashboard_page import table_of
from synthetic_rows import Row, base_row, compared

from xla_sweeps.report.dashboard import build, derived
from xla_sweeps.report.dashboard.derived import bands_of, facts_of, numbers_of, scenarios_of
from xla_sweeps.schema.measurement import Status


def derived_of(rows: Sequence[Row], column: str) -> Any:
    return derived.with_derived(table_of(rows))[column]


FASTER = compared(100.0, 150.0, 0.01)


def test_images_to_break_even_are_infinite_for_never_and_missing_where_it_is_open() -> None:
    costs = {"compile_s_extra": 9.0, "break_even_calls": 10.0, "batch_size": 4, "samples": 4}
    rows = [
        base_row(**costs) | FASTER,
        base_row(**{**costs, "break_even_calls": None}) | compared(100.0, 50.0, 0.01),
        base_row(**costs) | compared(100.0, 101.0, 0.2) | {"verdict": "ambiguous"},
    ]
    column = derived_of(rows, "break_even_images")
    images = column.to_pylist()
    assert images[:2] == [40.0, math.inf]
    assert math.isnan(images[2])
    assert math.isinf(build._round_bits(column.to_numpy()).view("<f4")[1])


def test_a_suffix_tells_rows_of_one_name_apart_by_the_plainest_column() -> None:
    same = base_row(trial_id="0" * 16, effort="quick", results="A") | FASTER
    changes: tuple[dict[str, Any], ...] = (
        {"modes": "eager,graph,xla"},
        {"modes": "graph,xla"},
        {"effort": "standard"},
        {"trial_id": "f" * 16, "effort": "standard"},
        {"results": "B"},
        {"model": "another"},
        {"runtime": "xla_flags.x=1"},
    )
    rows = [same | change for change in changes]
    assert derived_of(rows, "suffix").to_pylist() == [
        " · A · quick · eager,graph,xla",
        " · A · quick · graph,xla",
        " · A · standard · 00000000",
        " · A · standard · ffffffff",
        " · B",
        "",
        " · A · xla_flags.x=1",
    ]
    assert set(derived_of(rows, "suffix_asked").to_pylist()) == {"", " · xla_flags.x=1"}


@pytest.mark.parametrize(
    ("changes", "marks"),
    [
        ({}, ""),
        ({"status": "contaminated", "replicates": 2, "host_bound": 1}, "~* h"),
        ({"flags": "drift slow_on_new_inputs:eager slow_on_new_inputs:xla"}, " n"),
        ({"flags": "slow_on_new_inputs:graph", "host_bound": 1}, " h n"),
        ({"flags": "slow_on_new_inputs:eager"}, ""),
    ],
)
def test_a_rows_marks_are_of_its_two_modes(changes: dict[str, Any], marks: str) -> None:
    assert derived_of([base_row() | FASTER | changes], "marks").to_pylist() == [marks]


def test_devices_have_short_names_in_the_data_that_tell_them_apart() -> None:
    short = {
        "AMD EPYC 9654 96-Core Processor": "EPYC 9654",
        "NVIDIA H100 80GB HBM3 MIG 1g": "NVIDIA H100 80GB HBM3 MIG 1g",
        "NVIDIA H100 80GB HBM3 MIG 3g": "NVIDIA H100 80GB HBM3 MIG 3g",
    }
    rows = [base_row(device=device) | FASTER for device in short]
    raw = gzip.decompress(build.pack(table_of(rows), {}))
    header = json.loads(raw[4 : 4 + int.from_bytes(raw[:4], "little")])
    assert header["short"] == short


def test_rows_share_the_number_of_their_question_and_the_preferred_one_answers() -> None:
    first = base_row(trial_id="a" * 16, replicates=3) | FASTER
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"trial_id": "b" * 16, "replicates": 5},
        {"trial_id": "c" * 16, "replicates": 5, "measured_at": "2027-01-01T00:00:00+00:00"},
        {"device": "another", "trial_id": "d" * 16},
        {"candidate": "graph_2"},
    )
    numbers = numbers_of(table_of([first | change for change in changes]))
    assert numbers["question"] == [0, 0, 0, 1, 2]
    assert numbers["like"] == [0, 0, 0, 1, 0], "whatever the modes"
    assert numbers["trial"] == [0, 1, 2, 3, 0]
    assert numbers["preference"] == [0, 1, 2, 0, 0]
    assert numbers["twin"] == [0, 0, 0, 0, 1]


def test_scenarios_have_their_pairs_the_own_first_those_across_engines_last_no_copies() -> None:
    rows = [
        base_row(scenario=scenario, baseline=baseline, candidate=candidate, origin=origin) | FASTER
        for scenario, baseline, candidate, origin in (
            ("call", "graph", "jax_xla", "imported"),
            ("call", "jax_eager", "jax_xla", "imported"),
            ("call", "eager", "xla", "imported"),
            ("call", "graph", "xla", "imported"),
            ("call", "graph", "graph_2", "imported"),
            ("call", "graph", "autocluster", "imported"),
            ("call", "eager", "xla", "measured"),
            ("predict", "predict_graph", "predict_xla", "measured"),
            ("predict", "predict_graph", "predict_xla", "measured"),
        )
    ]
    assert dict(scenarios_of(table_of(rows))) == {
        "predict": [("predict_graph", "predict_xla", ["measured"])],
        "call": [
            ("graph", "xla", ["imported"]),
            ("graph", "autocluster", ["imported"]),
            ("eager", "xla", ["imported", "measured"]),
            ("jax_eager", "jax_xla", ["imported"]),
            ("graph", "jax_xla", ["imported"]),
        ],
    }
    assert [scenario for scenario, _ in scenarios_of(table_of(rows))] == ["predict", "call"]


def test_a_band_is_the_widest_of_what_was_measured_on_a_device() -> None:
    rows = [
        base_row(trial_id=f"{place:016}", device="A", **change) | compared(1.0, 2.0, 0.01)
        for place, change in enumerate(({}, {"candidate": "graph_2"}, {"origin": "imported"}))
    ]
    for row, floor in zip(rows, (0.01, 0.03, 0.5), strict=True):
        row["floor"] = floor
    table = table_of(rows)
    assert bands_of(table, numbers_of(table)["twin"]) == [
        {"scenario": "call", "device": "A", "trials": 3, "floor": 0.03, "twins": 1}
        | {"contaminated": "0 of 2"}
    ]


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (["2026-11-05", "2026-11-05"], "5 Nov 2026"),
        (["2026-11-01", "2026-11-05"], "1–5 Nov 2026"),
        (["2026-10-28", "2026-11-05"], "28 Oct–5 Nov 2026"),
        (["2025-11-05", "2026-11-05"], "5 Nov 2025–5 Nov 2026"),
        ([], ""),
        (["2026-11-01", "later"], ""),
    ],
)
def test_the_days_of_what_was_measured_are_said_once(days: list[str], said: str) -> None:
    rows = [base_row(measured_at=f"{day}T12:00:00+00:00", software="TF") for day in days]
    published = base_row(origin="imported", measured_at="2020-01-01T00:00:00+00:00")
    facts = facts_of(table_of([*rows, published]))
    assert facts["when"] == said
    assert dict(facts["facts"])["Software"] == ("TF" if days else "")


def test_noise_spread_clocks_heat_and_waiting_are_told_of_a_device() -> None:
    facts: list[dict[str, Any]] = [
        {"cv_percent": 1.0, "within_percent": 1.0, "between_percent": 2.0, "host_bound": 0.9},
        {"cv_percent": 6.0, "within_percent": 2.0, "between_percent": 1.0},
        {"cv_percent": 3.0, "sm_clock_mhz_low": 1665, "sm_clock_mhz_high": 1980},
        {"sm_clock_mhz_low": 1755, "sm_clock_mhz_high": 1800, "temperature_high": 60},
    ]
    group = ("call", "A GPU")
    rows = [{"scenario": "call", "device": "A GPU", "status": Status.OK, **one} for one in facts]
    rows[0]["status"] = Status.CONTAMINATED
    rows.append({**rows[1], "device": "Another", "cv_percent": 50.0})
    names = ("scenario", "device", *derived._QUIET)
    columns = {name: [row.get(name) for row in rows] for name in names}
    assert derived._quiet_facts(columns, group) == {
        "contaminated": "1 of 4",
        "waiting": "1 of 4",
        "noise": "3 %",
        "between": "1 of 2",
        "clocks": "1,665 to 1,980 MHz",
        "heat": "60 °C",
    }
