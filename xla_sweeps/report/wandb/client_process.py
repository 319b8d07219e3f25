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
from functools import partial
from pathlib import Path
from typing import Any, Literal

import wandb

from xla_sweeps.report import run_content
from xla_sweeps.report.wandb.client import REPAIR, SCRATCH, kill_users_of
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

Rows = list[dict[str, Any]]

Place = tuple[int, int]
"""(replicate, round): identifies a history row."""


class Session:
    """One run from opening to end, with its warnings; its methods are the orders."""

    def __init__(self) -> None:
        self.run: Any = None
        self.online = False
        self.logged: set[Place] = set()
        self.warnings: list[str] = []

    def login(self) -> dict[str, Any]:
        """The client's credentials and its server's address; asks no server."""
        os.environ.pop("WANDB_MODE", None)
        logged_in, problem = False, ""
        try:
            logged_in = wandb.login(prompt=False, verify=False)
        except wandb.errors.AuthenticationError as error:
            problem = one_line(error).rstrip(".")
        # Disabled, so that it starts no service.
        client = wandb.setup(wandb.Settings(mode="disabled"))
        url = redact_text(client.settings.base_url)
        return {"logged_in": logged_in, "problem": problem, "url": url}

    def open(self, *, online: bool, header: dict[str, Any]) -> dict[str, Any]:
        """Open the run; offline, with a warning, if the server does not answer in time."""
        if online:
            try:
                self._init("online", header)
            except Exception as error:  # the client may raise anything; the trial must go on
                traceback.print_exc()
                self.run = None
                wandb.teardown()  # otherwise the client reports the run id as in use
                self.warnings.append(
                    f"W&B is unreachable ({one_line(error)}); this run is offline, "
                    "`xla-sweeps push` uploads it"
                )
        self.online = bool(self.run)
        if not self.run:
            self._init("offline", header)
        return {"run_id": self.run.id}

    def log(self, *, rows: Rows) -> dict[str, Any]:
        """Append history rows that are not logged yet."""
        for row in rows if self.run else ():
            place = (row["replicate"], row["round"])
            if place not in self.logged:
                self.run.log(row)
                self.logged.add(place)
        return {}

    def preempt(self) -> dict[str, Any]:
        """Mark the run as preempting."""
        if self.run:
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
        run, self.run = self.run, None
        if not run:
            return {"complete": False, "warnings": self.warnings}
        if notes and (not run.notes or run_content.COMMAND_MARK in run.notes):
            run.notes = notes  # not in place of somebody's own
        for name, values in histograms.items():
            run.summary[name] = wandb.Histogram(values)
        there = set(run.summary.keys())
        for name in there.intersection(run_content.SUMMARY_KEYS).difference(summary):
            del run.summary[name]
        point = run_content.result_point(summary)
        if not there.intersection(point):
            run.log(point)
        run.summary.update({**summary, **point})
        _write_logs(run, logs)
        path = f"{run.entity}/{run.project}/{run.id}"
        url = redact_text(run.url or "") if self.online else ""
        place = url or str(Path(run.dir).parent)
        answer = {"place": place, "url": url, "run_id": run.id, "warnings": self.warnings}
        answer["complete"] = False
        try:
            run.finish(exit_code=exit_code)
        except Exception as error:
            traceback.print_exc()
            self.warnings.append(f"W&B: {one_line(error)}; {REPAIR}")
            return answer
        if not self.online:
            return {**answer, "complete": not self.warnings}
        wanted = {(row["replicate"], row["round"]) for row in rows}
        ask = partial(is_confirmed, path, wanted, summary.get(run_content.REPLICATES_KEY), deadline)
        complete = wanted <= self.logged and in_time(ask, deadline)
        if not complete:
            self.warnings.append(f"W&B: the server did not confirm the run; {REPAIR}")
        return {**answer, "complete": complete}

    def push(self, *, header: dict[str, Any], deadline: float, **content: Any) -> dict[str, Any]:
        """Upload what the server's run lacks: missing rows are appended, the rest is rewritten.

        A deleted run's id cannot be reused, and a resumed run takes no rows before its last step.
        So rows are identified by replicate and round, and never sent twice.
        """
        self.run, self.online, self.warnings = None, True, []
        self.logged = rows_on_server(header, deadline)
        self._init("online", header)
        self.log(rows=content["rows"])
        return self.finish(deadline=deadline, **content)

    def answer_of_failure(self, error: Exception) -> dict[str, Any]:
        """The answer to an order that raised an error."""
        self.warnings.append(f"W&B: {one_line(error)}")
        return {"complete": False, "reachable": is_reachable(error), "warnings": self.warnings}

    def close(self) -> None:
        """End a run that the parent did not."""
        if self.run:
            with contextlib.suppress(Exception):
                self.run.finish(exit_code=ORPHAN_EXIT_CODE)

    def _init(self, mode: Literal["online", "offline"], header: dict[str, Any]) -> None:
        """`wandb.init` without console capture, system metrics, code or machine data."""
        under_agent = bool(os.environ.get("WANDB_SWEEP_ID")) and not header.get("run_id")
        folder = Path(header["wandb_dir"])
        folder.mkdir(parents=True, exist_ok=True)
        asked = header["tracker"]
        place = {} if under_agent else {"project": asked["project"], "entity": asked["entity"]}
        self.run = wandb.init(
            id=None if under_agent else header.get("run_id") or header["own_run_id"],
            resume="allow",
            group=asked["group"],
            name=header["name"],
            job_type=asked["job_type"] or "trial",
            notes=asked["notes"],
            tags=[tag[:64] for tag in dict.fromkeys(header["tags"]) if tag],
            dir=folder,
            settings=client_settings(mode, header),
            **place,
        )
        # The last round is no result: only estimates are in the summary.
        self.run.define_metric("round", summary="none")
        telemetry = run_content.TELEMETRY if asked["telemetry"] else ()
        for name in (
            *run_content.ROUND_KEYS,
            *telemetry,
            *(f"{label}/*" for label in header["modes"]),
        ):
            self.run.define_metric(name, step_metric="round", summary="none")
        self.run.pin_config_keys(keys_to_pin(header["scalars"]))
        # A swept key is locked and keeps the sweep's value, with a warning in the log.
        self.run.config.update(header["scalars"], allow_val_change=True)


