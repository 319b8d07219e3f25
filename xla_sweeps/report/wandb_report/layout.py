"""Build a report from W&B's objects; only `wandb_report.process` imports this.

Nothing here asks the server, but saving a report does if its run sets name their project.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import wandb_workspaces.reports.v2 as wr

from xla_sweeps.report.wandb_report import chart
from xla_sweeps.schema.modes import Scenario, facts_of, headline_of

Plan = Mapping[str, Any]

Setting = Mapping[str, Any] | None
"""The setting whose runs are averaged, and its title; None where nothing was compared."""

TITLE_CHARACTERS = 120

BAR_RUNS = 25
"""Runs that an ungrouped bar plot shows; a thousand bars would be unreadable."""

WIDE, HALF, HIGH = 24, 12, 8

ROW_PX = 30
"""Height of one row of W&B's grid, about."""

TRIALS = 'Metric("JobType") == "trial"'
COMPARED = 'Summary("verdict") != "failed" and Summary("verdict") != "not_measured"'
"""Filters, in wandb-workspaces' language: its objects do not escape the values in them."""

KEYS = {"device": "accelerator", "resolution_px": "resolution"}
"""The key in a run's config for a column of a setting, where it is not the column's name."""

PODIUMS = {
    "throughput": "Images/s with XLA",
    "absolute_speedup": "Images/s gained over graph mode",
    "speedup_percent": "Speedup over graph mode in %",
}
"""Summary keys by which runs are ranked, with titles."""

VARIED = {"device": "device", "resolution_px": "resolution", "batch_size": "batch size"}
"""Columns of a setting that are compared, in words."""

COLUMNS = [
    "config:family.value",
    "config:variant.value",
    "config:resolution.value",
    "config:batch_size.value",
    "config:accelerator.value",
    "summary:verdict",
    "summary:speedup",
    "summary:speedup_log2",
    "summary:speedup_low",
    "summary:speedup_high",
    "summary:throughput",
    "summary:compile_s",
    "summary:status",
]

TABLE_KEY = "comparison"


def report(plan: Plan, *, online: bool) -> wr.Report:
    """The report.

    Args:
        plan: from `wandb_report.publish.plan_document`.
        online: whether run sets name their project, whose id only the server knows; otherwise they
            refer to the report's project.
    """
    place = {"entity": plan["entity"], "project": plan["project"]} if online else {}
    blocks: list[Any] = [wr.TableOfContents(), wr.MarkdownBlock(plan["header"])]
    for section in plan["sections"]:
        blocks += [wr.H2(section["question"]), wr.MarkdownBlock(section["text"])]
        blocks += grids(section, plan, place)
    return wr.Report(
        entity=plan["entity"],
        project=plan["project"],
        title=plan["title"][:TITLE_CHARACTERS],
        description=plan["description"],
        blocks=blocks,
        width="fluid",
    )


def spec(plan: Plan) -> dict[str, Any]:
    """The report as the JSON that W&B stores; the same plan gives the same text.

    Uses a private method of wandb-workspaces, tried on 0.4.13: the public API only saves.
    """
    with same_ids(plan):
        document: dict[str, Any] = (
            report(plan, online=False)
            ._to_model()
            .model_dump(mode="json", by_alias=True, exclude_none=True)
        )
    return document


def grids(section: Mapping[str, Any], plan: Plan, place: Mapping[str, str]) -> list[wr.PanelGrid]:
    """The panel grids below a section's text, all of one scenario's runs."""
    setting, scenario = section["setting"], section["scenario"]
    compared = _all(TRIALS, *headline(scenario or Scenario.CALL), COMPARED)
    here = _all(compared, *at(setting))
    where = f", {setting['title']}" if setting else ""
    match section["key"]:
        case "answer" if plan.get("chart") and section["bars"]:
            return [_grid(_summary_run(plan, place), _speedups(section, plan))]
        case "answer":
            return [
                _grid(
                    _runset(place, f"The {BAR_RUNS} {end}", compared, ascending=rising),
                    _ranked("speedup_log2", f"The {BAR_RUNS} {end} speedups, log2"),
                )
                for end, rising in (("highest", False), ("lowest", True))
            ]
        case "where" if setting:
            bars = _bars("speedup_log2", f"Mean speedup by family, log2{where}", group="family")
            return [_grid(_runset(place, "Trials", here), bars)]
        case "fastest" if setting:
            return [
                _grid(
                    _runset(place, title, here, order=metric),
                    _ranked(metric, f"{title}, the best {BAR_RUNS}{where}"),
                )
                for metric, title in PODIUMS.items()
            ]
        case "flops" if setting:
            over = (
                _scatter("gmacs", "throughput", f"Images/s over GMACs{where}"),
                _scatter("gmacs", "speedup_log2", f"Speedup, log2, over GMACs{where}", log_y=False),
            )
            return [_grid(_runset(place, "Trials", here), *over)]
        case "cost":
            title = f"until compilation pays back, over compile time{where}"
            title = f"{facts_of(scenario).call.capitalize()}s {title}"
            paid = _scatter("compile_s", "break_even_calls", title)
            return [_grid(_runset(place, "Trials", here), paid)]
        case "compare" if setting:
            return [
                _grid(
                    _runset(place, f"By {words}", _all(compared, *at(setting, column))),
                    _bars(
                        "speedup_log2",
                        f"Mean speedup by {words}, log2; the rest as in {setting['title']}",
                        group=KEYS.get(column, column),
                    ),
                )
                for column, words in VARIED.items()
            ]
        case "everything":
            table = wr.WeavePanelSummaryTable(table_name=TABLE_KEY, layout=_wide())
            return [
                _grid(_runset(place, "Trials", TRIALS), _parallel()),
                _grid(_summary_run(plan, place), table),
            ]
    return []


