"""Log a trial to Weights & Biases through a helper process, so that W&B never delays a trial.

The helper (`client_process`) runs the W&B client; `client` talks to it. A server that hangs,
refuses or dies costs at most the timeouts here; the records remain, and `push` uploads what is
missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import msgspec

from xla_sweeps.report.run_content import history_rows, run_content
from xla_sweeps.report.wandb.client import CLOSE_GRACE_S, REPAIR, Helper
from xla_sweeps.report.wandb.credentials import base_url, require_login
from xla_sweeps.schema.columns import STATISTICS_VERSION
from xla_sweeps.schema.measurement import Round
from xla_sweeps.schema.record import GpuSpan, Record
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.system.files import folder_in, read_regular, replace_whole
from xla_sweeps.trial.tracking import RunHeader, Tracker, TrackerReport

ACK_S = 0.5

STOPPED_CODES = 128
STOPPED_S = 15.0
"""Timeout of finishing after a signal, since its sender (a scheduler, a person) soon kills."""


class WandbTracker(Tracker):
    """One W&B run of one trial."""

    title = "W&B"

    def __init__(self, *, online: bool) -> None:
        self._online = online
        self._helper: Helper | None = None
        self._header: RunHeader | None = None
        self._problem = ""
        self._responsive, self._begun = True, False

    def require(self) -> None:
        """Refuse online tracking without credentials, before anything is measured."""
        if self._online:
            require_login()

    def open(self, header: RunHeader) -> None:
        """Start the helper, which loads W&B's client while the measuring process starts."""
        self._header = header
        try:
            self._helper = Helper(header.wandb_dir / "wandb" / "tracker.log")
        except OSError as error:
            self._problem = str(error)

    def begin(self) -> None:
        """Have the helper connect, once."""
        if self._helper is not None and self._header is not None and not self._begun:
            self._begun = True
            self._helper.order("open", online=self._online, header=header_document(self._header))

    def log_rounds(
        self,
        replicate: int,
        rounds: Sequence[Round],
        *,
        batch_size: int,
        gpu: Sequence[GpuSpan] = (),
    ) -> None:
        """Send rounds; waits briefly for the helper, so that it does not run during timed code."""
        if self._helper is None or self._header is None:
            return
        rows = history_rows(
            replicate,
            rounds,
            batch_size=batch_size,
            modes=self._header.modes,
            gpu=gpu if self._header.tracker.telemetry else None,
        )
        number = self._helper.order("log", rows=rows)
        if self._responsive:
            self._responsive = self._helper.answer(number, ACK_S) is not None

    def preempt(self) -> None:
        """Mark the run as preempting, so that an agent's server schedules it again."""
        if self._helper is not None:
            self._helper.order("preempt")

    def finish(
        self, records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int
    ) -> TrackerReport:
        """Write summary and histograms, close the run, and end the helper."""
        if self._helper is None or self._header is None:
            problem = self._problem or "not opened"
            reason = f"W&B: the client could not be started ({problem}); {REPAIR}"
            return TrackerReport(place="", complete=False, warnings=(reason,))
        if not records and not self._begun:  # the request was refused
            self._helper.end(0.0)
            return TrackerReport(place="", complete=True)
        self.begin()
        within_s = self._header.finish_timeout_s
        within_s = min(within_s, STOPPED_S) if exit_code >= STOPPED_CODES else within_s
        content = run_content(self._header, records, summary, exit_code=exit_code)
        answer = self._helper.ask("finish", within_s, within_s=within_s, **content)
        self._helper.end(0.0 if answer is None else CLOSE_GRACE_S)
        place = str(self._header.wandb_dir / "wandb")
        numbers = [record.replicate for record in records]
        if answer is None:
            if self._online and os.environ.get("WANDB_SWEEP_ID"):  # `push` repairs the agent's run
                run_id = os.environ.get("WANDB_RUN_ID") or own_run_id(self._header)
                note_run(self._header, run_id, numbers, confirmed=False)
            warning = (
                f"W&B: finishing the run timed out after {within_s:.0f} s; the records are safe, "
                f"and {REPAIR}"
            )
            return TrackerReport(place=place, complete=False, warnings=(warning,))
        place, complete = answer.get("place") or place, answer["complete"]
        if self._online and "run_id" in answer:
            url = answer.get("url", "")
            note_run(self._header, answer["run_id"], numbers, confirmed=complete, url=url)
        return TrackerReport(place=place, complete=complete, warnings=tuple(answer["warnings"]))