def keys_to_pin(scalars: dict[str, Any]) -> list[str]:
    """Config keys to show above the notes; a text may hold no link, picture or HTML."""
    return [
        name
        for name in ("model", "resolution", "batch_size", "accelerator")
        if isinstance(value := scalars.get(name), int)
        or re.fullmatch(r"[\w .,:@()+-]+", str(value or ""))
    ]


def _write_logs(run: Any, logs: list[str]) -> None:
    """Append the logs that the run does not have; W&B itself would append all of them again."""
    digests = list(run.summary.get(LOGS_KEY) or [])
    for text in logs:
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        if digest not in digests:
            run.write_logs(text)
            digests.append(digest)
            run.summary[LOGS_KEY] = list(digests)


def client_settings(mode: Literal["online", "offline"], header: dict[str, Any]) -> wandb.Settings:
    """The client's settings: it sends only what this program gives it."""
    return wandb.Settings(
        mode=mode,
        silent=True,
        console="off",
        program="xla_sweeps",
        save_code=False,
        x_save_requirements=False,
        disable_git=True,
        disable_code=True,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        init_timeout=header["connect_timeout_s"],
        finish_timeout=max(1.0, UPLOAD_SHARE * header["finish_timeout_s"]),
        finish_timeout_raises=True,
    )


def rows_on_server(header: dict[str, Any], deadline: float) -> set[Place]:
    """The history rows that the server's run already has; none if there is no such run.

    Raises:
        RuntimeError: it still shows fewer rows than it counts at the deadline, so that adding rows
            could duplicate some.
    """
    api = wandb.Api(timeout=max(1, int(header["connect_timeout_s"])))
    entity = header["tracker"]["entity"] or api.default_entity
    path = f"{entity}/{header['tracker']['project']}/{header['run_id']}"
    while True:
        try:
            rows, counted = history_of(api.run(path))
        except (wandb.errors.CommError, ValueError) as error:
            if "could not find" in str(error).lower():
                return set()
            raise
        if len(rows) >= counted:
            return set(rows)
        if time.monotonic() > deadline - MARGIN_S:
            raise RuntimeError(
                f"the server shows {len(rows)} of {counted} history rows; try again in a minute"
            )
        time.sleep(CONFIRM_PAUSE_S)


def history_of(run: Any) -> tuple[list[Place], int]:
    """(replicate, round) of each history row that the server shows, and how many it counts."""
    rows = [(row.get("replicate"), row.get("round")) for row in run.scan_history()]
    return rows, getattr(run, "historyLineCount", None) or 0


def is_confirmed(path: str, wanted: set[Place], replicates: Any, deadline: float) -> bool:
    """True once the server has the run with these rows and this summary; False at the deadline."""
    api = None
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # whatever the client raises: no confirmation yet
            api = api or wandb.Api(timeout=5)
            run: Any = api.run(path)
            rows, counted = history_of(run)
            whole = len(rows) >= counted and wanted.issubset(rows)
            if whole and run.summary.get(run_content.REPLICATES_KEY) == replicates:
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
    return redact_text(" ".join(str(error).split()) or type(error).__name__)[:240]


def redact_text(text: str) -> str:
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
        self._end_orphan()

    def _end_orphan(self) -> None:
        """Kill everything shortly after the parent's end; the run can be closed until then."""
        time.sleep(ORPHAN_GRACE_S)
        scratch = os.environ.get(SCRATCH, "")
        kill_users_of(scratch, spare=[os.getpid()])
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(1)


def follow(conversation: Conversation, target: Any) -> None:
    """Answer orders by the methods of `target` until the parent closes the conversation."""
    while (order := conversation.orders.get()) is not None:
        name, number = order.pop("order"), order.pop("number")
        try:
            answer = getattr(target, name)(**order)
        except Exception as error:  # the client may raise anything
            traceback.print_exc()
            answer = target.answer_of_failure(error)
        conversation.connecting = conversation.connecting and name != "open"
        conversation.tell(number, **answer)
    target.close()


def serve(target: Any) -> None:
    """Run as the helper: follow orders until standard input ends, then end all descendants."""
    parent, descriptor = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(descriptor, False)
    # Ignored, because the end of standard input has the same meaning and a grace period.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        die_with_parent(parent, signal.SIGTERM)
    except SystemExit:  # its parent has died already
        shutil.rmtree(os.environ.get(SCRATCH, ""), ignore_errors=True)
        raise
    os.nice(NICENESS)
    follow(Conversation(descriptor), target)
    with contextlib.suppress(Exception):
        wandb.teardown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    serve(Session())
