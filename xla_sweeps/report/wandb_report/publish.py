"""Plan a W&B report and its summary run from a results folder, and publish them.

A helper process writes them: nothing here imports wandb. Every wait has a timeout, and a server
that is dead, slow or refuses is reported in one line.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xla_sweeps.analysis.changes import Difference
from xla_sweeps.analysis.overview import answers, overview
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.report import export
from xla_sweeps.report.dashboard import build
from xla_sweeps.report.wandb import push
from xla_sweeps.report.wandb.client import Helper
from xla_sweeps.report.wandb.credentials import base_url
from xla_sweeps.report.wandb.tracker import published_replicates
from xla_sweeps.report.wandb_report import text
from xla_sweeps.schema.record import Record
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.store.claim import lock_file
from xla_sweeps.store.rows import Rows
from xla_sweeps.store.store import folder_below
from xla_sweeps.system.environment import is_installed
from xla_sweeps.system.files import read_regular, replace_whole
from xla_sweeps.system.installation import how_to_install
from xla_sweeps.system.text import count_noun
from xla_sweeps.version import __version__

PROJECT = "xla-sweeps"
REGISTRY_CHARACTERS = 113
MODULE = "xla_sweeps.report.wandb_report.process"

SPEC_S = 60.0
STEP_S = 120.0

BYTES_A_SECOND = 250_000
"""Assumed upload bandwidth, for the timeout of attachments."""

TASKS = {
    "spec": "the report could not be built",
    "summarize": "neither the summary run nor the report was written",
    "report": "the report could not be written",
    "workspace": "the project's view could not be saved",
}


class ReportError(XlaSweepsError):
    """W&B did not accept the whole report."""

    exit_code = 1


def require_extra(command: str = "report") -> None:
    """Refuse a command without its package; the message says what to install."""
    if not is_installed("wandb_workspaces"):
        raise ConfigError(
            f"{command}: wandb-workspaces is not installed; install it: {how_to_install('report')}"
        )


def spec(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The report as the JSON that W&B stores; needs neither network nor account."""
    return _ask_once("spec", SPEC_S, plan=plan)


def save_workspace(entity: str | None, project: str) -> dict[str, Any]:
    """Save the view of a W&B project, in place of an earlier one: its `url`, whether `updated`."""
    return _ask_once("workspace", STEP_S, entity=entity or "", project=project)


def _ask_once(order: str, within_s: float, **arguments: Any) -> dict[str, Any]:
    """The answer of a process of its own; after an error its log stays."""
    # Not below the results, which may be read-only.
    log = Path(tempfile.mkdtemp(prefix="xla-sweeps-"), f"{order}.log")
    helper = Helper(log, module=MODULE)
    try:
        answer = _ask(helper, order, within_s, log, **arguments)
    finally:
        helper.end(0.0)
    shutil.rmtree(log.parent)
    return answer


