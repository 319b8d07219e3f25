"""Weights & Biases, at arm's length: a helper process owns the client, so that nothing it does can hold up a trial.

The helper (`wandb_process`, the only `import wandb`) takes orders and answers through `wandb_helper`. A server that
hangs, refuses or dies costs at most the bounded waits here; the records stay, and `push` repairs the run.
"""

from __future__ import annotations

import configparser
import contextlib
import fcntl
import json
import math
import netrc
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from xla_sweeps.comparison import STATISTICS_VERSION, TrialSummary
from xla_sweeps.errors import ConfigError
from xla_sweeps.faults import fault_point
from xla_sweeps.measurement import Round
from xla_sweeps.record import Record
from xla_sweeps.trackers import RunHeader, TrackerReport
from xla_sweeps.trackers.summary import histograms, history_rows, run_summary
from xla_sweeps.trackers.wandb_helper import CLOSE_GRACE_S, Helper

ACK_S = 0.5
DEFAULT_URL = "https://api.wandb.ai"
REPAIR = "`xla-sweeps push` sends what is missing"
MIN_KEY_CHARACTERS = 40
STOPPED_CODES = 128
STOPPED_S = 15.0
"""For finishing after a signal: whoever sent it (a scheduler, a person) kills before long."""


def offline_tracker() -> WandbTracker:
    """A tracker that writes W&B's own files below the results folder and needs no account."""
    return WandbTracker(online=False)


def online_tracker() -> WandbTracker:
    """A tracker that sends to the W&B server, and goes on offline where that fails."""
    return WandbTracker(online=True)


def api_key(environ: Mapping[str, str]) -> str | None:
    """The API key that W&B's client will find: in the environment, the netrc file or W&B's settings files.

    It is never to be shown or stored.
    """
    if environ.get("WANDB_API_KEY"):
        return environ["WANDB_API_KEY"]
    home = Path(environ.get("HOME") or Path.home())
    settings = _client_settings(environ, home)
    place = urlparse(base_url(environ)).netloc
    for path in (Path(environ["NETRC"]).expanduser(),) if environ.get("NETRC") else (home / ".netrc", home / "_netrc"):
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            found = netrc.netrc(path).authenticators(place)
            if found and found[2]:
                return found[2]
    return settings.get("api_key")


def base_url(environ: Mapping[str, str]) -> str:
    """The address of the W&B server that the client will use."""
    home = Path(environ.get("HOME") or Path.home())
    return environ.get("WANDB_BASE_URL") or _client_settings(environ, home).get("base_url") or DEFAULT_URL


def require_api_key(environ: Mapping[str, str]) -> None:
    """Refuse online tracking without a key, before anything is measured.

    Raises:
        ConfigError: with the ways to mend it.
    """
    key = api_key(environ)
    if not key and not environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        raise ConfigError(
            "tracker=wandb: W&B online needs an API key: run `wandb login` or set WANDB_API_KEY, or use "
            "tracker=wandb_offline"
        )
    if key and not _is_api_key(key):
        raise ConfigError(
            f"tracker=wandb: the W&B API key found is not one: at least {MIN_KEY_CHARACTERS} letters, digits and "
            "underscores are needed; run `wandb login` or set WANDB_API_KEY, or use tracker=wandb_offline"
        )


