"""The state of a W&B server, and its answers to GraphQL operations of the client (wandb 0.31).

Only what the client needs for runs, their history, sweeps and agents. Values are stored as they
arrive, so that a test can assert on what was really sent.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from wandb_views import Variables, Views

ENTITY = "tester"


class GraphQLError(Exception):
    """The server understood the operation and refuses it."""

    def __init__(self, message: str, status: int = 200) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class StoredRun:
    """One run as the server has it.

    Attributes:
        raw_config: as sent: `{key: {"value": ...}}`; see `config`.
        history: rows of wandb-history.jsonl, at the offsets that the client gave; see `rows`.
        updates: how many requests changed it.
        preempting: whether the client ever said that the run is being preempted.
    """

    entity: str
    project: str
    name: str
    number: int
    display_name: str = ""
    group: str = ""
    job_type: str = ""
    notes: str = ""
    sweep: str = ""
    tags: list[str] = field(default_factory=list)
    raw_config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    exit_code: int | None = None
    preempting: bool = False
    state: str = "pending"
    updates: int = 0

    @property
    def id(self) -> str:
        """The storage id that GraphQL calls `id`."""
        return base64.b64encode(
            f"Run:v1:{self.name}:{self.project}:{self.entity}".encode()
        ).decode()

    @property
    def config(self) -> dict[str, Any]:
        """The config as a person set it."""
        return {key: entry["value"] for key, entry in self.raw_config.items() if key != "_wandb"}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The history as it was logged, without the client's own columns."""
        return [
            {key: value for key, value in row.items() if not key.startswith("_")}
            for row in self.history
        ]

    def stream(self, document: Mapping[str, Any]) -> None:
        """Store one file_stream request; lines sent twice are stored at the same offset twice."""
        self.updates += bool(document)
        targets: dict[str, list[Any]] = {
            "wandb-history.jsonl": self.history,
            "wandb-events.jsonl": self.events,
        }
        for name, part in document.get("files", {}).items():
            lines = (
                [json.loads(line) for line in part["content"]]
                if name != "output.log"
                else part["content"]
            )
            if name == "wandb-summary.json":
                self.summary = lines[-1]
                continue
            target = targets.get(name, self.output)
            target[part["offset"] : part["offset"] + len(lines)] = lines
        self.preempting = self.preempting or bool(document.get("preempting"))
        self.state = "preempting" if document.get("preempting") else self.state
        if document.get("complete"):
            self.exit_code = document.get("exitcode")
            self.state = "finished" if self.exit_code == 0 else "failed"

    def describe(self) -> dict[str, Any]:
        """Every field that the client asks of a run."""
        tail = self.history[-1:]
        telemetry = self.raw_config.get("_wandb", {}).get("value", {}).get("t")
        return {
            "id": self.id,
            "name": self.name,
            "displayName": self.display_name,
            "description": "",
            "notes": self.notes,
            "config": json.dumps(self.raw_config),
            "summaryMetrics": json.dumps(self.summary),
            "tags": self.tags,
            "systemMetrics": "{}",
            "group": self.group,
            "jobType": self.job_type,
            "sweepName": self.sweep or None,
            "state": self.state,
            "commit": None,
            "readOnly": False,
            "createdAt": "2026-01-01T00:00:00Z",
            "heartbeatAt": "2026-01-01T00:00:00Z",
            "user": {"name": ENTITY, "username": ENTITY},
            "projectId": "1",
            "project": _project(self.entity, self.project),
            "historyLineCount": len(self.history),
            "eventsLineCount": len(self.events),
            "logLineCount": len(self.output),
            "historyTail": json.dumps([json.dumps(row) for row in tail]),
            "eventsTail": "[]",
            "historyKeys": {
                "lastStep": self.history[-1]["_step"] if self.history else -1,
                "keys": {},
                "sets": [],
            },
            "wandbConfig": json.dumps({"t": telemetry} if telemetry else {}),
            "stopped": False,
            "shouldStop": False,
            "exitcode": self.exit_code,
            "failed": self.state == "failed",
            "running": self.state == "running",
            "sampledHistory": [self.history],
            "parquetHistory": {"parquetUrls": [], "liveData": self.history},
        }


