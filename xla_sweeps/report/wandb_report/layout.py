"""Build a report and a workspace from W&B's objects; only `wandb_report.process` imports this.

Nothing here asks the server, but saving a report does if its run sets name their project.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces import expr

Plan = Mapping[str, Any]

TITLE_CHARACTERS = 120

BAR_RUNS = 50
"""Runs that an ungrouped bar plot shows; a thousand bars would be unreadable."""

WIDE, HALF, HIGH = 24, 12, 8

TRIALS = expr.Metric("JobType") == "trial"
SUMMARIES = expr.Metric("JobType") == "summary"

COLUMNS = [
    "config:family.value",
    "config:variant.value",
    "config:resolution.value",
    "config:batch_size.value",
    "config:accelerator.value",
    "summary:verdict",
    "summary:speedup",
    "summary:speedup_low",
    "summary:speedup_high",
    "summary:throughput",
    "summary:compile_s",
    "summary:status",
]

GROUPINGS = {
    "family": "family",
    "variant": "variant",
    "accelerator": "accelerator",
    "xla": "XLA on",
}

TABLE_KEY = "comparison"


def report(plan: Plan, *, online: bool) -> wr.Report:
    """The report.

    Args:
        plan: from `wandb_report.build.plan_document`.
        online: whether run sets name their project, whose id only the server knows; otherwise they
            refer to the report's project.
    """
    place = {"entity": plan["entity"], "project": plan["project"]} if online else {}
    blocks: list[Any] = [wr.TableOfContents()]
    for section in plan["sections"]:
        blocks += [wr.H2(section["question"]), wr.MarkdownBlock(section["text"])]
        blocks += grids(section["key"], place)
    return wr.Report(
        entity=plan["entity"],
        project=plan["project"],
        title=plan["title"][:TITLE_CHARACTERS],
        description=plan["description"],
        blocks=blocks,
        width="fluid",
    )


def workspace(plan: Plan) -> ws.Workspace:
    """The project's saved view: a section for each question, trials only, highest speedup first."""
    made = [
        ws.Section(
            name=section["question"],
            panels=panels(section["key"]),
            is_open=number == 0,
            layout_settings=ws.SectionLayoutSettings(columns=2, rows=2),
        )
        for number, section in enumerate(plan["sections"])
        if panels(section["key"])
    ]
    return ws.Workspace(
        entity=plan["entity"],
        project=plan["project"],
        name=plan["workspace_title"],
        sections=made,
        settings=ws.WorkspaceSettings(remove_legends_from_panels=True),
        runset_settings=ws.RunsetSettings(
            filters=expr.And(TRIALS),
            pinned_columns=COLUMNS,
            order=[expr.Ordering(expr.Summary("speedup"), ascending=False)],
        ),
    )


def spec(plan: Plan) -> dict[str, Any]:
    """Report and workspace as the JSON that W&B stores; the same plan gives the same text."""
    with same_ids(plan):
        made = {"report": report(plan, online=False), "workspace": workspace(plan)}
        return {name: _stored(item) for name, item in made.items()}


def _stored(item: Any) -> dict[str, Any]:
    """The JSON that W&B stores of a report or workspace.

    Uses a private method of wandb-workspaces, tried on 0.4.13: the public API only saves.
    """
    document: dict[str, Any] = item._to_model().model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return document


def grids(key: str, place: Mapping[str, str]) -> list[wr.PanelGrid]:
    """The panel grids below a section's text."""
    if key == "broke":
        failed = _runset(place, "Failed", expr.And(TRIALS, expr.Summary("verdict") == "failed"))
        return [wr.PanelGrid(runsets=[failed], panels=[])]
    made = (
        [wr.PanelGrid(runsets=[_runset(place, "Trials")], panels=panels(key))]
        if panels(key)
        else []
    )
    if key == "flops":
        made[0].runsets = [*made[0].runsets, _runset(place, "MobileNets", query="mobilenet")]
    if key == "everything":
        made += [
            wr.PanelGrid(
                runsets=[_runset(place, f"By {title}", groupby=[f"config.{name}"])],
                panels=[
                    _bars("speedup", f"Mean speedup by {title}", group=name),
                    _bars("throughput", f"Mean images/s by {title}", group=name),
                ],
            )
            for name, title in GROUPINGS.items()
        ]
        summary = _runset(place, "Summary", expr.And(SUMMARIES))
        made.append(
            wr.PanelGrid(
                runsets=[summary],
                panels=[wr.WeavePanelSummaryTable(table_name=TABLE_KEY, layout=_wide())],
            )
        )
    return made


