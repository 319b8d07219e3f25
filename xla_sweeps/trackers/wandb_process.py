"""The helper process that owns the W&B client: the only `import wandb`.

Orders come as JSON lines on standard input, answers go to a descriptor of their own, and whatever the client prints
goes to a log. It ends with its parent, however that ends.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import signal
import sys
import time
import traceback
import urllib.request
from pathlib import Path
from typing import Any, Literal

import wandb

from xla_sweeps.trackers.summary import REPLICATES_KEY
from xla_sweeps.trackers.wandb import api_key

PR_SET_PDEATHSIG = 1
CONFIRM_TRIES = 5
CONFIRM_PAUSE_S = 0.5
RUN_QUERY = """query Run($entity: String, $project: String!, $run: String!) {
  project(name: $project, entityName: $entity) { run(name: $run) { summaryMetrics historyLineCount } } }"""


class Session:
    """The run, once it is open, and what went wrong on the way."""

    def __init__(self) -> None:
        self.run: Any = None
        self.online = False
        self.warnings: list[str] = []
        self.failed = False

    def open(self, *, online: bool, header: dict[str, Any], fallback: bool = True) -> None:
        """Open the run; offline, with a warning, where the server cannot be had in time and `fallback` allows."""
        if online:
            try:
                self.run = self._init("online", header)
                self.online = True
                return
            except Exception as error:  # whatever the client raises: the trial must go on
                traceback.print_exc()
                wandb.teardown()
                reason = _one_line(error)
                if not fallback:
                    self.failed = True
                    self.warnings.append(reason)
                    return
                self.warnings.append(f"W&B is out of reach ({reason}); this run is offline, `xla-sweeps push` sends it")
        self.run = self._init("offline", header)

    def _init(self, mode: Literal["online", "offline"], header: dict[str, Any]) -> Any:
        """`wandb.init` without console capture, system metrics, code or machine data."""
        swept = "WANDB_SWEEP_ID" in os.environ
        settings = wandb.Settings(
            mode=mode,
            silent=True,
            console="off",
            init_timeout=header["connect_timeout_s"],
            finish_timeout=header["finish_timeout_s"],
            disable_git=True,
            disable_code=True,
            save_code=False,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            program="xla_sweeps",
        )
        folder = Path(header["results_dir"])
        folder.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            id=None if swept else header["trial_id"],
            resume=None if swept else "allow",
            project=header["project"],
            entity=header["entity"],
            group=header["group"],
            name=header["name"],
            job_type="trial",
            tags=[tag[:64] for tag in header["tags"]],
            dir=folder,
            settings=settings,
        )
        locked = set(dict(run.config))
        scalars = {key: value for key, value in header["scalars"].items() if not swept or key not in locked}
        run.config.update({"cfg": header["config"], **scalars}, allow_val_change=True)  # type: ignore[no-untyped-call]
        return run

    def log(self, rows: list[dict[str, Any]]) -> None:
        """Append history rows."""
        for row in rows:
            self.run.log(row)

    def log_missing(self, rows: list[dict[str, Any]]) -> None:
        """Append the rows that a resumed run does not have: row i is step i, and rows arrive in order."""
        for step, row in enumerate(rows):
            if step >= self.run.step:
                self.run.log(row, step=step)

    def preempt(self) -> None:
        """Mark the run as preempting."""
        self.run.mark_preempting()

    def finish(self, *, summary: dict[str, Any], histograms: dict[str, list[float]], exit_code: int) -> dict[str, Any]:
        """Write the summary, close the run, and ask the server whether it has it."""
        if self.run is None:
            return {"complete": False, "place": ""}
        for name, values in histograms.items():
            self.run.summary[name] = wandb.Histogram(values)
        self.run.summary.update(summary)
        place = self.run.url if self.online else str(Path(self.run.dir).parent)
        identity = (self.run.entity, self.run.project, self.run.id)
        url, key = str(self.run.settings.base_url), api_key(os.environ) if self.online else None
        try:
            self.run.finish(exit_code=exit_code)
        except Exception as error:
            traceback.print_exc()
            self.warnings.append(f"W&B: {_one_line(error)}; `xla-sweeps push` sends what is missing")
            return {"complete": False, "place": place}
        if not self.online:
            return {"complete": not self.warnings, "place": place}
        if confirmed(url, key, identity, summary.get(REPLICATES_KEY)):
            return {"complete": True, "place": place}
        self.warnings.append("W&B: the server did not confirm the run; `xla-sweeps push` sends what is missing")
        return {"complete": False, "place": place}


def confirmed(url: str, key: str | None, identity: tuple[str, str, str], replicates: int | None) -> bool:
    """Whether the server has the run with its summary: what was sent last has arrived."""
    entity, project, run = identity
    body = json.dumps({"query": RUN_QUERY, "variables": {"entity": entity, "project": project, "run": run}}).encode()
    token = base64.b64encode(f"api:{key}".encode()).decode()
    headers = {"Content-Type": "application/json", "Authorization": f"Basic {token}"}
    for _ in range(CONFIRM_TRIES):
        try:
            request = urllib.request.Request(f"{url.rstrip('/')}/graphql", data=body, headers=headers)
            with urllib.request.urlopen(request, timeout=10) as response:
                found = json.load(response)["data"]["project"]["run"]
            if json.loads(found["summaryMetrics"] or "{}").get(REPLICATES_KEY) == replicates:
                return True
        except (OSError, ValueError, KeyError, TypeError):
            traceback.print_exc()
        time.sleep(CONFIRM_PAUSE_S)
    return False


def main() -> None:
    """Follow orders until the end of standard input."""
    parent, descriptor = int(sys.argv[1]), int(sys.argv[2])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    session = Session()
    with os.fdopen(descriptor, "wb", buffering=0) as answers:
        for line in sys.stdin.buffer:
            order = json.loads(line)
            name = order.pop("order")
            answer: dict[str, Any] = {}
            try:
                if session.run is not None or name in ("open", "finish"):
                    answer = getattr(session, name)(**order) or {}
            except Exception as error:
                traceback.print_exc()
                session.warnings.append(f"W&B: {_one_line(error)}")
                answer = {"complete": False, "place": ""}
            answers.write(json.dumps({"answer": name, **answer, "warnings": session.warnings}).encode() + b"\n")
            if name == "finish":
                break
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


if __name__ == "__main__":
    main()