@dataclass
class StoredSweep:
    """A sweep over a grid: parameters are handed out in order.

    Attributes:
        waiting: parameters not yet handed out.
        handed_out: run name to its parameters.
        stopping: runs that a person has stopped in the page.
        resumes: runs to hand out again, with the whole config that they logged, as the server does.
    """

    entity: str
    project: str
    name: str
    config: dict[str, Any]
    waiting: list[dict[str, Any]]
    state: str = "PENDING"
    handed_out: dict[str, dict[str, Any]] = field(default_factory=dict)
    agents: list[str] = field(default_factory=list)
    stopping: list[str] = field(default_factory=list)
    resumes: list[str] = field(default_factory=list)


class Backend:
    """Everything stored, and the answers. One lock: requests come from several threads."""

    def __init__(self, upload_url: Callable[[StoredRun, str], str], url: Callable[[], str]) -> None:
        self.runs: dict[str, StoredRun] = {}
        self.sweeps: dict[str, StoredSweep] = {}
        self.operations: list[str] = []
        self.unknown: list[str] = []
        self.lock = threading.RLock()
        self._upload_url = upload_url
        self._numbers = itertools.count(1)
        self.pages = Views(lambda: list(self.runs.values()), url)
        self._operations: dict[str, Callable[[Variables], dict[str, Any]]] = {
            "Viewer": _viewer,
            "GetDefaultEntity": _viewer,
            "ServerFeaturesQuery": lambda _: {"serverInfo": {"features": []}},
            "RunResumeStatus": self._resume_status,
            "UpsertBucket": self._upsert_run,
            "CreateRunFiles": self._create_files,
            "UpsertSweep": self._upsert_sweep,
            "CreateAgent": self._create_agent,
            "Heartbeat": self._heartbeat,
            **self.pages.operations,
        }

    def answer(self, query: str, variables: Variables) -> dict[str, Any]:
        """The `data` of one operation.

        Raises:
            GraphQLError: refused, or an operation that this server does not know.
        """
        match = re.search(r"\b(?:query|mutation)\s+(\w+)", query)
        name = match.group(1) if match else ""
        with self.lock:
            self.operations.append(name)
            if name in self._operations:
                return self._operations[name](variables)
            if "sweep(" in query:
                return {"project": {"sweep": self._describe_sweep(variables)}}
            if "run(" in query:
                return {"project": {"run": self._describe_run(variables)}}
        self.unknown.append(name or query[:80])
        raise GraphQLError(f"this test server does not know the operation {name or query[:80]!r}")

    def _describe_run(self, variables: Variables) -> dict[str, Any] | None:
        run = self.runs.get(
            variables.get("name") or variables.get("run") or variables.get("runName") or ""
        )
        if run is None or variables.get("project") != run.project:
            return None
        described = run.describe()
        if "minStep" in variables:
            steps = range(int(variables["minStep"]), int(variables["maxStep"]))
            described["history"] = [json.dumps(row) for row in run.history if row["_step"] in steps]
        return described

    def _resume_status(self, variables: Variables) -> dict[str, Any]:
        run = self.runs.get(variables["name"])
        project = _project(variables.get("entity") or ENTITY, variables["project"])
        return {"model": {**project, "bucket": run.describe() if run else None}}

    def _upsert_run(self, variables: Variables) -> dict[str, Any]:
        name = variables.get("name") or next(
            (run.name for run in self.runs.values() if run.id == variables.get("id")),
            f"run{next(self._numbers)}",
        )
        inserted = name not in self.runs
        if inserted:
            self.runs[name] = StoredRun(
                entity=variables.get("entity") or ENTITY,
                project=variables.get("project") or "uncategorized",
                name=name,
                number=next(self._numbers),
                sweep=variables.get("sweep") or "",
            )
        run = self.runs[name]
        for key, attribute in (
            ("displayName", "display_name"),
            ("groupName", "group"),
            ("jobType", "job_type"),
            ("notes", "notes"),
        ):
            if variables.get(key):
                setattr(run, attribute, variables[key])
        run.display_name = run.display_name or f"run-{run.number}"
        run.tags = list(variables["tags"]) if variables.get("tags") is not None else run.tags
        run.updates += 1
        run.raw_config.update(json.loads(variables.get("config") or "{}"))
        if variables.get("program"):  # sent when a run is opened, not with later changes
            run.state = "running"
        return {"upsertBucket": {"bucket": run.describe(), "inserted": inserted}}

    def _create_files(self, variables: Variables) -> dict[str, Any]:
        run = self.runs[variables["run"]]
        files = [
            {"name": name, "uploadUrl": self._upload_url(run, name)} for name in variables["files"]
        ]
        return {"createRunFiles": {"runID": run.id, "uploadHeaders": [], "files": files}}

    def _upsert_sweep(self, variables: Variables) -> dict[str, Any]:
        stored = self.sweeps.get(variables.get("id") or "")
        if stored is None:
            config = yaml.safe_load(variables["config"])
            names = list(config["parameters"])
            choices = [_choices(config["parameters"][name]) for name in names]
            waiting = [
                dict(zip(names, values, strict=True)) for values in itertools.product(*choices)
            ]
            stored = StoredSweep(
                entity=variables.get("entityName") or ENTITY,
                project=variables.get("projectName") or "uncategorized",
                name=f"sweep{next(self._numbers)}",
                config=config,
                waiting=waiting[: config.get("run_cap")],
            )
            self.sweeps[stored.name] = stored
        stored.state = variables.get("state") or stored.state
        project = _project(stored.entity, stored.project)
        described = {"name": stored.name, "project": project}
        return {"upsertSweep": {"sweep": described, "configValidationWarnings": []}}

    def _describe_sweep(self, variables: Variables) -> dict[str, Any] | None:
        sweep = self.sweeps.get(variables.get("sweep") or variables.get("name") or "")
        if sweep is None:
            return None
        runs = [run.describe() for run in self.runs.values() if run.sweep == sweep.name]
        return {
            "id": sweep.name,
            "name": sweep.name,
            "method": sweep.config["method"],
            "state": sweep.state,
            "description": "",
            "config": yaml.safe_dump(sweep.config),
            "createdAt": "2026-01-01T00:00:00Z",
            "heartbeatAt": None,
            "updatedAt": None,
            "earlyStopJobRunning": False,
            "bestLoss": None,
            "controller": None,
            "scheduler": None,
            "runs": {"edges": [{"node": run} for run in runs]},
        }

    def _create_agent(self, variables: Variables) -> dict[str, Any]:
        sweep = self.sweeps.get(variables["sweep"])
        if sweep is None:
            raise GraphQLError("sweep not found", status=404)
        sweep.agents.append(f"{sweep.name}/agent{next(self._numbers)}")
        return {"createAgent": {"agent": {"id": sweep.agents[-1]}}}

    def _heartbeat(self, variables: Variables) -> dict[str, Any]:
        sweep = self.sweeps[variables["id"].partition("/")[0]]
        sweep.state = "RUNNING" if sweep.state == "PENDING" else sweep.state
        running = json.loads(variables.get("runState") or "{}")
        busy = any(running.values())
        commands: list[dict[str, Any]] = []
        if busy and sweep.stopping:
            mine = [name for name in sweep.stopping if running.get(name)]
            commands += [{"type": "stop", "run_id": name} for name in mine]
        elif not busy and sweep.resumes:
            run = self.runs[sweep.resumes.pop(0)]
            commands.append(_command("resume", run, run.config, None))
        elif sweep.state != "RUNNING" or (not sweep.waiting and not busy):
            commands.append({"type": "exit"})
        elif not busy:
            commands.append(self._next_run(sweep))
        return {
            "agentHeartbeat": {"agent": {"id": variables["id"]}, "commands": json.dumps(commands)}
        }

    def _next_run(self, sweep: StoredSweep) -> dict[str, Any]:
        values, number = sweep.waiting.pop(0), next(self._numbers)
        run = StoredRun(
            entity=sweep.entity,
            project=sweep.project,
            name=f"run{number}",
            number=number,
            sweep=sweep.name,
        )
        self.runs[run.name] = run
        sweep.handed_out[run.name] = values
        return _command("run", run, values, sweep.config.get("program"))


def _command(
    kind: str, run: StoredRun, values: Mapping[str, Any], program: str | None
) -> dict[str, Any]:
    """Order to an agent about a run."""
    arguments = {name: {"value": value} for name, value in values.items()}
    told = {"type": kind, "run_id": run.name, "run_uuid": run.id}
    return {**told, "args": arguments, "program": program}


def _project(entity: str, name: str) -> dict[str, Any]:
    return {"id": "1", "name": name, "entity": {"id": "1", "name": entity}}


def _viewer(variables: Variables) -> dict[str, Any]:
    return {
        "viewer": {
            "id": "1",
            "entity": ENTITY,
            "username": ENTITY,
            "name": ENTITY,
            "email": "",
            "admin": False,
            "flags": "{}",
            "teams": {"edges": []},
        }
    }


def _choices(parameter: Mapping[str, Any]) -> list[Any]:
    return list(parameter["values"]) if "values" in parameter else [parameter["value"]]
