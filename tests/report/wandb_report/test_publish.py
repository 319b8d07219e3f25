"""Publishing a report with the real client: written, read back, updated, refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from factories import make_record
from wandb_reports import blocks, measure, only, report, texts, uploaded
from wandb_server import WandbServer, log_in, wandb_server

from xla_sweeps.analysis.overview import overview
from xla_sweeps.cli import compare, main, results
from xla_sweeps.errors import StoreError
from xla_sweeps.report import changes
from xla_sweeps.report.advice import overall_answer
from xla_sweeps.report.wandb_report import chart, publish
from xla_sweeps.store.rows import load
from xla_sweeps.store.table import rows_of

NO_NETWORK = """
import os, socket
def refuse(self, address, *rest):
    if self.family != socket.AF_UNIX:
        open(os.environ["TOUCHED"], "a").write(repr(address))
        raise OSError("no network here")
socket.socket.connect = socket.socket.connect_ex = refuse
"""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A report that was written, and what the command said."""

    server: WandbServer
    results_dir: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def publish_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Published]]:
    """Writes a report of three trials, whose runs were uploaded or not, to be read."""
    made: dict[bool, Published] = {}
    with ExitStack() as stack:

        def make(uploaded: bool) -> Published:
            if uploaded not in made:
                folder = tmp_path_factory.mktemp("published")
                with pytest.MonkeyPatch.context() as patch:
                    server = stack.enter_context(wandb_server())
                    log_in(server, folder / "home", patch)
                    made[uploaded] = published(server, folder / "r", uploaded=uploaded)
            return made[uploaded]

        yield make


def published(server: WandbServer, results_dir: Path, *, uploaded: bool) -> Published:
    measure(results_dir, "a", "b", "c")
    if uploaded:
        assert results.push_command([str(results_dir)]) == 0
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        assert report(results_dir) == 0
    return Published(server=server, results_dir=results_dir, out=out.getvalue(), err=err.getvalue())


PublishOnce = Callable[[bool], Published]


def test_report_and_summary_run_are_uploaded_completely(
    publish_once: PublishOnce,
) -> None:
    made = publish_once(False)
    server = made.server
    assert server.unknown == []
    view = only(server.pages.of_type("runs"))
    (run,) = server.runs.values()
    assert made.out.splitlines() == [
        f"report     {server.url}/tester/xla-sweeps/reports/XLA-on-or-off---xla-sweeps--{view.id} "
        "(new)",
        f"summary    {server.url}/tester/xla-sweeps/runs/{run.name}",
    ]
    assert "3 of 3 trials may not be on W&B" in made.err

    questions = [block["children"][0]["text"] for block in blocks(view, "heading")]
    assert questions == [
        "Should I turn XLA on?",
        "Where does it help?",
        "Which model is fastest?",
        "Is it just FLOPs?",
        "What does XLA cost, and when does it pay back?",
        "Everything",
    ]
    assert "- devices: Some CPU" in texts(view)
    figures = overview(rows_of(load(made.results_dir).table))
    assert overall_answer(figures) in texts(view)
    assert "computed from all 3 trials" in texts(view)

    assert (run.job_type, run.state, run.exit_code) == ("summary", "finished", 0)
    assert run.summary["geomean"] == pytest.approx(figures.geomean)
    assert (run.summary["faster"], run.summary["trials"]) == (figures.faster, 3)
    assert {(artifact.type, artifact.state) for artifact in server.pages.artifacts.values()} == {
        ("run_table", "COMMITTED"),
        ("dataset", "COMMITTED"),
        ("report", "COMMITTED"),
    }
    files = uploaded(server)
    assert files["dashboard.html"].startswith(b"<!doctype html>")
    assert (
        files["comparison.parquet"]
        == (made.results_dir / "wandb" / "comparison.parquet").read_bytes()
    )
    table = json.loads(files["comparison.table.json"])
    model = table["columns"].index("model")
    assert [row[model] for row in table["data"]] == ["a", "b", "c"]
    assert tuple(table["columns"]) == (chart.BAR, *publish.TABLE_COLUMNS)
    assert [row[0] for row in table["data"]] == [f"{name} · Some" for name in "abc"]