class WandbTracker:
    """One W&B run of one trial; a `Tracker`."""

    def __init__(self, *, online: bool) -> None:
        self._online = online
        self._helper: Helper | None = None
        self._header: RunHeader | None = None
        self._problem = ""
        self._responsive = True

    def open(self, header: RunHeader) -> None:
        """Start the helper and have it open the run; connecting goes on beside the start of the measuring process."""
        self._header = header
        try:
            self._helper = Helper(header.results_dir / "wandb" / "tracker.log")
        except OSError as error:
            self._problem = str(error)
            return
        self._helper.order("open", online=self._online, header=header_document(header))

    def log_rounds(self, replicate: int, rounds: Sequence[Round], *, batch_size: int) -> None:
        """Mirror rounds; waits a moment for the helper to be done, so that it does not run inside timed code."""
        if self._helper is None or self._header is None:
            return
        modes = self._header.config.get("modes")
        number = self._helper.order("log", rows=history_rows(replicate, rounds, batch_size=batch_size, modes=modes))
        if self._responsive:
            self._responsive = self._helper.answer(number, ACK_S) is not None

    def preempt(self) -> None:
        """Mark the run as preempting: an agent's server will hand it out again."""
        if self._helper is not None:
            self._helper.order("preempt")

    def finish(self, records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int) -> TrackerReport:
        """Write summary and histograms, close the run, and end the helper."""
        if self._helper is None or self._header is None:
            reason = f"W&B: the client could not be started ({self._problem or 'not opened'}); {REPAIR}"
            return TrackerReport(place="", complete=False, warnings=(reason,))
        within_s = min(self._header.finish_timeout_s, STOPPED_S if exit_code >= STOPPED_CODES else math.inf)
        content = run_content(records, summary, exit_code=exit_code)
        answer = self._helper.answer(self._helper.order("finish", within_s=within_s, **content), within_s)
        self._helper.end(0.0 if answer is None else CLOSE_GRACE_S)
        place = str(self._header.results_dir / "wandb")
        if answer is None:
            warning = (
                f"W&B: the run could not be finished within {within_s:.0f} s; nothing measured is lost, and {REPAIR}"
            )
            return TrackerReport(place=place, complete=False, warnings=(warning,))
        if self._online and "run_id" in answer:
            numbers = [record.replicate for record in records]
            note_run(self._header, answer["run_id"], numbers, confirmed=answer["complete"])
        return TrackerReport(
            place=answer.get("place") or place, complete=answer["complete"], warnings=tuple(answer["warnings"])
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
    """Make whole, on the server, the run of each trial; repeating it changes nothing.

    A run keeps its id, also one that an agent gave it. The rows that the server already shows are not sent again. When
    the server does not answer, the trials that are left are not tried.

    Args:
        trials: header, all records in order, and summary of each.
        log: file for the client's own output.
        force: ask and send also what a marker says is there.
    """
    with alone_in(log.parent, "push") as alone:
        if alone:
            return _push_all(trials, log, force=force)
    return PushReport(
        sent=0, already=0, failed=(f"another push of {log.parent} is running: let it end, then push again",)
    )


def header_document(header: RunHeader) -> dict[str, Any]:
    """The header as plain data for the helper."""
    return {**asdict(header), "results_dir": str(header.results_dir.absolute()), "tags": list(header.tags)}


def run_content(records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int) -> dict[str, Any]:
    """What a run is to hold in the end: history rows, summary, histograms, exit code."""
    batch_size = summary.batch_size if summary else 1
    return {
        "rows": [
            row
            for record in records
            for row in history_rows(
                record.replicate, record.rounds, batch_size=batch_size, modes=record.config.get("modes")
            )
        ],
        "summary": run_summary(records, summary),
        "histograms": histograms(records),
        "exit_code": exit_code,
    }


def exit_code_of(records: Sequence[Record], summary: TrialSummary) -> int:
    """The exit code that the trial's command ended with, as the records tell it."""
    if records[-1].status == "interrupted":
        return 143
    headline = [row for row in summary.comparisons if row.headline]
    return 1 if any(row.verdict == "failed" for row in headline) else 0


def marker_path(header: RunHeader) -> Path:
    """Where it is noted which replicates of a trial the server has."""
    host = urlparse(base_url(os.environ)).hostname or "wandb"
    place = "_".join((host, header.entity or "default", header.project))
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", place)
    return header.results_dir / "published" / safe / f"{header.trial_id}.json"


def note_run(header: RunHeader, run_id: str, replicates: Sequence[int], *, confirmed: bool) -> None:
    """Note which run holds these replicates, and whether the server confirmed them."""
    runs = _noted_runs(header)
    known = runs.setdefault(run_id, {"replicates": [], "confirmed": []})
    known["replicates"] = sorted({*known["replicates"], *replicates})
    if confirmed:
        known["confirmed"] = sorted({*known["confirmed"], *replicates})
        known["statistics_version"] = STATISTICS_VERSION
    path = marker_path(header)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"runs": runs}), encoding="utf-8")
        temporary.replace(path)


