"""Weights & Biases, at arm's length: a helper process owns the client, so that nothing it does can hold up a trial.

The helper (`wandb_process`, the only `import wandb`) gets orders as JSON lines and answers on a descriptor of its own.
A server that hangs, refuses or dies costs at most the bounded waits here; the records stay, and `push` repairs the run.
"""

from __future__ import annotations

import contextlib
import json
import netrc
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from xla_sweeps.comparison import TrialSummary
from xla_sweeps.errors import ConfigError
from xla_sweeps.measurement import Round
from xla_sweeps.record import Record
from xla_sweeps.trackers import RunHeader, TrackerReport
from xla_sweeps.trackers.summary import histograms, history_rows, run_summary

ACK_S = 0.5
KILL_GRACE_S = 2.0
DEFAULT_URL = "https://api.wandb.ai"
REPAIR = "`xla-sweeps push` sends what is missing"


def offline_tracker() -> WandbTracker:
    """A tracker that writes W&B's own files below the results folder and needs no account."""
    return WandbTracker(online=False)


def online_tracker() -> WandbTracker:
    """A tracker that sends to the W&B server, and goes on offline where that fails."""
    return WandbTracker(online=True)


def api_key(environ: Mapping[str, str]) -> str | None:
    """The API key that W&B's client will find: in the environment or in the netrc file. Never to be shown or stored."""
    if environ.get("WANDB_API_KEY"):
        return environ["WANDB_API_KEY"]
    host = urlparse(environ.get("WANDB_BASE_URL") or DEFAULT_URL).hostname or ""
    home = Path(environ.get("HOME") or Path.home())
    for path in (Path(environ["NETRC"]) if environ.get("NETRC") else home / ".netrc", home / "_netrc"):
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            found = netrc.netrc(path).authenticators(host)
            if found:
                return found[2]
    return None


def require_api_key(environ: Mapping[str, str]) -> None:
    """Refuse online tracking without a key, before anything is measured.

    Raises:
        ConfigError: with the ways to mend it.
    """
    if not api_key(environ) and not environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        raise ConfigError(
            "tracker=wandb: W&B online needs an API key: run `wandb login` or set WANDB_API_KEY, or use "
            "tracker=wandb_offline"
        )