def test_panels_use_keys_that_runs_have_and_show_trials_alone(
    publish_once: PublishOnce, tmp_path: Path
) -> None:
    from xla_sweeps.report.wandb.payload import SUMMARY_KEYS
    from xla_sweeps.trial.tracking import run_header

    server, record = publish_once(False).server, make_record()
    scalars = run_header(
        record.trial,
        record.tracker,
        trial_id="0" * 16,
        device_kind="cpu",
        device_name="d",
        environment={},
        results_dir=tmp_path,
    ).scalars
    keys = {f"config:{name}.value" for name in scalars} | {f"{name}.value" for name in scalars}
    keys |= {f"summary:{name}" for name in SUMMARY_KEYS} | set(SUMMARY_KEYS)
    keys |= {"summary:throughput_graph", "throughput_graph", "run:displayName"}
    filters, shown = [], []
    for grid in blocks(only(server.pages.of_type("runs")), "panel-grid"):
        for runset in grid["metadata"]["runSets"]:
            filters.append(
                {
                    condition["key"]["name"]: condition["value"]
                    for condition in runset["filters"]["filters"]
                }
            )
            assert runset["grouping"] == []
            assert set(runset["runFeed"]["columnOrder"]) <= keys
            assert runset["project"] == {"name": "xla-sweeps", "entityName": "tester", "id": "42"}
        shown += grid["metadata"]["panelBankSectionConfig"]["panels"]
    for panel in shown:
        config = panel["config"]
        used = [
            config.get("xAxis"),
            config.get("yAxis"),
            config.get("groupBy"),
            *config.get("metrics", []),
        ]
        used += [column["accessor"] for column in config.get("columns", [])]
        assert {name for name in used if name} <= keys
        if panel["viewType"] == "Bar Chart":
            assert config.get("limit") == 25 or config["groupBy"]
        if panel["viewType"] == "Scatter Plot":
            below_0 = config["yAxis"].endswith("speedup_log2")
            assert bool(config.get("yAxisLogScale")) != below_0
    assert len(shown) == 10, "eight, the stored chart and the table of the summary run"
    (summary,) = server.runs
    assert [each for each in filters if each.get("jobType") != "trial"] == [{"name": summary}] * 2


def test_panels_with_means_show_runs_of_one_setting(publish_once: PublishOnce) -> None:
    server = publish_once(True).server
    run = next(run for run in server.runs.values() if run.job_type == "trial")
    (filters,) = [
        grid["metadata"]["runSets"][0]["filters"]["filters"]
        for grid in blocks(only(server.pages.of_type("runs")), "panel-grid")
        for panel in grid["metadata"]["panelBankSectionConfig"]["panels"]
        if panel["config"].get("groupBy")
    ]
    setting = {
        each["key"]["name"].removesuffix(".value"): each["value"]
        for each in filters
        if each["key"]["section"] == "config"
    }
    names = {"accelerator", "resolution", "batch_size", "precision", "scenario"}
    assert set(setting) == names | {"tf32", "pretrained"}
    assert {name: setting[name] for name in names} == {name: run.config[name] for name in names}
    for name in (
        "tf32",
        "pretrained",
    ):  # which earlier runs lack
        assert (setting[name], run.config[name]) == (True, False)
    assert {each["op"] for each in filters if each["value"] is True} == {"!="}
    summary = {i["key"]["name"]: i["value"] for i in filters if i["key"]["section"] == "summary"}
    assert (summary["baseline"], summary["candidate"]) == ("graph", "xla")
    assert run.summary["baseline"] == "graph"


def test_a_devices_name_reaches_the_filters_unchanged(tmp_path: Path) -> None:
    device = "Bob's \"A100\" = b <= c > d \\ Ärger ×2 #') within_last 5 days"
    setting = {
        "device": device,
        "resolution_px": 224,
        "batch_size": 1,
        "precision": "float32",
        "scenario": "call",
        "batches": 1,
        "keras": "",
        "optimizer": "",
        "data": "",
        "runtime": "",
        "title": "t",
    }
    names = ("entity", "project", "title", "description", "marker", "header", "run_id")
    section: dict[str, Any] = {"question": "q", "text": "t", "setting": setting}
    sections = [
        {**section, "key": "where", "scenario": "call"},
        {**section, "key": "cost", "scenario": "train_step"},
        {**section, "key": "answer", "scenario": "predict"},
        {**section, "key": "compare", "scenario": "call"},
    ]
    plan = {**dict.fromkeys(names, "x"), "sections": sections}
    spec = publish.spec(plan, log=tmp_path / "wandb" / "report.log")
    blocks = spec["report"]["spec"]["blocks"]
    grid, *others = [block for block in blocks if block["type"] == "panel-grid"]
    others, compared = others[:3], others[3:]
    for other, scenario in zip(others, ("train_step", "predict", "predict"), strict=True):
        filters = other["metadata"]["runSets"][0]["filters"]["filters"]
        values = {condition["key"]["name"]: condition["value"] for condition in filters}
        assert values["scenario.value"] == scenario
        assert values["candidate"] == ("predict_xla" if scenario == "predict" else "xla")
    for other, varied in zip(compared, ("accelerator", "resolution", "batch_size"), strict=True):
        filters = other["metadata"]["runSets"][0]["filters"]["filters"]
        held = {
            condition["key"]["name"]
            for condition in filters
            if condition["key"]["section"] == "config"
        }
        columns = {"accelerator", "resolution", "batch_size", "precision", "scenario", "tf32"}
        assert held == {f"{name}.value" for name in columns - {varied}}
        (panel,) = other["metadata"]["panelBankSectionConfig"]["panels"]
        assert panel["config"]["groupBy"] == f"{varied}.value"
    filters = grid["metadata"]["runSets"][0]["filters"]["filters"]
    values = {condition["key"]["name"]: condition["value"] for condition in filters}
    assert values["accelerator.value"] == device
    assert values["batch_size.value"] == 1
    assert (values["scenario.value"], values["candidate"]) == ("call", "xla")