def _grid(runset: wr.Runset, *panels: Any) -> wr.PanelGrid:
    return wr.PanelGrid(runsets=[runset], panels=list(panels))


def headline(scenario: str) -> list[str]:
    """The filters of runs whose main comparison is the scenario's own pair of modes."""
    baseline, candidate = headline_of(scenario)
    pair = f'Summary("candidate") == "{candidate}" and Summary("baseline") == "{baseline}"'
    return [pair, f'Config("scenario.value") == {_literal(scenario)}']


def at(setting: Setting, varied: str = "") -> list[str]:
    """The filters of a setting's runs; none for a field that is varied or not set.

    Nor for `batches` where calls take one, usual `copies` and one step an execution: runs of
    earlier versions lack them. TF32 and pretrained weights that are off are excluded instead.
    """
    fields = {name: value for name, value in (setting or {}).items() if value}
    absent = {"title", "scenario", varied}
    absent |= set() if facts_of(fields.get("scenario", "")).takes_batches else {"batches"}
    absent |= {"copies"} if fields.get("copies") == "together" else set()
    absent |= {"steps_per_execution"} if fields.get("steps_per_execution") == 1 else set()
    is_random = fields.get("weights") == "random"
    absent |= {"weights"} if is_random else set()
    off = {"tf32": bool(setting) and "tf32" not in fields, "pretrained": is_random}
    return [
        f'Config("{KEYS.get(column, column)}.value") == {_literal(value)}'
        for column, value in fields.items()
        if column not in absent
    ] + [f'Config("{name}.value") != True' for name, is_off in off.items() if is_off]


def _literal(value: Any) -> str:
    """A value in a filter: the library changes `=`, `<` and `>` even inside a string."""
    if not isinstance(value, str):
        return str(value)
    plain = (letter if letter.isalnum() else f"\\U{ord(letter):08x}" for letter in value)
    return f'"{"".join(plain)}"'


def _all(*filters: str) -> str:
    return " and ".join(filters)


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
    filters: str,
    *,
    order: str = "speedup_log2",
    ascending: bool = False,
) -> wr.Runset:
    return wr.Runset(
        entity=place.get("entity", ""),
        project=place.get("project", ""),
        name=name,
        filters=filters,
        order=[wr.OrderBy(wr.SummaryMetric(order), ascending=ascending)],
        pinned_columns=["run:displayName"],
        visible_columns=COLUMNS,
    )


def _summary_run(plan: Plan, place: Mapping[str, str]) -> wr.Runset:
    """The report's own summary run: other results in the project have theirs."""
    return _runset(place, "Summary", f'Metric("ID") == {_literal(plan["run_id"])}')


def _speedups(section: Mapping[str, Any], plan: Plan) -> wr.CustomChart:
    """The stored chart, as high as its bars."""
    return wr.CustomChart(
        query={"summaryTable": {"tableKey": TABLE_KEY}},
        chart_name=plan["chart"],
        chart_fields=chart.FIELDS,
        chart_strings=chart.strings(section["scenario"]),
        layout=wr.Layout(w=WIDE, h=HIGH + section["bars"] * chart.BAR_PX // ROW_PX),
    )


def _ranked(metric: str, title: str) -> wr.BarPlot:
    """A bar for each run, in the run set's order."""
    return wr.BarPlot(metrics=[metric], title=title, max_runs_to_show=BAR_RUNS, layout=_wide())


def _bars(metric: str, title: str, *, group: str) -> wr.BarPlot:
    return wr.BarPlot(
        metrics=[metric],
        title=title,
        groupby=wr.Config(group),
        groupby_aggfunc="mean",
        layout=_half(),
    )


def _scatter(x: str, y: str, title: str, *, log_y: bool = True) -> wr.ScatterPlot:
    return wr.ScatterPlot(
        x=wr.SummaryMetric(x),
        y=wr.SummaryMetric(y),
        log_x=True,
        log_y=log_y,
        title=title,
        layout=_half(),
    )


def _parallel() -> wr.ParallelCoordinatesPlot:
    column = wr.ParallelCoordinatesPlotColumn
    chosen = [
        column(metric=wr.Config(name))
        for name in ("family", "accelerator", "precision", "tf32", "xla")
    ]
    chosen += [column(metric=wr.Config(name), log=True) for name in ("resolution", "batch_size")]
    chosen += [
        column(metric=wr.SummaryMetric(name), log=True)
        for name in ("params_million", "gmacs", "compile_s", "throughput")
    ]
    chosen.append(column(metric=wr.SummaryMetric("speedup_log2")))
    return wr.ParallelCoordinatesPlot(columns=chosen, title="All runs of the view", layout=_wide())


def _wide() -> wr.Layout:
    return wr.Layout(w=WIDE, h=HIGH)


def _half() -> wr.Layout:
    return wr.Layout(w=HALF, h=HIGH)
