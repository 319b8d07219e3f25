"""Build a report from W&B's objects; only `wandb_report.process` imports this.

Nothing here asks the server, but saving a report does if its run sets name their project.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces import expr

from xla_sweeps.report.wandb_report.text import VARIED
from xla_sweeps.schema.comparisons import facts_of, headline_of

Plan = Mapping[str, Any]

TITLE_CHARACTERS = 120

BAR_RUNS = 25
"""Runs that an ungrouped bar plot shows; a thousand bars would be unreadable."""

WIDE, HALF, HIGH = 24, 12, 8

TRIALS = 'Metric("JobType") == "trial"'
COMPARED = 'Summary("verdict") != "failed" and Summary("verdict") != "not_measured"'
"""Filters, in wandb-workspaces' language: its objects do not escape the values in them."""

KEYS = {"device": "accelerator", "resolution_px": "resolution"}
"""The key in a run's config for a column of a setting, where it is not the column's name."""

UNLOGGED = {"copies": "together", "steps_per_execution": 1, "compile_cache": "off", "shapes": ""}
"""Usual values, which a run's config lacks."""

PODIUMS = {
    "throughput": "Images/s with XLA",
    "absolute_speedup": "Images/s gained over graph mode",
    "speedup_percent": "Speedup over graph mode in %",
}
"""Summary keys by which runs are ranked, with titles."""

SPEEDUP = "speedup_log2"

CONFIG = ("family", "variant", "resolution", "batch_size", "accelerator")
SUMMARY = (
    *("verdict", "speedup", SPEEDUP, "speedup_low", "speedup_high"),
    *("throughput", "compile_s", "status"),
)
COLUMNS = (*(f"config:{name}.value" for name in CONFIG), *(f"summary:{key}" for key in SUMMARY))
"""Columns of a table of runs: keys of their config, and of their summary."""

VIEW = "xlasweeps"
"""The project's view: `nw` in its address, by which it is found again."""


def report(plan: Plan, *, online: bool = True) -> wr.Report:
    """The report; offline its run sets refer to its own project, whose id only the server knows."""
    header = plan["header"]
    if url := plan.get("summary_url"):
        header += f"\n- details: the local page, an artifact of the [summary run]({url})"
    blocks: list[Any] = [wr.TableOfContents(), wr.MarkdownBlock(header)]
    for section in plan["sections"]:
        blocks += [wr.H2(section["question"])]
        blocks += [wr.MarkdownBlock(section["text"])] if section["text"] else []
        blocks += [_grid(plan, *grid, online=online) for grid in grids(section)]
    return wr.Report(
        entity=plan["entity"],
        project=plan["project"],
        title=plan["title"][:TITLE_CHARACTERS],
        description=plan["description"],
        blocks=blocks,
        width="fluid",
    )


def workspace(entity: str, project: str) -> ws.Workspace:
    """The view of a project: its trials by device, the highest speedup first, and panels."""
    panels = {
        "Speedup": [
            _ranking(SPEEDUP, f"The {BAR_RUNS} highest speedups, log2"),
            _means("Mean speedup by family, log2", group="family"),
        ],
        "Speed": [_ranking("throughput", PODIUMS["throughput"]), _parallel()],
        "Cost": [_scatter("compile_s", "break_even_calls", "Calls until it pays back")],
    }
    made = ws.Workspace(
        entity=entity,
        project=project,
        name="XLA on or off",
        sections=[
            ws.Section(name=name, panels=shown, is_open=True) for name, shown in panels.items()
        ],
        runset_settings=ws.RunsetSettings(
            filters=TRIALS,
            groupby=[expr.Config("accelerator")],
            order=[expr.Ordering(expr.Summary(SPEEDUP), ascending=False)],
            pinned_columns=["run:displayName", *COLUMNS],
        ),
    )
    made._internal_name = f"nw-{VIEW}-v"
    return made


def spec(plan: Plan) -> dict[str, Any]:
    """The report as the JSON that W&B stores; the same plan gives the same text.

    Uses a private method of wandb-workspaces, tried on 0.4.13: the public API only saves.
    """
    with same_ids(plan):
        made = report(plan, online=False)._to_model()
    document: dict[str, Any] = made.model_dump(mode="json", by_alias=True, exclude_none=True)
    return document


Grid = tuple[str, str, str, list[Any]]
"""A table of runs with panels: title, filter, summary key that orders (minus: from least)."""


def grids(section: Mapping[str, Any]) -> list[Grid]:
    """Panels below a section's text, of one scenario's runs: a grid for each device's setting."""
    key, scenario, settings = section["key"], section["scenario"], section["settings"]
    compared = " and ".join([TRIALS, *headline(scenario), COMPARED])
    if key == "everything":
        return [("Trials", TRIALS, SPEEDUP, [_parallel()])]
    if key == "answer" and section["pairs"] > 1:
        ends = {"highest": SPEEDUP, "lowest": f"-{SPEEDUP}"}.items()
        titles = {f"The {BAR_RUNS} {end}": order for end, order in ends}
        return [
            (title, compared, order, [_ranking(SPEEDUP, f"{title} speedups, log2")])
            for title, order in titles.items()
        ]
    made: list[Grid] = []
    for setting in settings[:1] if key == "compare" else settings:
        for title, varied, order, panels in _panels(key, setting):
            made.append((title, " and ".join([compared, *at(setting, varied)]), order, panels))
    return made


