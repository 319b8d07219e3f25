"""The process that runs the W&B client for trials; with `wandb_report.process` it alone imports it.

Orders arrive as JSON lines on standard input, answers go to a file descriptor of their own, and the
client's output goes to a log. The process ends when its parent ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import re
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import wandb

from xla_sweeps.report.wandb.client import MARK, REPAIR, SCRATCH, kill_marked
from xla_sweeps.report.wandb.payload import (
    COMMAND_MARK,
    REPLICATES_KEY,
    ROUND_KEYS,
    SUMMARY_KEYS,
    TELEMETRY,
    pinned,
    result_point,
)
from xla_sweeps.system.process import die_with_parent

NICENESS = 5

ORPHAN_GRACE_S = 3.0
ORPHAN_EXIT_CODE = 137

MARGIN_S = 0.5
"""Subtracted from the parent's timeout, so that the answer arrives in time."""

UPLOAD_SHARE = 0.7
"""Share of the parent's timeout for the upload; the rest is for asking the server."""

CONFIRM_PAUSE_S = 0.3

LOGS_KEY = "xla_sweeps_logs"
"""Summary key with the digests of the logs in a run."""

Rows = list[dict[str, Any]]

Place = tuple[int, int]
"""(replicate, round): identifies a history row."""


class NotSettledError(Exception):
    """The server shows fewer history rows than it counts, so adding rows could duplicate some."""


class Session:
    """One run from opening to end, with its warnings."""

    def __init__(self) -> None:
        self.run: Any = None
        self.online = False
        self.logged: set[Place] = set()
        self.warnings: list[str] = []

    def login(self) -> dict[str, Any]:
        """The client's credentials and its server's address; asks no server."""
        os.environ.pop("WANDB_MODE", None)
        answer: dict[str, Any] = {}
        try:
            answer["logged_in"] = wandb.login(prompt=False, verify=False)
        except wandb.errors.AuthenticationError as error:
            answer["problem"] = one_line(error).rstrip(".")
        # Disabled, so that it starts no service.
        client = wandb.setup(wandb.Settings(mode="disabled"))
        return {**answer, "url": shown(client.settings.base_url)}

    def open(self, *, online: bool, header: dict[str, Any]) -> dict[str, Any]:
        """Open the run; offline, with a warning, if the server does not answer in time."""
        if online:
            try:
                self._init("online", header)
                self.online = True
                return {"run_id": self.run.id}
            except Exception as error:  # the client may raise anything; the trial must go on
                traceback.print_exc()
                wandb.teardown()  # otherwise the client reports the run id as in use
                self.warnings.append(
                    f"W&B is unreachable ({one_line(error)}); this run is offline, "
                    "`xla-sweeps push` uploads it"
                )
        self._init("offline", header)
        return {"run_id": self.run.id}

    def log(self, *, rows: Rows) -> dict[str, Any]:
        """Append history rows that are not logged yet."""
        for row in rows:
            place = (row["replicate"], row["round"])
            if place not in self.logged:
                self.run.log(row)
                self.logged.add(place)
        return {}

    def preempt(self) -> dict[str, Any]:
        """Mark the run as preempting."""
        self.run.mark_preempting()
        return {}

    def finish(
        self,
        *,
        rows: Rows,
        summary: dict[str, Any],
        histograms: dict[str, list[float]],
        exit_code: int,
        deadline: float,
        notes: str,
        logs: list[str],
    ) -> dict[str, Any]:
        """Write summary, notes and logs, close the run, and check that the server has its rows."""
        if notes and (not self.run.notes or COMMAND_MARK in self.run.notes):
            self.run.notes = notes  # not in place of somebody's own
        for name, values in histograms.items():
            self.run.summary[name] = wandb.Histogram(values)
        for name in SUMMARY_KEYS:
            if name not in summary and name in self.run.summary.keys():  # noqa: SIM118
                del self.run.summary[name]
        point = result_point(summary)
        if point and not any(name in self.run.summary.keys() for name in point):  # noqa: SIM118
            self.run.log(point)
        self.run.summary.update({**summary, **point})
        self._write_logs(logs)
        path = f"{self.run.entity}/{self.run.project}/{self.run.id}"
        url = shown(self.run.url or "") if self.online else ""
        place = url or str(Path(self.run.dir).parent)
        answer = {"place": place, "url": url, "run_id": self.run.id}
        try:
            self.run.finish(exit_code=exit_code)
        except Exception as error:
            traceback.print_exc()
            self.warnings.append(f"W&B: {one_line(error)}; {REPAIR}")
            return {**answer, "complete": False}
        if not self.online:
            return {**answer, "complete": not self.warnings}
        wanted = {(row["replicate"], row["round"]) for row in rows}
        replicates = summary.get(REPLICATES_KEY)
        if wanted <= self.logged and in_time(
            lambda: confirmed(path, wanted, replicates, deadline), deadline
        ):
            return {**answer, "complete": True}
        self.warnings.append(f"W&B: the server did not confirm the run; {REPAIR}")
        return {**answer, "complete": False}

    def push(self, *, header: dict[str, Any], deadline: float, **content: Any) -> dict[str, Any]:
        """Upload what the server's run lacks: missing rows are appended, the rest is rewritten.

        A deleted run's id cannot be reused, and a resumed run takes no rows before its last step.
        So rows are identified by replicate and round, and never sent twice.
        """
        self.logged, self.online = rows_on_server(header, deadline), True
        self._init("online", header)
        self.log(rows=content["rows"])
        return self.finish(deadline=deadline, **content)

    def _write_logs(self, logs: list[str]) -> None:
        """Append the logs that the run does not have; W&B itself would append all of them again."""
        digests = list(self.run.summary.get(LOGS_KEY) or [])
        for text in logs:
            digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
            if digest not in digests:
                self.run.write_logs(text)
                digests.append(digest)
                self.run.summary[LOGS_KEY] = list(digests)

    def _init(self, mode: Literal["online", "offline"], header: dict[str, Any]) -> None:
        """`wandb.init` without console capture, system metrics, code or machine data."""
        under_agent = bool(os.environ.get("WANDB_SWEEP_ID")) and not header.get("run_id")
        folder = Path(header["results_dir"])
        folder.mkdir(parents=True, exist_ok=True)
        place = {} if under_agent else {"project": header["project"], "entity": header["entity"]}
        self.run = wandb.init(
            id=None if under_agent else header.get("run_id") or header["own_run_id"],
            resume="allow",
            group=header["group"],
            name=header["name"],
            job_type=header["job_type"],
            notes=header["notes"],
            tags=[tag[:64] for tag in dict.fromkeys(header["tags"]) if tag],
            dir=folder,
            settings=client_settings(mode, header),
            **place,
        )
        # The last round is no result: only estimates are in the summary.
        self.run.define_metric("round", summary="none")
        telemetry = TELEMETRY if header["telemetry"] else ()
        for name in (*ROUND_KEYS, *telemetry, *(f"{label}/*" for label in header["modes"])):
            self.run.define_metric(name, step_metric="round", summary="none")
        self.run.pin_config_keys(pinned(header["scalars"]))
        # A swept key is locked and keeps the sweep's value, with a warning in the log.
        self.run.config.update(header["scalars"], allow_val_change=True)