def publish(
    plan: Mapping[str, Any],
    *,
    attachments: Sequence[Path],
    registry: str = "",
    log: Path,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write summary run and report, and replace earlier ones.

    The Parquet file among the attachments is linked to the registry, if any.

    Raises:
        ReportError: a step failed; earlier steps remain.
    """
    upload_s = STEP_S + sum(path.stat().st_size for path in attachments) / BYTES_A_SECOND
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock_file(log.with_suffix(".lock")))
        except BlockingIOError:
            why = f"another report of {log.parent} is running; wait for it, then rerun"
            raise ReportError(why) from None
        helper = Helper(log, module=MODULE)
        stack.callback(helper.end, 0.0)
        content = {
            "attachments": [str(path.absolute()) for path in attachments],
            "folder": str(log.parent.parent.absolute()),
            "registry": registry,
        }
        run = _ask(helper, "summarize", upload_s, log, plan=plan, **content)
        placed = {**plan, "entity": run["entity"], "summary_url": run["url"]}
        return run, _ask(helper, "report", STEP_S, log, plan=placed)


def _ask(
    helper: Helper, order: str, within_s: float, log: Path, **arguments: Any
) -> dict[str, Any]:
    late = {"error": f"no answer within {within_s:.0f} s; see {log}"}
    answer = helper.ask(order, within_s, **arguments) or late
    if problem := answer.get("error"):
        host = base_url().rpartition("@")[2].removeprefix("https://").removeprefix("http://")
        raise ReportError(f"{TASKS[order]}: W&B at {host}: {problem}")
    return answer


def plan_document(
    records: Mapping[str, Sequence[Record]],
    rows: Sequence[ComparisonRow],
    *,
    entity: str,
    project: str,
    difference: Difference | None = None,
) -> dict[str, Any]:
    """Contents of report and summary run; `rows` are the records' and published ones."""
    figures = {
        name: value  # None replaces an earlier mean
        for name, value in asdict(overview(answers(rows))).items()
        if not isinstance(value, str)
    }
    figures["trials"] = len(records)
    figures[text.DIGEST_KEY] = hashlib.sha256(repr(figures).encode()).hexdigest()[:12]
    first = min(
        (record.started_at, record.trial_id) for group in records.values() for record in group
    )  # which stays while the results grow
    identity = hashlib.sha256(" ".join(first).encode()).hexdigest()[:12]
    marker = f"[xla-sweeps:{identity}]"
    trials = count_noun(len(records), "trial")
    return {
        "entity": entity,
        "project": project,
        "title": f"XLA on or off - {project}",
        "description": f"Computed from {trials} by xla-sweeps {__version__}. {marker}",
        "marker": marker,
        "run_id": f"summary-{identity}",
        "run_name": f"Summary of {trials}",
        "figures": figures,
        "header": text.environment(rows, len(records)),
        "sections": text.sections(rows, len(records), difference),
    }


def registry_of(name: str) -> str:
    """The name of a registry; refused where W&B has none of that name."""
    if not name or len(name) > REGISTRY_CHARACTERS or re.search(r"[/\\#?%:\r\n]", name):
        raise ConfigError(
            f"report: --registry={name}: expected the name of a W&B registry, at most "
            f"{REGISTRY_CHARACTERS} characters, none of / \\ # ? % :"
        )
    return name


def place(
    records: Mapping[str, Sequence[Record]], entity: str | None, project: str | None
) -> tuple[str | None, str]:
    """Entity and project: as asked for, else as recorded, else as W&B's variables say."""
    settings = [record.tracker for group in records.values() for record in group]
    places: list[str | None] = []
    for name, wanted in (("entity", entity), ("project", project)):
        recorded = sorted({getattr(tracker, name) for tracker in settings} - {"", None})
        if not wanted and len(recorded) > 1:
            raise ConfigError(
                f"report: the records name several W&B {name}s ({', '.join(recorded[:6])}): "
                f"choose with --{name}"
            )
        variable = os.environ.get(f"WANDB_{name.upper()}")
        places.append(next(filter(None, (wanted, *recorded, variable)), None))
    owner, chosen = places[0], places[1] or PROJECT
    if chosen == "sweeps":
        raise ConfigError(
            "report: W&B's client cannot read a project named sweeps; choose another with --project"
        )
    return owner, chosen


def unsent_trials(
    results_dir: Path, records: Mapping[str, Sequence[Record]], entity: str | None, project: str
) -> int:
    """Number of trials that are not known to be on the server."""
    headers, _ = push.headers_of(results_dir, records, project=project, entity=entity)
    return len(records) - sum(map(bool, map(published_replicates, headers.values())))


def attachments(
    results_dir: Path,
    rows: Rows,
    folder: Path,
    *,
    published: bool = False,
    warn: Callable[[str], None],
) -> list[Path]:
    """The Parquet file of a folder's rows, and the page, kept while its rows are the same."""
    parquet, page, made_from = (
        folder / name for name in ("comparison.parquet", build.DEFAULT_NAME, "page.key")
    )
    folder_below(folder.parent, folder.name)
    for path in (parquet, page, made_from):
        if path.is_symlink():  # never read or replace the target of a foreign link
            path.unlink()
    export.write_parquet(rows.table, parquet)
    key = f"{__version__} {hashlib.sha256(parquet.read_bytes()).hexdigest()}"
    with contextlib.suppress(OSError):
        if page.is_file() and read_regular(made_from) == key.encode():
            return [parquet, page]
    try:
        build.write_page([results_dir], page, published=published)
    except ConfigError as error:
        warn(f"the summary run gets no page: {error}")
        return [parquet]
    replace_whole(made_from, key.encode())
    return [parquet, page]
