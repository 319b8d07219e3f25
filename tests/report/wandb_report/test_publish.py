"""Publishing a report with the real client: written, read back, updated, refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from factories import make_record
from programs import run_program
from wandb_reports import blocks, measure, only, report, texts, uploaded
from wandb_server import WandbServer, log_in, wandb_server
from wandb_views import StoredView

from xla_sweeps.analysis.overview import overview
from xla_sweeps.cli import compare, main, results
from xla_sweeps.errors import StoreError
from xla_sweeps.report import changes
from xla_sweeps.report.overall import overall_answer
from xla_sweeps.report.run_content import SUMMARY_KEYS
from xla_sweeps.report.wandb_report import publish
from xla_sweeps.store.rows import load
from xla_sweeps.store.table import rows_of
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.trial.tracking import run_header

NO_NETWORK = """
import os, socket
def refuse(self, address, *rest):
    if self.family != socket.AF_UNIX:
        open(os.environ["TOUCHED"], "a").write(repr(address))
        raise OSError("no network here")
socket.socket.connect = socket.socket.connect_ex = refuse
"""

OF_A_SWEEP = {"SWEEP_ID": "s1", "RUN_ID": "agentrun", "RUN_GROUP": "g", "MODE": "offline"}
"""Variables that would make the summary run another one."""

HEADINGS = [
    "Should I turn XLA on?",
    "Where does it help?",
    "Which model is fastest?",
    "Is it just FLOPs?",
    "What does XLA cost, and when does it pay back?",
    "Everything",
]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A report that was written, as the server had it then, and what the command said."""

    url: str
    view: StoredView
    runs: dict[str, Any]
    files: dict[str, bytes]
    kinds: list[tuple[str, str]]
    unknown: list[str]
    links: list[tuple[str, ...]]
    out: str
    err: str

    @property
    def summary(self) -> Any:
        """The summary run."""
        (run,) = [run for run in self.runs.values() if run.job_type == "summary"]
        return run


def publish_now(server: WandbServer, results_dir: Path, **options: Any) -> Published:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        assert report(results_dir, **options) == 0
    return Published(
        url=server.url,
        view=deepcopy(only(server.pages.of_type("runs"))),
        runs=deepcopy(server.runs),
        files=uploaded(server),
        kinds=sorted((one.type, one.state) for one in server.pages.artifacts.values()),
        unknown=list(server.unknown),
        links=list(server.pages.links),
        out=out.getvalue(),
        err=err.getvalue(),
    )


