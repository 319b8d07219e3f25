"""The process that writes reports to W&B; with `wandb.client_process` it alone imports wandb.

It searches before it writes, so that writing a report again replaces the earlier one: the report is
found by the marker in its description, the summary run by its id.
"""

from __future__ import annotations

import hashlib
import os
import time
import traceback
from pathlib import Path
from typing import Any

import wandb
import wandb_workspaces.reports.v2 as wr

from xla_sweeps.report.wandb.client_process import client_settings, one_line, redact_text, serve
from xla_sweeps.report.wandb_report import layout

CONNECT_S = 15
FINISH_S = 90.0
LIMITS = {"connect_timeout_s": float(CONNECT_S), "finish_timeout_s": FINISH_S}
CONFIRM_PAUSE_S = 0.5

RETRIED = ("GRAPHQL", "FILE_STREAM", "FILE_TRANSFER")
RETRIES = "4"
"""The client's defaults retry for hours, but the user waits for the report and can rerun it."""

FOREIGN = ("SWEEP_ID", "RUN_ID", "RUN_GROUP", "NAME", "TAGS", "RESUME", "JOB_TYPE", "NOTES")
"""Ends of the variables that would turn the summary run into another run."""

DIGEST_KEY = "xla_sweeps_digest"

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
        table: dict[str, Any],
        attachments: list[str],
        folder: str,
        registry: str,
        confirm_s: float,
    ) -> dict[str, Any]:
        """Write the summary run: figures, comparison table, files as artifacts, and link."""
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
            digest, dataset = _fill(run, plan, table, [Path(path) for path in attachments])
            unlinked = _link(run, dataset, registry) if registry else ""
            place, url = f"{run.entity}/{run.project}", redact_text(run.url or "")
        until = time.monotonic() + confirm_s
        while (
            not (confirmed := _is_there(place, plan["run_id"], digest)) and time.monotonic() < until
        ):
            time.sleep(CONFIRM_PAUSE_S)
        return {"entity": run.entity, "url": url, "confirmed": confirmed, "unlinked": unlinked}

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

    def answer_of_failure(self, error: Exception) -> dict[str, Any]:
        """The answer to an order that raised an error."""
        return {"error": one_line(error)}

    def close(self) -> None:
        """Nothing is open between orders."""


def _fill(
    run: Any, plan: dict[str, Any], table: dict[str, Any], attachments: list[Path]
) -> tuple[str, Any]:
    """Log the table unless the run has it, and the files: its digest, and the rows' artifact."""
    digest = hashlib.sha256(repr(table).encode("utf-8", "replace")).hexdigest()
    if not _is_there(f"{run.entity}/{run.project}", run.id, digest):
        made = wandb.Table(columns=table["columns"], data=table["data"], allow_mixed_types=True)
        run.log({layout.TABLE_KEY: made})
    run.summary.update(plan["figures"])
    artifacts = {}
    for path in attachments:
        name, kind = KINDS.get(path.suffix, ("results", "dataset"))
        artifact = wandb.Artifact(f"{name}-{plan['run_id']}", type=kind)
        artifact.add_file(str(path), skip_cache=True)
        artifacts[kind] = run.log_artifact(artifact).wait(timeout=int(FINISH_S))
    # Written last: with the digest and the table on the server, the table is not sent again.
    run.summary[DIGEST_KEY] = digest
    return digest, artifacts["dataset"]


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


def _is_there(place: str, run: str, digest: str) -> bool:
    """True if the server shows the run's figures and its table; files are confirmed before."""
    api: Any = wandb.Api(timeout=CONNECT_S)
    table = f"{place}/run-{run}-{layout.TABLE_KEY}:latest"
    return bool(
        api.run(f"{place}/{run}").summary.get(DIGEST_KEY) == digest and api.artifact_exists(table)
    )


if __name__ == "__main__":
    for name in FOREIGN:
        os.environ.pop(f"WANDB_{name}", None)
    for name in RETRIED:
        os.environ.setdefault(f"WANDB__{name}_RETRY_MAX", RETRIES)
    serve(Reporter())