def client_settings(mode: Literal["online", "offline"], header: dict[str, Any]) -> wandb.Settings:
    """The client's settings, without those that the installed version does not have."""
    wanted = {
        "mode": mode,
        "silent": True,
        "console": "off",
        "disable_git": True,
        "disable_code": True,
        "save_code": False,
        "program": "xla_sweeps",
        "x_disable_stats": True,
        "x_disable_meta": True,
        "x_disable_machine_info": True,
        "x_save_requirements": False,
        "init_timeout": header["connect_timeout_s"],
        "finish_timeout": max(1.0, UPLOAD_SHARE * header["finish_timeout_s"]),
        "finish_timeout_raises": True,
    }
    return wandb.Settings(
        **{name: value for name, value in wanted.items() if name in wandb.Settings.model_fields}
    )


def rows_on_server(header: dict[str, Any], deadline: float) -> set[Place]:
    """The history rows that the server's run already has; none if there is no such run.

    Raises:
        NotSettledError: it still shows fewer rows than it counts at the deadline.
    """
    api = wandb.Api(timeout=max(1, int(header["connect_timeout_s"])))
    entity = header["entity"] or api.default_entity
    path = f"{entity}/{header['project']}/{header['run_id']}"
    while True:
        try:
            return history_of(api.run(path))
        except NotSettledError:
            if time.monotonic() > deadline - MARGIN_S:
                raise
            time.sleep(CONFIRM_PAUSE_S)
        except (wandb.errors.CommError, ValueError) as error:
            if "could not find" in str(error).lower():
                return set()
            raise