@pytest.fixture(scope="module")
def results_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trials, whose runs are on the server."""
    return tmp_path_factory.mktemp("published") / "r"


@pytest.fixture(scope="module")
def reports(results_dir: Path) -> Iterator[list[Published]]:
    """A report, the same again with a registry, and once more with too many rows for a page."""
    with wandb_server() as server, pytest.MonkeyPatch.context() as patch:
        log_in(server, results_dir.parent / "home", patch)
        for name in ("SPEC_S", "STEP_S"):
            patch.setattr(publish, name, 300.0)
        measure(results_dir, "a", "b")
        assert results.push_command([str(results_dir)]) == 0
        for name, value in OF_A_SWEEP.items():
            patch.setenv(f"WANDB_{name}", value)
        made = [publish_now(server, results_dir)]
        made.append(publish_now(server, results_dir, registry="benchmarks"))
        measure(results_dir, "d", day=2)
        with pytest.MonkeyPatch.context() as limits:
            limits.setattr("xla_sweeps.report.dashboard.build.MAX_ROWS", 2)
            made.append(publish_now(server, results_dir, registry="benchmarks"))
        yield made


def unusual(err: str) -> list[str]:
    """Lines on standard error that say no progress."""
    return [line for line in err.splitlines() if not line.endswith("so far")]


def panels(grid: dict[str, Any]) -> list[dict[str, Any]]:
    return [*grid["metadata"]["panelBankSectionConfig"]["panels"]]


def filters(grid: dict[str, Any]) -> list[dict[str, Any]]:
    """The conditions on the only run set of a grid."""
    (runs,) = grid["metadata"]["runSets"]
    return [*runs["filters"]["filters"]]


def test_report_and_summary_run_are_uploaded(reports: list[Published], results_dir: Path) -> None:
    made = reports[0]
    run, view = made.summary, made.view
    assert made.unknown == []
    assert unusual(made.err) == []
    assert made.out.splitlines() == [
        f"report     {made.url}/tester/xla-sweeps/reports/XLA-on-or-off---xla-sweeps--{view.id} "
        "(new)",
        f"summary    {made.url}/tester/xla-sweeps/runs/{run.name}",
    ]
    headings = [block["children"][0]["text"] for block in blocks(view, "heading")]
    assert headings == HEADINGS
    told = texts(view)
    rows = [row for row in rows_of(load(results_dir).table) if row.trial.model != "d"]
    assert overall_answer(overview(rows)) in told
    assert "- devices: Some CPU" in told
    assert f"[summary run]({made.url}/tester/xla-sweeps/runs/{run.name})" in told
    assert "computed from 2 trials" in told
    assert (run.state, run.exit_code, run.sweep, run.group) == ("finished", 0, "", "")
    assert run.name.startswith("summary-")
    assert run.summary["geomean"] == pytest.approx(overview(rows).geomean)
    assert run.summary["trials"] == 2
    committed = [(kind, "COMMITTED") for kind in ("dataset", "report")]
    assert made.kinds == committed
    assert made.files["dashboard.html"].startswith(b"<!doctype html>")
    assert made.files["comparison.parquet"].startswith(b"PAR1")
    rows_sent = pyarrow.parquet.read_table(pyarrow.BufferReader(made.files["comparison.parquet"]))
    assert {*rows_sent["model"].to_pylist()} == {"a", "b"}


def test_the_same_report_again_adds_nothing_but_its_link(reports: list[Published]) -> None:
    first, second, _ = reports
    assert second.view.spec == first.view.spec
    assert (second.view.saved, second.kinds) == (2, first.kinds)
    assert (first.links, len(second.links)) == ([], 1)
    assert second.links[0][:3] == (
        *("acme-org", "wandb-registry-benchmarks"),
        f"results-{second.summary.name}",
    )


def test_new_results_update_the_report_and_their_link(reports: list[Published]) -> None:
    _, second, third = reports
    assert "(updated)" in third.out
    assert "run `xla-sweeps push`" in third.err
    assert "1 of 3 trials may not be on W&B" in third.err
    assert "Computed from 3 trials" in third.view.description
    assert third.view.id == second.view.id
    assert third.summary.summary["trials"] == 3
    assert len({link[-1] for link in third.links}) == 2


def test_too_many_rows_omit_the_page(reports: list[Published]) -> None:
    _, second, third = reports
    told = "the summary run gets no page: dashboard: 9 rows are more than a page holds"
    assert told in third.err
    assert third.files["dashboard.html"] == second.files["dashboard.html"], "none was made"


def test_panels_use_keys_that_runs_have_and_show_trials_alone(
    reports: list[Published], tmp_path: Path
) -> None:
    made, record = reports[0], make_record()
    place: dict[str, Any] = {"trial_id": "0" * 16, "results_dir": tmp_path, "environment": {}}
    place |= {"device_kind": "cpu", "device_name": "d"}
    scalars = run_header(record.trial, record.tracker, **place).scalars
    keys = {f"config:{name}.value" for name in scalars} | {f"{name}.value" for name in scalars}
    keys |= {f"summary:{name}" for name in SUMMARY_KEYS} | set(SUMMARY_KEYS)
    keys |= {"run:displayName"}
    selected = []
    for grid in blocks(made.view, "panel-grid"):
        selected.append({one["key"]["name"]: one["value"] for one in filters(grid)})
        (runs,) = grid["metadata"]["runSets"]
        assert runs["grouping"] == []
        assert set(runs["runFeed"]["columnOrder"]) <= keys
        assert runs["project"] == {"name": "xla-sweeps", "entityName": "tester", "id": "42"}
    shown = [panel for grid in blocks(made.view, "panel-grid") for panel in panels(grid)]
    for panel in shown:
        config = panel["config"]
        names = [config.get(name) for name in ("xAxis", "yAxis", "groupBy")]
        names += config.get("metrics", [])
        names += [column["accessor"] for column in config.get("columns", [])]
        assert {name for name in names if name} <= keys
        if panel["viewType"] == "Bar Chart":
            assert config.get("limit") == 25 or config["groupBy"]
        if panel["viewType"] == "Scatter Plot":
            below_0 = config["yAxis"].endswith("speedup_log2")
            assert bool(config.get("yAxisLogScale")) != below_0
    assert len(shown) == 10
    assert all(one["jobType"] == "trial" for one in selected)


def test_panels_with_means_show_runs_of_one_setting(reports: list[Published]) -> None:
    run = next(run for run in reports[0].runs.values() if run.job_type == "trial")
    (conditions,) = [
        filters(grid)
        for grid in blocks(reports[0].view, "panel-grid")
        for panel in panels(grid)
        if panel["config"].get("groupBy")
    ]
    setting = {
        one["key"]["name"].removesuffix(".value"): one
        for one in conditions
        if one["key"]["section"] == "config"
    }
    off = setting.pop("tf32")
    assert (off["op"], off["value"], run.config["tf32"]) == ("!=", True, False)
    assert {"accelerator", "resolution", "batch_size", "precision", "scenario"} <= setting.keys()
    assert {name: one["value"] for name, one in setting.items()} == {
        name: run.config[name] for name in setting
    }
    values = {one["key"]["name"]: one["value"] for one in conditions}
    assert (values["baseline"], values["candidate"]) == ("graph", "xla")


def test_a_devices_name_reaches_the_filters_unchanged() -> None:
    device = "Bob's \"A100\" = b <= c > d \\ Ärger ×2 #') within_last 5 days"
    values = {"device": device, "resolution_px": 224, "batch_size": 1, "keras": ""}
    setting = {**values, "copies": "together", "scenario": "call", "title": "t"}
    setting["varied"] = ["device", "resolution_px", "batch_size"]
    names = ("entity", "project", "title", "description", "marker", "header")
    section: dict[str, Any] = {"question": "q", "text": "t", "settings": [setting], "pairs": 2}
    asked = {"where": "call", "cost": "train_step", "answer": "predict", "compare": "call"}
    sections = [{**section, "key": key, "scenario": name} for key, name in asked.items()]
    plan = {**dict.fromkeys(names, "x"), "sections": sections}
    spec = publish.spec(plan)
    grids = [one for one in spec["report"]["spec"]["blocks"] if one["type"] == "panel-grid"]
    selected = [
        {condition["key"]["name"]: condition["value"] for condition in filters(grid)}
        for grid in grids
    ]
    where, cost, *answers = selected[:4]
    assert where["accelerator.value"] == device
    assert where["batch_size.value"] == 1
    assert (cost["scenario.value"], cost["candidate"]) == ("train_step", "xla")
    for answer in answers:
        assert (answer["scenario.value"], answer["candidate"]) == ("predict", "predict_xla")
    held = {"accelerator.value", "resolution.value", "batch_size.value"}
    for values, varied in zip(
        selected[4:], ("accelerator", "resolution", "batch_size"), strict=True
    ):
        assert held & values.keys() == held - {f"{varied}.value"}


@pytest.mark.exhaustive
def test_a_copy_and_a_report_of_ones_own_are_left_alone_and_other_results_have_theirs(
    server: WandbServer, tmp_path: Path
) -> None:
    measure(tmp_path / "r", "a", "b")
    report(tmp_path / "r")
    view = only(server.pages.of_type("runs"))
    assert view.description.endswith("[xla-sweeps:85b5ab26fabf]"), "the same for these results"
    late: dict[str, Any] = {"id": "Q29weTo5OTk=", "created_at": "2026-02-02T00:00:00Z"}
    early: dict[str, Any] = {"id": "T3duOjk5OQ==", "created_at": "2025-01-01T00:00:00Z"}
    copied = replace(view, **late, spec={"blocks": []})
    own = replace(view, **early, description="my own", spec={"blocks": []})
    server.pages.views |= {one.id: one for one in (copied, own)}
    measure(tmp_path / "other", "x", day=3)
    for name in ("r", "other"):
        report(tmp_path / name)
    assert (view.saved, copied.saved, own.saved) == (2, 1, 1)
    assert len(server.pages.of_type("runs")) == 4
    assert len(server.runs) == 2


def test_a_dry_run_needs_no_account_and_no_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "r", "a", "b")
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    environment = {"PATH": os.environ["PATH"], "WANDB_BASE_URL": "http://127.0.0.1:9"}
    places = {"HOME": tmp_path / "nobody", "PYTHONPATH": tmp_path, "TOUCHED": tmp_path / "touched"}
    environment |= {name: str(place) for name, place in places.items()}
    words = ["report", str(tmp_path / "r"), "--dry-run"]
    command = (sys.executable, "-m", "xla_sweeps", *words, "-o", "spec.json")
    done = run_program(*command, env=environment, cwd=tmp_path)
    assert (done.stdout, unusual(done.stderr)) == ("", [])
    (tmp_path / "r" / "wandb").write_text("in the way")  # nothing is written there
    assert main.run(words) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "spec.json").read_text() == printed, "the same results give the same text"
    assert json.loads(printed)["report"]["displayName"] == "XLA on or off - xla-sweeps"
    assert not (tmp_path / "touched").exists()


def test_what_changed_since_other_results_is_a_section_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(publish, "spec", lambda plan: plan)
    measure(tmp_path / "old", "b", "a")
    measure(tmp_path / "new", "a", "b")
    asked = {"against": tmp_path / "old", "entity": "team", "project": "p"}
    assert report(tmp_path / "new", dry_run=True, **asked) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["entity"], plan["project"]) == ("team", "p")
    *_, changed, last = plan["sections"]
    assert (changed["question"], last["question"]) == ("What changed?", "Everything")
    assert changed["text"].startswith("**new (B) against old (A)**")
    compared = changes.summary(compare.between(tmp_path / "old", tmp_path / "new"))
    assert compared[0] in changed["text"]
    assert "| xla / graph speedup | 2.0" in changed["text"]
    with pytest.raises(StoreError, match="none holds no records; measure first"):
        report(tmp_path / "new", dry_run=True, against=tmp_path / "none")


def test_published_figures_rank_beside_ones_own_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(tmp_path / "r", "a")
    monkeypatch.setattr(publish, "spec", lambda plan: plan)
    plans = []
    for asked in ((), ("--with-published",)):
        assert main.run(["report", str(tmp_path / "r"), "--dry-run", *asked]) == 0
        plans.append(json.loads(capsys.readouterr().out))
    told = [{one["key"]: one.pop("text") for one in plan["sections"]} for plan in plans]
    assert plans[0] == plans[1]
    assert [key for key, text in told[0].items() if text != told[1][key]] == ["fastest"]
    assert "| A100, published |" in told[1]["fastest"]
    assert "A100" not in told[0]["fastest"]


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

    for words, said in (
        ((), "run `wandb login` or set WANDB_API_KEY"),
        (("-o", "x.json"), "-o is for the JSON of --dry-run"),
        (("--registry", "a/b"), "--registry=a/b: expected the name of a W&B registry"),
        (("--registry", ""), "--registry=: expected the name of a W&B registry"),
        (("--registry", "a", "--dry-run"), "--dry-run sends nothing"),
        (("--dry-run", "--project", "sweeps"), "named sweeps; choose another with --project"),
    ):
        assert said in complaint(*words)
    monkeypatch.setattr(publish, "spec", lambda plan: plan)
    assert "cannot write /nowhere/x.json" in complaint("--dry-run", "-o", "/nowhere/x.json")
    measure(tmp_path / "r", "b", project="other")
    told = complaint("--dry-run")
    assert "several W&B projects (other, xla-sweeps): choose with --project" in told
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert how_to_install("report") in complaint("--dry-run")
