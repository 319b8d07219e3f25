"""The stored chart of the W&B report: what it draws, and that it is made once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from report_rows import failed, pair
from wandb_reports import blocks, measure, only, report
from wandb_server import WandbServer

from xla_sweeps.report.wandb_report import chart
from xla_sweeps.schema.row import ComparisonRow, value_of


def panels(server: WandbServer, grid: int) -> list[dict[str, Any]]:
    """The panels of one of the report's grids."""
    metadata = blocks(only(server.pages.of_type("runs")), "panel-grid")[grid]["metadata"]
    return [*metadata["panelBankSectionConfig"]["panels"]]


def drawn(rows: list[ComparisonRow], scenario: str) -> str:
    """The chart of these rows as SVG, with W&B's placeholders filled in as W&B does."""
    words = chart.strings(scenario)
    text = re.sub(r"\$\{string:(\w+)\}", lambda match: words[match[1]], json.dumps(chart.SPEC))
    text = re.sub(r"\$\{field:(\w+)\}", lambda match: chart.FIELDS[match[1]], text)
    values = [
        {
            chart.BAR: bar,
            **{name: value_of(row, name) for name in chart.FIELDS if name != chart.BAR},
        }
        for bar, row in zip(chart.bars(rows), rows, strict=True)
    ]
    spec = json.loads(text) | {"data": {"name": "wandb", "values": values}}
    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


def test_the_chart_sorts_the_bars_of_its_scenario_and_shows_their_intervals() -> None:
    rows = [
        pair(1, 0.5),
        pair(2, 4.0),
        pair(3, 2.0),
        failed(4),
        pair(5, 3.0, scenario="train_step"),
    ]
    svg = drawn(rows, "call")
    assert re.findall(r">(net\d · Some)<", svg) == ["net2 · Some", "net3 · Some", "net1 · Some"]
    assert ">xla over graph, scenario=call<" in svg
    for row in rows[:3]:
        bounds = [value_of(row, name) for name in ("speedup_low", "speedup_high")]
        (told,) = re.findall(rf'<line aria-label="([^"]*: {row.trial.model} [^"]*)"', svg)
        figures = [float(word) for word in re.findall(r": ([\d.]+)(?=;|$)", told)]
        assert {round(bound, 6) for bound in bounds} <= {round(each, 6) for each in figures}
    assert "net5" in drawn(rows, "train_step")


def test_each_question_has_one_bar_with_a_name_of_its_own() -> None:
    again = pair(1, 4.0, trial_id="f" * 16, effort="publish", replicates=6)
    rows = [pair(1, 2.0), again, pair(1, 3.0, batch_size=32), pair(1, 5.0, device="B"), failed(2)]
    names = chart.bars(rows)
    assert [bool(name) for name in names] == [False, True, True, True, False]
    assert names[3] == "net1 · B"
    assert names[1].startswith("net1 · Some · ")
    assert len({*names} - {""}) == 3


def test_the_chart_is_made_once_and_replaces_the_bars_without_intervals(
    server: WandbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "r", "a", "b")
    for _ in range(2):
        assert report(tmp_path / "r") == 0
        assert [*server.backend.charts] == [f"tester/{chart.NAME}"]
        (panel,) = panels(server, 0)
        shown = (panel["viewType"], panel["config"]["panelDefId"])
        assert shown == ("Vega2", f"tester/{chart.NAME}")
    assert "chart" not in capsys.readouterr().err
    (made,) = server.backend.charts.values()
    assert (made["chartType"], made["access"]) == ("vega2", "PRIVATE")
    assert json.loads(made["spec"]) == chart.SPEC
    assert server.backend.operations.count("CreateCustomChart") == 1
    config = panel["config"]
    assert config["fieldSettings"] == chart.FIELDS
    assert config["stringSettings"]["scenario"] == "call"
    (query,) = config["userQuery"]["queryFields"]
    assert {"name": "tableKey", "value": "comparison"}.items() <= query["fields"][0]["args"][
        0
    ].items()
    (run,) = server.runs.values()
    (runset,) = blocks(only(server.pages.of_type("runs")), "panel-grid")[0]["metadata"]["runSets"]
    assert [one["value"] for one in runset["filters"]["filters"]] == [run.name]
    assert not any(
        panel["viewType"] == "Bar Chart"
        for panel in panels(server, 1)
        if panel["config"].get("limit")
    )


def test_a_chart_that_other_results_made_is_used(server: WandbServer, tmp_path: Path) -> None:
    for day, name in enumerate("ab", start=1):
        measure(tmp_path / name, name, day=day)
        assert report(tmp_path / name) == 0
    assert [*server.backend.charts] == [f"tester/{chart.NAME}"]
    assert len(server.runs) == 2
    kept = [chart.NAME, f"tester/{chart.NAME}"]
    assert [run.summary["xla_sweeps_chart"] for run in server.runs.values()] == [kept, kept]


def test_without_a_stored_chart_the_highest_and_the_lowest_bars_stay(
    server: WandbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "r", "a", "b")
    server.fail_with(403, when=lambda path, body: "createCustomChart" in body)
    assert report(tmp_path / "r") == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "chart" in line]
    assert line.startswith("warning: W&B stored no chart of the speedups (")
    assert line.endswith(
        "the report shows the highest and the lowest ones instead, without intervals"
    )
    for number, ascending in ((0, False), (1, True)):
        (panel,) = panels(server, number)
        assert (panel["config"]["metrics"], panel["config"]["limit"]) == (["speedup_log2"], 25)
        grid = blocks(only(server.pages.of_type("runs")), "panel-grid")[number]
        (key,) = grid["metadata"]["runSets"][0]["sort"]["keys"]
        assert (key["key"]["name"], key["ascending"]) == ("speedup_log2", ascending)
    server.heal()
    assert report(tmp_path / "r") == 0
    assert panels(server, 0)[0]["viewType"] == "Vega2"