def test_batches_tell_runs_apart_where_a_call_may_take_several(tmp_path: Path) -> None:
    facts = {"device": "d", "resolution_px": 224, "batch_size": 1, "batches": 3, "title": "t"}
    names = ("entity", "project", "title", "description", "marker", "header", "run_id")
    sections = [
        {
            **{"key": "where", "question": "q", "text": "t", "scenario": scenario},
            "setting": {**facts, "scenario": scenario},
        }
        for scenario in ("call", "predict", "train_step", "fit")
    ]
    plan = {**dict.fromkeys(names, "x"), "sections": sections}
    spec = publish.spec(plan, log=tmp_path / "wandb" / "report.log")
    grids = [one for one in spec["report"]["spec"]["blocks"] if one["type"] == "panel-grid"]
    values = [
        {condition["key"]["name"]: condition["value"] for condition in runs["filters"]["filters"]}
        for grid in grids
        for runs in grid["metadata"]["runSets"]
    ]
    held = {value["scenario.value"]: value.get("batches.value") for value in values}
    assert held == {"call": None, "predict": 3, "train_step": None, "fit": 3}


def test_the_same_report_again_adds_nothing_and_new_results_update_it_and_no_other(
    server: WandbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "r", "a", "b")
    report(tmp_path / "r")
    first = {name: view.spec for name, view in server.pages.views.items()}
    report(tmp_path / "r")
    capsys.readouterr()
    assert {name: view.spec for name, view in server.pages.views.items()} == first
    assert {view.saved for view in server.pages.views.values()} == {2}
    assert sorted(artifact.type for artifact in server.pages.artifacts.values()) == [
        "dataset",
        "report",
        "run_table",
    ]
    assert [len(run.rows) for run in server.runs.values()] == [1]
    view = only(server.pages.of_type("runs"))
    copied = replace(
        view, id="Q29weTo5OTk=", created_at="2026-02-02T00:00:00Z", spec={"blocks": []}
    )
    own = replace(
        view,
        id="T3duOjk5OQ==",
        description="my own",
        created_at="2025-01-01T00:00:00Z",
        spec={"blocks": []},
    )
    server.pages.views |= {view.id: view for view in (copied, own)}
    measure(tmp_path / "r", "c", day=2)
    report(tmp_path / "r")
    assert capsys.readouterr().out.count("(updated)") == 1
    assert "Computed from 3 trials" in view.description
    assert (copied.saved, own.saved) == (2, 2), "as they were copied"
    assert len(server.runs) == 1
    (run,) = server.runs.values()
    assert (run.summary["trials"], len(run.rows)) == (3, 2)
    measure(tmp_path / "other", "x", day=3)
    report(tmp_path / "other")
    assert len(server.pages.of_type("runs")) == 4, "other results have their own report"
    assert len(server.runs) == 2


