"""A W&B report, workspace and summary run, seen from the parent: a plan goes to a helper process, links come back.

Nothing here imports wandb. Every wait is bounded; a server that is dead, slow or refuses is one
line.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.report.wandb.client import Helper
from xla_sweeps.report.wandb.credentials import base_url
from xla_sweeps.report.wandb.push import alone_in

MODULE = "xla_sweeps.report.wandb_report.process"

SPEC_S = 60.0

LOOK_S = 30.0

STEP_S = 120.0

CONFIRM_S = 20.0

BYTES_A_SECOND = 250_000
"""Of a slow connection; what the waiting for attachments is reckoned by."""

TASKS = {
    "spec": "the report could not be made",
    "look": "nothing was written",
    "summarize": "the summary run could not be written, and no report",
    "report": "the report could not be written",
    "workspace": "the workspace could not be written, the report is there",
}
"""What it means that an order was not obeyed."""


class ReportError(XlaSweepsError):
    """W&B did not take the report, or not all of it."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Where things are now.

    Attributes:
        report, workspace, run: their addresses.
        updated: whether there was such a report before.
        run_confirmed: whether the server shows the summary run's figures and table.
    """

    report: str
    workspace: str
    run: str
    updated: bool
    run_confirmed: bool


def require_extra() -> None:
    """Refuse to go on without the package that makes reports.

    Raises:
        ConfigError: with what to install.
    """
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise ConfigError(
            "report: wandb-workspaces is not installed: pip install 'xla-sweeps[report]'"
        )


def spec(plan: Mapping[str, Any], *, log: Path) -> dict[str, Any]:
    """Report and workspace as the JSON that W&B stores; needs neither network nor account."""
    helper = Helper(log, module=MODULE)
    try:
        answer = _ask(helper, "spec", SPEC_S, log, plan=dict(plan))
    finally:
        helper.end(0.0)
    return {name: answer[name] for name in ("report", "workspace")}


def publish(
    make_plan: Callable[[str, int], Mapping[str, Any]],
    *,
    entity: str | None,
    project: str,
    table: Mapping[str, Any],
    attachments: Sequence[Path],
    log: Path,
) -> Published:
    """Write summary run, report and workspace, in the place of those that were there.

    Args:
        make_plan: the plan, from the entity and the number of runs that the project has.
        entity: owner of the project; None for the user's default.
        project: name of the project; made where there is none.
        table: `columns` and `data` of the comparison table.
        attachments: files for the summary run.
        log: file for the client's own output.

    Raises:
        ReportError: what did not work; what came before it stays.
    """
    upload_s = STEP_S + sum(path.stat().st_size for path in attachments) / BYTES_A_SECOND
    with contextlib.ExitStack() as stack:
        if not stack.enter_context(alone_in(log.parent, "report")):
            raise ReportError(
                f"another report of {log.parent} is running: let it end, then run the same command again"
            )
        helper = Helper(log, module=MODULE)
        stack.callback(helper.end, 0.0)
        found = _ask(helper, "look", LOOK_S, log, entity=entity, project=project)
        plan = dict(make_plan(str(found["entity"]), int(found["project_runs"])))
        run = _ask(
            helper,
            "summarize",
            upload_s,
            log,
            plan=plan,
            table=dict(table),
            attachments=[str(path.absolute()) for path in attachments],
            folder=str(log.parent.parent.absolute()),
            confirm_s=CONFIRM_S,
        )
        report = _ask(helper, "report", STEP_S, log, plan=plan)
        workspace = _ask(helper, "workspace", STEP_S, log, plan=plan, report_url=report["url"])
    return Published(
        report=report["url"],
        workspace=workspace["url"],
        run=run["url"],
        updated=report["updated"],
        run_confirmed=run["confirmed"],
    )


def _ask(
    helper: Helper, order: str, within_s: float, log: Path, **arguments: Any
) -> dict[str, Any]:
    answer = helper.answer(helper.order(order, **arguments), within_s)
    if answer is None:
        raise ReportError(
            f"{TASKS[order]}: no answer from W&B at {_host()} within {within_s:.0f} s; see {log}"
        )
    if "error" in answer:
        raise ReportError(f"{TASKS[order]}: W&B at {_host()}: {answer['error']}")
    return answer


def _host() -> str:
    return base_url(os.environ).rpartition("@")[2].removeprefix("https://").removeprefix("http://")