def history_of(run: Any) -> set[Place]:
    """(replicate, round) of each history row of a run on the server.

    Raises:
        NotSettledError: it shows fewer rows than it counts.
    """
    rows = [(row.get("replicate"), row.get("round")) for row in run.scan_history()]
    counted = getattr(run, "historyLineCount", None)
    if counted is not None and counted > len(rows):
        raise NotSettledError(
            f"the server shows {len(rows)} of {counted} history rows; try again in a minute"
        )
    return set(rows)


def confirmed(path: str, wanted: set[Place], replicates: Any, deadline: float) -> bool:
    """True once the server has the run with these rows and this summary; False at the deadline."""
    api = None
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # whatever the client raises: no confirmation yet
            api = api or wandb.Api(timeout=5)
            run: Any = api.run(path)
            if run.summary.get(REPLICATES_KEY) == replicates and wanted <= history_of(run):
                return True
        time.sleep(CONFIRM_PAUSE_S)
    return False


def in_time(ask: Callable[[], bool], deadline: float) -> bool:
    """The answer to a question; False if it takes longer."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), name="confirm", daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    return any(answers)


def one_line(error: BaseException) -> str:
    """An error's message, shortened, on one line and without secrets."""
    return shown(" ".join(str(error).split()) or type(error).__name__)[:240]


def shown(text: str) -> str:
    """A text from the client without API key or credentials in a URL."""
    key = os.environ.get("WANDB_API_KEY")
    text = text.replace(key, "***") if key else text
    return re.sub(r"//[^/@\s]+@", "//***@", text)


def is_reachable(error: BaseException) -> bool:
    """False if the server does not answer or rejects the key: other runs would fail too."""
    late = re.search(r"deadline exceeded|timed out|in time|refused|no such host", str(error))
    return not late and not isinstance(error, TimeoutError | wandb.errors.AuthenticationError)


class Conversation:
    """Read orders in its own thread, so that rounds are accepted while the client connects."""

    def __init__(self, answers: int) -> None:
        self._channel = answers
        self._lock = threading.Lock()
        self.orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.connecting = True
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def tell(self, number: int, **answer: Any) -> None:
        """Answer an order."""
        line = json.dumps({"number": number, **answer}).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            os.write(self._channel, line)

    def _read(self) -> None:
        with contextlib.suppress(ValueError, KeyError):
            for line in sys.stdin.buffer:
                order = json.loads(line)
                if "within_s" in order:
                    order["deadline"] = time.monotonic() + order.pop("within_s") - MARGIN_S
                self.orders.put(order)
                if self.connecting and order["order"] == "log":
                    self.tell(order["number"], queued=True)
        self.orders.put(None)
        self._orphaned()

    def _orphaned(self) -> None:
        """Kill everything shortly after the parent's end; the run can be closed until then."""
        time.sleep(ORPHAN_GRACE_S)
        kill_marked(os.environ.get(MARK, ""), spare=[os.getpid()])
        remove_scratch()
        os._exit(1)


def follow(conversation: Conversation, session: Session) -> Session:
    """Follow orders until the parent closes the conversation; returns the last session."""
    finished = False
    while (order := conversation.orders.get()) is not None:
        name, number = order.pop("order"), order.pop("number")
        if name == "push":
            session = Session()
        try:
            answer: dict[str, Any] = {"complete": False}
            if session.run is not None or name in ("login", "open", "push"):
                answer = getattr(session, name)(**order)
        except Exception as error:
            traceback.print_exc()
            session.warnings.append(f"W&B: {one_line(error)}")
            answer["reachable"] = is_reachable(error)
        conversation.connecting = conversation.connecting and name != "open"
        finished = finished or name in ("finish", "push")
        conversation.tell(number, **answer, warnings=session.warnings)
    if session.run is not None and not finished:
        with contextlib.suppress(Exception):
            session.run.finish(exit_code=ORPHAN_EXIT_CODE)
    return session


def remove_scratch() -> None:
    """Remove this helper's temporary files, because its parent has died."""
    shutil.rmtree(os.environ.get(SCRATCH, ""), ignore_errors=True)


def serve(obey: Callable[[Conversation], object]) -> None:
    """Run as the helper: follow orders until standard input ends, then end all descendants.

    Args:
        obey: takes orders from the conversation until it ends.
    """
    parent, descriptor = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(descriptor, False)
    # Ignored, because the end of standard input has the same meaning and a grace period.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        die_with_parent(parent, signal.SIGTERM)
    except SystemExit:
        remove_scratch()
        raise
    os.nice(NICENESS)
    obey(Conversation(descriptor))
    with contextlib.suppress(Exception):
        wandb.teardown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    serve(lambda conversation: follow(conversation, Session()))