def test_a_report_of_an_older_version_is_recognized_and_replaced(
    server: WandbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Marker and run id as earlier versions wrote them for these results."""
    measure(tmp_path / "r", "a", "b")
    report(tmp_path / "r")
    view = only(server.pages.of_type("runs"))
    old = replace(
        view,
        description="Computed from 2 trials by xla-sweeps 0.1.0. [xla-sweeps:85b5ab26fabf]",
        spec={"blocks": []},
    )
    server.pages.views[view.id] = old
    capsys.readouterr()
    report(tmp_path / "r")
    assert only(server.pages.of_type("runs")) is old
    assert "(updated)" in capsys.readouterr().out
    assert blocks(old, "heading")
    assert {run.name for run in server.runs.values()} == {"summary-85b5ab26fabf"}


def test_a_table_that_is_too_long_is_cut_with_a_note(
    server: WandbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "TABLE_ROWS", 2)
    measure(tmp_path / "r", "a", "b", "c")
    report(tmp_path / "r", entity="team", project="p")
    view = only(server.pages.of_type("runs"))
    assert (view.entity, view.project) == ("team", "p")
    assert "The table has the first 2 of 3 rows" in texts(view)
    (run,) = server.runs.values()
    assert (run.summary["table_rows"], run.summary["headline_rows"]) == (2, 3)
    assert run.summary["comparison"]["nrows"] == 2


def test_too_many_rows_for_a_page_omit_the_page(
    server: WandbServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("xla_sweeps.report.dashboard.build.MAX_ROWS", 2)
    measure(tmp_path / "r", "a")
    assert report(tmp_path / "r") == 0
    assert (
        "warning: the summary run gets no page: dashboard: 3 rows are more than a page holds"
        in capsys.readouterr().err
    )
    assert sorted(artifact.type for artifact in server.pages.artifacts.values()) == [
        "dataset",
        "run_table",
    ]


def test_a_dry_run_needs_no_account_and_no_network(server: WandbServer, tmp_path: Path) -> None:
    measure(tmp_path / "r", "a", "b")
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "nobody"),
        "WANDB_BASE_URL": server.url,
        "PYTHONPATH": str(tmp_path),
        "TOUCHED": str(tmp_path / "touched"),
    }
    command = [sys.executable, "-m", "xla_sweeps", "report", str(tmp_path / "r"), "--dry-run"]
    printed = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (printed.returncode, printed.stderr) == (0, "")
    written = subprocess.run(
        [*command, "-o", "spec.json"], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    assert (tmp_path / "spec.json").read_text() == printed.stdout, (
        "the same results give the same text"
    )
    spec = json.loads(printed.stdout)
    assert spec["report"]["displayName"] == "XLA on or off - xla-sweeps"
    assert not (tmp_path / "touched").exists()
    assert server.backend.operations == []


def test_what_changed_since_other_results_is_a_section_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "old", "b", "a")
    measure(tmp_path / "new", "a", "b")
    assert report(tmp_path / "new", dry_run=True, against=tmp_path / "old") == 0
    told = json.loads(capsys.readouterr().out)["report"]["spec"]["blocks"]
    questions = [block["children"][0]["text"] for block in told if block["type"] == "heading"]
    assert questions[-2:] == ["What changed?", "Everything"]
    (text,) = [block["content"] for block in told if "against" in str(block.get("content"))]
    assert text.startswith("**new (B) against old (A)**")
    compared = changes.summary(compare.between(tmp_path / "old", tmp_path / "new"))
    assert compared[0] in text
    assert "| xla / graph speedup | 2.0" in text
    with pytest.raises(StoreError, match="none holds no records; measure first"):
        report(tmp_path / "new", dry_run=True, against=tmp_path / "none")


def test_published_figures_rank_beside_ones_own_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "r", "a")
    monkeypatch.setattr(publish, "spec", lambda plan, *, log: plan)
    plans = []
    for asked in ((), ("--with-published",)):
        assert main.run(["report", str(tmp_path / "r"), "--dry-run", *asked]) == 0
        plans.append(json.loads(capsys.readouterr().out))
    texts = [{one["key"]: one.pop("text") for one in plan["sections"]} for plan in plans]
    assert plans[0] == plans[1]
    assert [key for key, text in texts[0].items() if text != texts[1][key]] == ["fastest"]
    assert "| A100, published | " in texts[1]["fastest"]
    assert "A100" not in texts[0]["fastest"]


def test_a_missing_requirement_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    measure(tmp_path / "r", "a")

    def complaint(*arguments: str) -> str:
        assert main.run(["report", str(tmp_path / "r"), *arguments]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.count("\n") == 1
        return told.err

    assert "run `wandb login` or set WANDB_API_KEY" in complaint()
    assert "-o is for the JSON of --dry-run" in complaint("-o", "x.json")
    assert "cannot read a project named sweeps; choose another with --project" in complaint(
        "--dry-run", "--project", "sweeps"
    )
    (tmp_path / "r" / "wandb").write_text("in the way")
    assert main.run(["report", str(tmp_path / "r"), "--dry-run"]) == 0  # it writes nothing there
    assert capsys.readouterr().err == ""
    (tmp_path / "r" / "wandb").unlink()
    assert "cannot write /nowhere/x.json" in complaint("--dry-run", "-o", "/nowhere/x.json")
    measure(tmp_path / "r", "b", project="other")
    assert "several W&B projects (other, xla-sweeps): choose with --project" in complaint(
        "--dry-run"
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install wandb-workspaces, or pip install '.[report]'" in complaint("--dry-run")