def published_replicates(header: RunHeader) -> int | None:
    """How many replicates the server confirmed, or None."""
    return sum(len(known["confirmed"]) for known in _noted_runs(header).values()) or None


def _push_all(
    trials: Sequence[tuple[RunHeader, Sequence[Record], TrialSummary]], log: Path, *, force: bool
) -> PushReport:
    plan = [(header, summary, _unpublished(header, records, force=force)) for header, records, summary in trials]
    waiting = [item for item in plan if item[2]]
    sent, already, failed = 0, len(plan) - len(waiting), list[str]()
    if not waiting:
        return PushReport(sent=0, already=already, failed=())
    helper = Helper(log)
    try:
        for tried, (header, summary, runs) in enumerate(waiting, start=1):
            problem, reachable = _push_trial(helper, header, summary, runs)
            sent += not problem
            if problem:
                failed.append(f"{header.trial_id} ({header.name}): {problem}")
            if not reachable and tried < len(waiting):
                failed.append(f"{len(waiting) - tried} more not tried")
                break
    finally:
        helper.end()
    return PushReport(sent=sent, already=already, failed=tuple(failed))


def _push_trial(
    helper: Helper, header: RunHeader, summary: TrialSummary, runs: Mapping[str, Sequence[Record]]
) -> tuple[str, bool]:
    """What went wrong with a trial's runs, or "", and whether the server answers."""
    within_s = 2 * header.connect_timeout_s + header.finish_timeout_s
    for run_id, records in runs.items():
        fault_point("push.before")
        document = {**header_document(header), "run_id": run_id}
        content = run_content(records, summary, exit_code=exit_code_of(records, summary))
        answer = helper.answer(helper.order("push", header=document, within_s=within_s, **content), within_s)
        if answer is None:
            return f"no answer within {within_s:.0f} s", False
        if not answer["complete"]:
            return "; ".join(answer["warnings"]), answer.get("reachable", True)
        fault_point("push.after")
        note_run(header, run_id, [record.replicate for record in records], confirmed=True)
        fault_point("push.marked")
    return "", True


def _unpublished(header: RunHeader, records: Sequence[Record], *, force: bool) -> dict[str, list[Record]]:
    """The runs that need sending, each with all of its records; a record belongs to the run that was noted for it."""
    noted = _noted_runs(header)
    owner = {number: run_id for run_id, known in noted.items() for number in known["replicates"]}
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(owner.get(record.replicate, header.trial_id), []).append(record)
    return {
        run_id: group
        for run_id, group in groups.items()
        if force
        or not {record.replicate for record in group} <= set(noted.get(run_id, {}).get("confirmed", []))
        or noted[run_id].get("statistics_version") != STATISTICS_VERSION
    }


def _noted_runs(header: RunHeader) -> dict[str, dict[str, Any]]:
    try:
        runs = json.loads(marker_path(header).read_text(encoding="utf-8"))["runs"]
        return {
            str(run_id): {**known, "replicates": list(known["replicates"]), "confirmed": list(known["confirmed"])}
            for run_id, known in runs.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


@contextmanager
def alone_in(folder: Path, what: str) -> Iterator[bool]:
    """Whether no other `what` ("push") of this folder runs on this machine; held until the block is left."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{what}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass  # a file system without locks
        yield True


def _is_api_key(text: str) -> bool:
    """Whether the client will take it: an optional prefix and dash, then at least forty characters; or a JWT."""
    secret = text.partition("-")[2] or text
    return bool(
        re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", text) or re.fullmatch(rf"[\w-]{{{MIN_KEY_CHARACTERS},}}", secret)
    )


def _client_settings(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """W&B's own settings files, the folder's over the user's."""
    parser = configparser.ConfigParser(interpolation=None)
    config_dir = Path(environ.get("WANDB_CONFIG_DIR") or home / ".config" / "wandb")
    for path in (config_dir / "settings", Path(environ.get("WANDB_DIR") or ".") / "wandb" / "settings"):
        with contextlib.suppress(configparser.Error, UnicodeDecodeError):
            parser.read(path)
    return dict(parser["default"]) if parser.has_section("default") else {}
