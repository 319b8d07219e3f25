"""Publish a W&B report and a summary run through a helper process.

Nothing here imports wandb. Every wait has a timeout, and a server that is dead, slow or refuses is
reported in one line.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xla_sweeps.errors import ConfigError, XlaSweepsError, how_to_install
from xla_sweeps.report.wandb.client import Helper
from xla_sweeps.report.wandb.credentials import base_url
from xla_sweeps.report.wandb.push import alone_in

MODULE = "xla_sweeps.report.wandb_report.process"

SPEC_S = 60.0
LOOK_S = 30.0
STEP_S = 120.0
CONFIRM_S = 20.0

BYTES_A_SECOND = 250_000
"""Assumed upload bandwidth, for the timeout of attachments."""

TASKS = {
    "spec": "the report could not be built",
    "look": "nothing was written",
    "summarize": "neither the summary run nor the report was written",
    "report": "the report could not be written",
}
"""Consequence of each failed order, for its error message."""


class ReportError(XlaSweepsError):
    """W&B did not accept the whole report."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Addresses of a published report.

    Attributes:
        report: address of the report.
        run: address of the summary run.
        updated: True if an earlier report was replaced.
        run_confirmed: True if the server shows the summary run's figures and table.
    """

    report: str
    run: str
    updated: bool
    run_confirmed: bool


def require_extra() -> None:
    """Check that the package for reports is installed.

    Raises:
        ConfigError: it is not; the message says what to install.
    """
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise ConfigError(
            f"report: wandb-workspaces is not installed; install it: {how_to_install('report')}"
        )


def spec(plan: Mapping[str, Any], *, log: Path) -> dict[str, Any]:
    """The report as the JSON that W&B stores; needs neither network nor account."""
    helper = Helper(log, module=MODULE)
    try:
        answer = _ask(helper, "spec", SPEC_S, log, plan=dict(plan))
    finally:
        helper.end(0.0)
    return {"report": answer["report"]}


def publish(
    plan: Mapping[str, Any],
    *,
    table: Mapping[str, Any],
    attachments: Sequence[Path],
    log: Path,
) -> Published:
    """Write summary run and report, and replace earlier ones.

    Args:
        plan: from `build.plan_document`; its project is created if it does not exist.
        table: `columns` and `data` of the comparison table.
        attachments: files for the summary run.
        log: file for the client's output.

    Raises:
        ReportError: a step failed; earlier steps remain.
    """
    upload_s = STEP_S + sum(path.stat().st_size for path in attachments) / BYTES_A_SECOND
    with contextlib.ExitStack() as stack:
        if not stack.enter_context(alone_in(log.parent, "report")):
            raise ReportError(f"another report of {log.parent} is running; wait for it, then rerun")
        helper = Helper(log, module=MODULE)
        stack.callback(helper.end, 0.0)
        owner = _ask(helper, "look", LOOK_S, log)["entity"]
        plan = {**plan, "entity": plan["entity"] or owner}
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
    return Published(
        report=report["url"],
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
            f"{TASKS[order]}: W&B at {_host()} did not answer within {within_s:.0f} s; see {log}"
        )
    if "error" in answer:
        raise ReportError(f"{TASKS[order]}: W&B at {_host()}: {answer['error']}")
    return answer


def _host() -> str:
    return base_url().rpartition("@")[2].removeprefix("https://").removeprefix("http://")