class Helper:
    """The helper process, its orders and answers. Every wait is bounded; its end is never an error of ours."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        read_end, write_end = os.pipe()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "xla_sweeps.trackers.wandb_process", str(os.getpid()), str(write_end)],
                stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[write_end], start_new_session=True,
            )  # fmt: skip
        os.close(write_end)
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._listen, args=(read_end,), name="wandb answers", daemon=True)
        self._reader.start()

    def order(self, name: str, **arguments: Any) -> None:
        """Send an order; a helper that is gone is noticed by the missing answer."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps({"order": name, **arguments}, default=str).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, name: str, timeout_s: float) -> dict[str, Any] | None:
        """The answer to an order, or None when it does not come in time or the helper ended. Others are passed over."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if answer.get("answer") in (name, "end"):
                return answer if answer["answer"] == name else None

    def end(self) -> None:
        """End the helper and the client's own processes, however busy they are."""
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
            if signal_number is not None:
                self._signal(signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_GRACE_S)
                break
        self._signal(signal.SIGKILL)
        self._reader.join(KILL_GRACE_S)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _listen(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as channel:
            for line in channel:
                with contextlib.suppress(ValueError):
                    self._answers.put(json.loads(line))
        self._answers.put({"answer": "end"})


class WandbTracker:
    """One W&B run of one trial; a `Tracker`."""

    def __init__(self, *, online: bool) -> None:
        self._online = online
        self._helper: Helper | None = None
        self._header: RunHeader | None = None
        self._responsive = True

    def open(self, header: RunHeader) -> None:
        """Start the helper and have it open the run; connecting goes on beside the start of the measuring process."""
        self._header = header
        try:
            self._helper = Helper(header.results_dir / "wandb" / "tracker.log")
        except OSError:
            return
        self._helper.order("open", online=self._online, header=header_document(header))

    def log_rounds(self, replicate: int, rounds: Sequence[Round], *, batch_size: int) -> None:
        """Mirror rounds; waits a moment for the helper to be done, so that it does not run inside timed code."""
        if self._helper is None:
            return
        self._helper.order("log", rows=history_rows(replicate, rounds, batch_size=batch_size))
        if self._responsive:
            self._responsive = self._helper.answer("log", ACK_S) is not None

    def preempt(self) -> None:
        """Mark the run as preempting: an agent's server will hand it out again."""
        if self._helper is not None:
            self._helper.order("preempt")

    def finish(self, records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int) -> TrackerReport:
        """Write summary and histograms, close the run, and end the helper."""
        if self._helper is None or self._header is None:
            return TrackerReport(
                place="", complete=False, warnings=(f"W&B: the client could not be started; {REPAIR}",)
            )
        order_finish(self._helper, records, summary, exit_code=exit_code)
        answer = self._helper.answer("finish", self._header.finish_timeout_s)
        self._helper.end()
        place = str(self._header.results_dir / "wandb")
        if answer is None:
            seconds = self._header.finish_timeout_s
            warning = (
                f"W&B: the run could not be finished within {seconds:.0f} s; nothing measured is lost, and {REPAIR}"
            )
            return TrackerReport(place=place, complete=False, warnings=(warning,))
        if answer["complete"] and self._online:
            mark_published(self._header, replicates=summary.replicates if summary else 0)
        return TrackerReport(
            place=answer["place"] or place, complete=bool(answer["complete"]), warnings=tuple(answer["warnings"])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReport:
    """How a push went: counts, and a line for each run that could not be sent."""

    sent: int
    already: int
    failed: tuple[str, ...]


def push(
    trials: Sequence[tuple[RunHeader, Sequence[Record], TrialSummary]], *, log: Path, force: bool = False
) -> PushReport:
    """Rebuild, on the server, the run of each trial that it does not have whole; repeating it changes nothing.

    A run keeps its id, and its history rows their steps, so rows that arrived before are not sent again.

    Args:
        trials: header, all records in order, and summary of each.
        log: file for the client's own output.
        force: send also what a marker says is there.
    """
    sent = already = 0
    failed: list[str] = []
    for header, records, summary in trials:
        if not force and published_replicates(header) == summary.replicates:
            already += 1
            continue
        rows = [
            row
            for record in records
            for row in history_rows(record.replicate, record.rounds, batch_size=summary.batch_size)
        ]
        helper = Helper(log)
        helper.order("open", online=True, fallback=False, header=header_document(header))
        helper.order("log_missing", rows=rows)
        measured = any(row.verdict != "failed" for row in summary.comparisons if row.headline)
        order_finish(helper, records, summary, exit_code=0 if measured else 1)
        answer = helper.answer("finish", header.connect_timeout_s + header.finish_timeout_s)
        helper.end()
        if answer is not None and answer["complete"]:
            mark_published(header, replicates=summary.replicates)
            sent += 1
        else:
            reasons = answer["warnings"] if answer else ["no answer in time"]
            failed.append(f"{header.trial_id} ({header.name}): {'; '.join(reasons) or 'the server did not confirm it'}")
    return PushReport(sent=sent, already=already, failed=tuple(failed))


def header_document(header: RunHeader) -> dict[str, Any]:
    """The header as plain data for the helper."""
    return {**asdict(header), "results_dir": str(header.results_dir.absolute()), "tags": list(header.tags)}


def order_finish(helper: Helper, records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int) -> None:
    """Order summary, histograms and the end of the run."""
    helper.order("finish", summary=run_summary(records, summary), histograms=histograms(records), exit_code=exit_code)


def marker_path(header: RunHeader) -> Path:
    """Where it is noted that the server has a trial's run."""
    place = "_".join(part for part in (header.entity or "default", header.project) if part)
    safe = "".join(character if character.isalnum() or character in "-_" else "_" for character in place)
    return header.results_dir / "published" / safe / f"{header.trial_id}.json"


def mark_published(header: RunHeader, *, replicates: int) -> None:
    """Note that the server confirmed a run with this many replicates."""
    path = marker_path(header)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"replicates": replicates}))
        temporary.replace(path)


def published_replicates(header: RunHeader) -> int | None:
    """How many replicates the server confirmed, or None."""
    try:
        return int(json.loads(marker_path(header).read_text())["replicates"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