def _panels(key: str, setting: Mapping[str, Any]) -> Iterator[tuple[str, str, str, list[Any]]]:
    """The grids of a setting that answer a question: title, column that varies, order, panels."""
    where = setting["title"]
    match key:
        case "where":
            title = f"Mean speedup by family, log2, {where}"
            yield where, "", SPEEDUP, [_means(title, group="family")]
        case "fastest":
            for name, title in PODIUMS.items():
                panel = _ranking(name, f"{title}, the best {BAR_RUNS}, {where}")
                yield title, "", name, [panel]
        case "flops":
            over = f"over GMACs, {where}"
            speedups = _scatter("gmacs", SPEEDUP, f"Speedup, log2, {over}", log_y=False)
            yield (
                where,
                "",
                SPEEDUP,
                [_scatter("gmacs", "throughput", f"Images/s {over}"), speedups],
            )
        case "cost":
            call = facts_of(setting["scenario"]).call.capitalize()
            title = f"{call}s until compilation pays back, over compile time, {where}"
            yield where, "", SPEEDUP, [_scatter("compile_s", "break_even_calls", title)]
        case "compare":
            for column, words in VARIED.items():
                if column in setting["varied"]:
                    title = f"Mean speedup by {words}, log2; the rest as in {where}"
                    bars = _means(title, group=KEYS.get(column, column))
                    yield f"By {words}", column, SPEEDUP, [bars]


def headline(scenario: str) -> list[str]:
    """The filters of runs whose main comparison is the scenario's own pair of modes."""
    baseline, candidate = headline_of(scenario)
    pair = f'Summary("candidate") == "{candidate}" and Summary("baseline") == "{baseline}"'
    return [pair, f'Config("scenario.value") == {_literal(scenario)}']


def at(setting: Mapping[str, Any], varied: str = "") -> list[str]:
    """The filters of a setting's runs; none for a field that is varied, empty or not logged."""
    filters = []
    for column, value in setting.items():
        key = f'Config("{KEYS.get(column, column)}.value")'
        if column in ("title", "varied", "scenario", varied) or UNLOGGED.get(column) == value:
            continue
        if value is False:
            filters.append(f"{key} != True")
        elif value:
            filters.append(f"{key} == {_literal(value)}")
    return filters


def _literal(value: Any) -> str:
    """A value in a filter: the library changes `=`, `<` and `>` even inside a string."""
    if not isinstance(value, str):
        return str(value)
    plain = (letter if letter.isalnum() else f"\\U{ord(letter):08x}" for letter in value)
    return f'"{"".join(plain)}"'


@contextlib.contextmanager
def same_ids(plan: Plan) -> Iterator[None]:
    """Give panels and run sets the same ids for the same plan, instead of random ones."""
    state = random.getstate()
    random.seed(str(plan["marker"]))
    try:
        yield
    finally:
        random.setstate(state)


def _grid(
    plan: Plan, title: str, filters: str, order: str, panels: list[Any], *, online: bool
) -> wr.PanelGrid:
    metric = wr.SummaryMetric(order.removeprefix("-"))
    runs = wr.Runset(
        entity=plan["entity"] if online else "",
        project=plan["project"] if online else "",
        name=title,
        filters=filters,
        order=[wr.OrderBy(metric, ascending=order.startswith("-"))],
        pinned_columns=["run:displayName"],
        visible_columns=[*COLUMNS],
    )
    return wr.PanelGrid(runsets=[runs], panels=panels)


def _ranking(metric: str, title: str) -> wr.BarPlot:
    runs = {"max_runs_to_show": BAR_RUNS, "layout": _layout(WIDE)}
    return wr.BarPlot(metrics=[metric], title=title, **runs)


def _means(title: str, *, group: str) -> wr.BarPlot:
    grouped = {"groupby": wr.Config(group), "groupby_aggfunc": "mean"}
    return wr.BarPlot(metrics=[SPEEDUP], title=title, layout=_layout(HALF), **grouped)


def _scatter(x: str, y: str, title: str, *, log_y: bool = True) -> wr.ScatterPlot:
    axes = {"x": wr.SummaryMetric(x), "y": wr.SummaryMetric(y), "log_x": True, "log_y": log_y}
    return wr.ScatterPlot(title=title, layout=_layout(HALF), **axes)


def _parallel() -> wr.ParallelCoordinatesPlot:
    config, logged = ("family", "accelerator", "precision", "tf32", "xla"), wr.SummaryMetric
    metrics = [
        *((wr.Config(name), False) for name in config),
        *((wr.Config(name), True) for name in ("resolution", "batch_size")),
        *((logged(name), True) for name in ("params_million", "gmacs", "compile_s", "throughput")),
        (logged(SPEEDUP), False),
    ]
    columns = [wr.ParallelCoordinatesPlotColumn(metric=one, log=log) for one, log in metrics]
    title = "All runs of the view"
    return wr.ParallelCoordinatesPlot(columns=columns, title=title, layout=_layout(WIDE))


def _layout(width: int) -> wr.Layout:
    return wr.Layout(w=width, h=HIGH)