offline_tracker = partial(WandbTracker, online=False)
"""Makes a tracker that writes W&B's files to the results folder and needs no account."""

online_tracker = partial(WandbTracker, online=True)
"""Makes a tracker that logs to the W&B server, or offline if that fails."""


def header_document(header: RunHeader) -> dict[str, Any]:
    """The header for the helper, as `Helper.order` makes it plain."""
    return {**asdict(header), "own_run_id": own_run_id(header), "wandb_dir": header.wandb_dir}


def own_run_id(header: RunHeader) -> str:
    """The id of a trial's run outside an agent: two results folders never share a run."""
    return f"{header.trial_id}-{folder_id(header.results_dir)}"


def folder_id(results_dir: Path) -> str:
    """Eight hex digits of a results folder, kept in it if it can be written, else of its path."""
    with contextlib.suppress(OSError):
        path = folder_in(results_dir, "published") / "folder"
        if not os.path.lexists(path):
            drawn = uuid.uuid4().hex
            temporary = path.with_name(f".{drawn}.tmp")
            replace_whole(temporary, drawn[:8].encode())
            try:
                with contextlib.suppress(FileExistsError):  # another process was first
                    os.link(temporary, path)
            finally:
                temporary.unlink()
        kept = read_regular(path, limit=64).decode("ascii", "replace")
        if re.fullmatch(r"[0-9a-f]{8}", kept):
            return kept
    return hashlib.sha256(os.fsencode(results_dir.absolute())).hexdigest()[:8]


class Noted(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Notes of a run: its replicates, those that the server confirmed, and its address."""

    replicates: list[int] = []
    confirmed: list[int] = []
    url: str = ""
    statistics_version: int = 0


def marker_path(header: RunHeader) -> Path:
    """The file that notes which replicates of a trial the server has."""
    host = urlparse(base_url()).hostname or "wandb"
    place = "_".join((host, header.tracker.entity or "default", header.tracker.project))
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", place)
    return header.results_dir / "published" / safe / f"{header.trial_id}.json"


def note_run(
    header: RunHeader, run_id: str, replicates: Sequence[int], *, confirmed: bool, url: str = ""
) -> None:
    """Note which run holds these replicates, its address, and whether the server confirmed them."""
    path = marker_path(header)
    runs = noted_runs(path)
    run = runs.setdefault(run_id, Noted())
    run.replicates = sorted({*run.replicates, *replicates})
    run.url = url or run.url
    if confirmed:
        run.confirmed = sorted({*run.confirmed, *replicates})
        run.statistics_version = STATISTICS_VERSION
    with contextlib.suppress(OSError):
        folder_in(header.results_dir, *path.parent.relative_to(header.results_dir).parts)
        replace_whole(path, msgspec.json.encode({"runs": runs}))


def published_replicates(header: RunHeader) -> int | None:
    """Number of replicates that the server confirmed, or None."""
    return sum(len(run.confirmed) for run in noted_runs(marker_path(header)).values()) or None


def run_urls(results_dir: Path) -> dict[str, str]:
    """The noted address of each trial's run, by trial; none for runs that were never online."""
    paths = sorted((results_dir / "published").glob("*/*.json"))
    runs = [(path.stem, run.url) for path in paths for run in noted_runs(path).values()]
    return {trial: url for trial, url in runs if url}


def noted_runs(path: Path) -> dict[str, Noted]:
    """The runs in a trial's marker, by their ids; none in one that cannot be read."""
    try:
        return msgspec.json.decode(read_regular(path), type=dict[str, dict[str, Noted]])["runs"]
    except (OSError, ValueError, KeyError, RecursionError):
        return {}