def panels(key: str) -> list[Any]:
    """A section's panels, from the summary keys of its runs; new objects on each call."""
    match key:
        case "answer":
            title = (
                f"Speedup of {BAR_RUNS} runs, in the order of the run set; the table has all, "
                "with intervals"
            )
            return [
                wr.BarPlot(
                    metrics=["speedup"], title=title, max_runs_to_show=BAR_RUNS, layout=_wide()
                )
            ]
        case "where":
            return [
                _bars("speedup", "Mean speedup by family", group="family"),
                _scatter("throughput_graph", "speedup", "Speedup over graph mode's images/s"),
            ]
        case "fastest":
            return [
                _bars("throughput", "Mean images/s by family", group="family"),
                _bars("absolute_speedup", "Mean images/s gained by family", group="family"),
                _scatter("latency_p50_ms", "latency_p90_ms", "Latency, ms: p90 over p50"),
            ]
        case "flops":
            return [
                _scatter("gmacs", "throughput", "Images/s over GMACs (XLA)"),
                _scatter("gmacs", "throughput_graph", "Images/s over GMACs (graph mode)"),
                _scatter("gmacs", "speedup", "Speedup over GMACs"),
                _scatter("params_million", "throughput", "Images/s over parameters, million"),
            ]
        case "cost":
            return [
                _scatter(
                    "compile_s",
                    "break_even_calls",
                    "Calls until compilation pays back, over compile time",
                ),
                _bars("compile_s", "Mean compile time by family, s", group="family"),
            ]
        case "compare":
            return [
                _bars("throughput", f"Mean images/s by {title}", group=name)
                for name, title in (
                    ("accelerator", "device"),
                    ("resolution", "resolution"),
                    ("batch_size", "batch"),
                )
            ]
        case "trust":
            return [
                _scatter(
                    "speedup_low",
                    "speedup_high",
                    "Ends of the 95 % interval; narrow intervals are near the diagonal",
                )
            ]
        case "everything":
            return [_parallel()]
    return []


@contextlib.contextmanager
def same_ids(plan: Plan) -> Iterator[None]:
    """Give panels and run sets the same ids for the same plan, instead of random ones."""
    state = random.getstate()
    random.seed(str(plan["marker"]))
    try:
        yield
    finally:
        random.setstate(state)


def _runset(
    place: Mapping[str, str],
    name: str,
    filters: expr.And | None = None,
    *,
    query: str = "",
    groupby: Sequence[str] = (),
) -> wr.Runset:
    order = [wr.OrderBy(wr.SummaryMetric("speedup"), ascending=False)]
    return wr.Runset(
        entity=place.get("entity", ""),
        project=place.get("project", ""),
        name=name,
        query=query,
        filters=filters or expr.And(TRIALS),
        groupby=list(groupby),
        order=order,
        pinned_columns=["run:displayName"],
        visible_columns=COLUMNS,
    )


def _bars(metric: str, title: str, *, group: str) -> wr.BarPlot:
    return wr.BarPlot(
        metrics=[metric],
        title=title,
        groupby=wr.Config(group),
        groupby_aggfunc="mean",
        layout=_half(),
    )


def _scatter(x: str, y: str, title: str) -> wr.ScatterPlot:
    return wr.ScatterPlot(
        x=wr.SummaryMetric(x),
        y=wr.SummaryMetric(y),
        log_x=True,
        log_y=True,
        title=title,
        layout=_half(),
    )


def _parallel() -> wr.ParallelCoordinatesPlot:
    column = wr.ParallelCoordinatesPlotColumn
    chosen = [
        column(metric=wr.Config(name)) for name in ("family", "accelerator", "precision", "xla")
    ]
    chosen += [column(metric=wr.Config(name), log=True) for name in ("resolution", "batch_size")]
    chosen += [
        column(metric=wr.SummaryMetric(name), log=True)
        for name in ("params_million", "gmacs", "compile_s", "throughput", "speedup")
    ]
    return wr.ParallelCoordinatesPlot(columns=chosen, title="All runs of the view", layout=_wide())


def _wide() -> wr.Layout:
    return wr.Layout(w=WIDE, h=HIGH)


def _half() -> wr.Layout:
    return wr.Layout(w=HALF, h=HIGH)
