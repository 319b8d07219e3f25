"""The helper process that writes reports to W&B: with `wandb_process` the only `import wandb`.

It looks before it writes, so that the same report again changes what is there and adds nothing: the
    report is found by the marker in its description, the workspace by its name, the summary run by
    its id.
"""

from __future__ import annotations

import hashlib
import os
import time
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import wandb
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from xla_sweeps.report.wandb.client_process import (
    Conversation,
    client_settings,
    one_line,
    serve,
    shown,
)
from xla_sweeps.report.wandb_report import layout

CONNECT_S = 15

FINISH_S = 90.0

CONFIRM_PAUSE_S = 0.5

RETRIES = {
    "WANDB__GRAPHQL_RETRY_MAX": "4",
    "WANDB__FILE_STREAM_RETRY_MAX": "4",
    "WANDB__FILE_TRANSFER_RETRY_MAX": "4",
}
"""The client's own repeat for hours; whoever waits for a report can repeat it."""

FOREIGN = (
    "WANDB_SWEEP_ID",
    "WANDB_RUN_ID",
    "WANDB_RUN_GROUP",
    "WANDB_NAME",
    "WANDB_TAGS",
    "WANDB_RESUME",
    "WANDB_JOB_TYPE",
    "WANDB_NOTES",
)
"""Variables that would make the summary run another one's."""

WORKSPACE_NAME = "xlasweeps01"
"""Of the saved view, as its URL has it: one for a project."""

DIGEST_KEY = "xla_sweeps_digest"

KINDS = {".html": ("page", "report")}
"""Artifact name and type by the ending of the file; everything else is ("results", "dataset")."""


class Reporter:
    """Obeys the orders; what an order returns is its answer."""

    def spec(self, *, plan: dict[str, Any]) -> dict[str, Any]:
        """The JSON of report and workspace; asks nobody."""
        return layout.spec(plan)

    def look(self, *, entity: str | None, project: str) -> dict[str, Any]:
        """Where the report is to go, and how many runs of trials are there."""
        api = wandb.Api(timeout=CONNECT_S)
        entity = entity or api.default_entity
        return {"entity": entity, "project_runs": _trials_in(api, f"{entity}/{project}")}

    def summarize(
        self,
        *,
        plan: dict[str, Any],
        table: dict[str, Any],
        attachments: list[str],
        folder: str,
        confirm_s: float,
    ) -> dict[str, Any]:
        """Write the summary run: its figures, the comparison table, and files as artifacts."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        header = {"connect_timeout_s": float(CONNECT_S), "finish_timeout_s": FINISH_S}
        run = wandb.init(
            id=plan["run_id"],
            resume="allow",
            project=plan["project"],
            entity=plan["entity"],
            name=plan["run_name"],
            job_type="summary",
            tags=["xla-sweeps", "summary"],
            dir=folder,
            settings=client_settings("online", header),
        )
        try:
            digest = _fill(run, plan, table, [Path(path) for path in attachments])
        except BaseException:
            run.finish(exit_code=1)
            raise
        place, name, url = f"{run.entity}/{run.project}", str(run.id), shown(run.url or "")
        run.finish(exit_code=0)
        until = time.monotonic() + confirm_s
        while not _is_there(place, name, digest):
            if time.monotonic() > until:
                return {"url": url, "confirmed": False}
            time.sleep(CONFIRM_PAUSE_S)
        return {"url": url, "confirmed": True}

    def report(self, *, plan: dict[str, Any]) -> dict[str, Any]:
        """Write the report in the place of the one that was there, and read it back."""
        known = [
            item
            for item in wandb.Api(timeout=CONNECT_S).reports(f"{plan['entity']}/{plan['project']}")
            if plan["marker"] in (item.description or "")
        ]
        oldest = min(
            known, key=lambda item: item.created_at, default=None
        )  # a copy that a person made is newer
        with layout.same_ids(plan):
            made = layout.report(plan, online=True)
            if oldest is not None:
                made.id = oldest.id
            made.save()
        there = wr.Report.from_url(made.url)
        if (there.description, len(there.blocks)) != (made.description, len(made.blocks)):
            raise RuntimeError("the server gives back another report than it was given")
        return {"url": shown(made.url), "updated": oldest is not None}

    def workspace(self, *, plan: dict[str, Any], report_url: str) -> dict[str, Any]:
        """Write the saved view in the place of the one that was there, and read it back."""
        place = urlparse(report_url)
        url = f"{place.scheme}://{place.netloc}/{plan['entity']}/{plan['project']}?nw={WORKSPACE_NAME}"
        there = _workspace_at(url)
        with layout.same_ids(plan):
            made = layout.workspace(plan)
            made._internal_name = f"nw-{WORKSPACE_NAME}-v"
            made._internal_id = there._internal_id if there else ""
            made.save()
        again = ws.Workspace.from_url(url)
        if [section.name for section in again.sections] != [
            section.name for section in made.sections
        ]:
            raise RuntimeError("the server gives back another workspace than it was given")
        return {"url": shown(made.url), "updated": there is not None}


def _fill(run: Any, plan: dict[str, Any], table: dict[str, Any], attachments: list[Path]) -> str:
    """Log the table, where it is another than the run has, and the files.

    Returns the table's digest.

    An artifact whose content the server has makes no new version there.
    """
    digest = hashlib.sha256(repr(table).encode("utf-8", "replace")).hexdigest()
    if not _is_there(f"{run.entity}/{run.project}", run.id, digest):
        made = wandb.Table(columns=table["columns"], data=table["data"], allow_mixed_types=True)
        run.log({layout.TABLE_KEY: made})
    run.summary.update(plan["figures"])
    for path in attachments:
        name, kind = KINDS.get(path.suffix, ("results", "dataset"))
        artifact = wandb.Artifact(f"{name}-{plan['run_id']}", type=kind)
        artifact.add_file(str(path), skip_cache=True)
        run.log_artifact(artifact).wait(timeout=int(FINISH_S))
    run.summary[DIGEST_KEY] = (
        digest  # last: with it and the table there, the table is not sent again
    )
    return digest


def _is_there(place: str, run: str, digest: str) -> bool:
    """Whether the server shows the run's figures and its table; files it has confirmed before."""
    api: Any = wandb.Api(timeout=CONNECT_S)
    table = f"{place}/run-{run}-{layout.TABLE_KEY}:latest"
    return bool(
        api.run(f"{place}/{run}").summary.get(DIGEST_KEY) == digest and api.artifact_exists(table)
    )


def _trials_in(api: wandb.Api, path: str) -> int:
    """Runs of trials in a project; 0 where there is no such project."""
    try:
        return len(api.runs(path, filters={"jobType": "trial"}, per_page=1))
    except ValueError as error:
        if "could not find project" in str(error).lower():
            return 0
        raise


def _workspace_at(url: str) -> ws.Workspace | None:
    try:
        return ws.Workspace.from_url(url)
    except ValueError as error:
        if "not found" in str(error):
            return None
        raise


def obey(conversation: Conversation) -> None:
    """Follow orders until the parent closes the conversation."""
    reporter = Reporter()
    while (order := conversation.orders.get()) is not None:
        name, number = order.pop("order"), order.pop("number")
        try:
            answer = getattr(reporter, name)(**order)
        except Exception as error:  # whatever the client raises
            traceback.print_exc()
            answer = {"error": one_line(error)}
        conversation.tell(number, **answer)


if __name__ == "__main__":
    for name in FOREIGN:
        os.environ.pop(name, None)
    for name, value in RETRIES.items():
        os.environ.setdefault(name, value)
    serve(obey)
