"""The process that writes reports to W&B; with `wandb.client_process` it alone imports wandb.

It searches before it writes, so that writing a report again replaces the earlier one: the report is
found by the marker in its description, the summary run by its id.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import wandb
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

from xla_sweeps.report.wandb.client_process import (
    CONFIRM_PAUSE_S,
    client_settings,
    in_time,
    one_line,
    redact_text,
    serve,
)
from xla_sweeps.report.wandb_report import layout
from xla_sweeps.report.wandb_report.text import DIGEST_KEY

CONNECT_S = 15
CONFIRM_S = 20.0
FINISH_S = 90.0
LIMITS = {"connect_timeout_s": float(CONNECT_S), "finish_timeout_s": FINISH_S}

RETRIED = ("GRAPHQL", "FILE_STREAM", "FILE_TRANSFER")
RETRIES = "4"
"""The client's defaults retry for hours, but the user waits for the report and can rerun it."""

FOREIGN = ("SWEEP_ID", "RUN_ID", "RUN_GROUP", "NAME", "TAGS", "RESUME", "JOB_TYPE", "NOTES")
"""Ends of the variables that would turn the summary run into another run."""

LINK_KEY = "xla_sweeps_registry"
"""Summary key with what was linked last: the collection, and the artifact's digest."""

KINDS = {".html": ("page", "report")}
"""Artifact name and type by the ending of the file; everything else is ("results", "dataset")."""


class Reporter:
    """Its methods are the orders."""

    def spec(self, *, plan: dict[str, Any]) -> dict[str, Any]:
        """The report's JSON, without a server."""
        return {"report": layout.spec(plan)}

    def summarize(
        self,
        *,
        plan: dict[str, Any],
        attachments: list[str],
        folder: str,
        registry: str,
    ) -> dict[str, Any]:
        """Write the summary run: figures, files as artifacts, and link."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        with wandb.init(
            id=plan["run_id"],
            resume="allow",
            project=plan["project"],
            entity=plan["entity"] or None,
            name=plan["run_name"],
            job_type="summary",
            tags=["xla-sweeps", "summary"],
            dir=folder,
            settings=client_settings("online", LIMITS),
        ) as run:
            run.summary.update(plan["figures"])
            artifacts = _upload(run, plan["run_id"], [Path(path) for path in attachments])
            unlinked = _link(run, artifacts["dataset"], registry) if registry else ""
            url = redact_text(run.url or "")
        path, digest = f"{run.entity}/{run.project}/{run.id}", plan["figures"][DIGEST_KEY]
        deadline = time.monotonic() + CONFIRM_S
        confirmed = in_time(partial(_is_there, path, digest, deadline), deadline)
        return {"entity": run.entity, "url": url, "unlinked": unlinked, "confirmed": confirmed}

    def report(self, *, plan: dict[str, Any]) -> dict[str, Any]:
        """Write the report, or replace the earlier one, and read it back."""
        reports = [
            view
            for view in wandb.Api(timeout=CONNECT_S).reports(f"{plan['entity']}/{plan['project']}")
            if plan["marker"] in (view.description or "")
        ]
        # Copies that people made are newer than the original.
        oldest = min(reports, key=lambda view: view.created_at, default=None)
        with layout.same_ids(plan):
            made = layout.report(plan)
            if oldest is not None:
                made.id = oldest.id
            made.save()
        there = wr.Report.from_url(made.url)
        if (there.description, len(there.blocks)) != (made.description, len(made.blocks)):
            raise RuntimeError("the server returned a different report")
        return {"url": redact_text(made.url), "updated": oldest is not None}

    def workspace(self, *, entity: str, project: str) -> dict[str, Any]:
        """Save the project's view, in place of an earlier one."""
        api: Any = wandb.Api(timeout=CONNECT_S)
        made = layout.workspace(entity or api.default_entity, project)
        updated = True
        try:
            made._internal_id = ws.Workspace.from_url(made.url)._internal_id
        except ValueError as error:  # also where there is no such project
            if not str(error).startswith("Workspace `"):
                raise
            updated = False
        made.save()
        return {"url": redact_text(made.url), "updated": updated}

    def answer_of_failure(self, error: Exception) -> dict[str, Any]:
        """The answer to an order that raised an error."""
        return {"error": one_line(error)}

    def close(self) -> None:
        """Nothing is open between orders."""


def _upload(run: Any, run_id: str, attachments: list[Path]) -> dict[str, Any]:
    """Upload the files: their artifacts by type, which the server has."""
    artifacts = {}
    for path in attachments:
        name, kind = KINDS.get(path.suffix, ("results", "dataset"))
        artifact = wandb.Artifact(f"{name}-{run_id}", type=kind)
        artifact.add_file(str(path), skip_cache=True)
        artifacts[kind] = run.log_artifact(artifact).wait(timeout=int(FINISH_S))
    return artifacts


def _link(run: Any, artifact: Any, registry: str) -> str:
    """Link an artifact to a collection of its name in a registry, once; the problem, or ""."""
    target = f"wandb-registry-{registry}/{artifact.name.partition(':')[0]}"
    mark = f"{target} {artifact.digest}"
    if run.summary.get(LINK_KEY) == mark:
        return ""
    try:
        run.link_artifact(artifact, target)
    except Exception as error:  # the client may raise anything
        traceback.print_exc()
        if "organization" in str(error):
            return (
                f"it belongs to an organization, and {run.entity} is of none or of several; choose "
                "a team with --entity"
            )
        return one_line(error)
    run.summary[LINK_KEY] = mark
    return ""


def _is_there(path: str, digest: str, deadline: float) -> bool:
    """True once the server shows these figures of a run; False at the deadline."""
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # whatever the client raises: no confirmation yet
            there: Any = wandb.Api(timeout=CONNECT_S).run(path)
            if there.summary.get(DIGEST_KEY) == digest:
                return True
        time.sleep(CONFIRM_PAUSE_S)
    return False


if __name__ == "__main__":
    for name in FOREIGN:
        os.environ.pop(f"WANDB_{name}", None)
    for name in RETRIED:
        os.environ.setdefault(f"WANDB__{name}_RETRY_MAX", RETRIES)
    serve(Reporter())
