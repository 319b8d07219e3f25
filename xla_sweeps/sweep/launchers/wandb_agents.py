"""Sweeps that a W&B server hands out: creates one, and keeps one real `wandb agent` on every device.

The agent's traps are met here: it counts only positive exit codes as failures, exits 0 when it
gives up, starts whatever `python` is first on PATH, and leaves its child behind unless signals are
forwarded.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.sweep.definition import load_sweep
from xla_sweeps.sweep.launchers.local import Lane, job_environment
from xla_sweeps.system.process import PARENT_VARIABLE

STAGGER_S = 2.0

TERM_TIMEOUT_S = 60

KILL_GRACE_S = 75.0

MAX_FAILED = 20

COMMAND = ["${env}", "${interpreter}", "-m", "xla_sweeps", "${args_json}"]

PATH_PATTERN = re.compile(r"[\w.-]+/[\w. -]+/[\w-]+")

_CREATED = re.compile(r"wandb agent '?([^'\s\x1b]+/[^'\x1b]+?/[\w-]+)")

_GAVE_UP = "consecutive failed runs"

SHIM = """#!/usr/bin/env bash
# The interpreter that the agent starts. A child that a signal killed becomes an exit code above
# 128, which it counts.
{python} "$@" &
child=$!
trap 'kill -TERM $child 2>/dev/null' TERM
trap 'kill -INT $child 2>/dev/null' INT
while true; do
  wait $child
  code=$?
  kill -0 $child 2>/dev/null || exit $code
done
"""


@dataclass(eq=False)
class _Agent:
    lane: Lane
    process: subprocess.Popen[bytes]
    log: Path


class Screen(Protocol):
    """What a person follows the agents on."""

    def running(self, lane: str, what: str, log: Path) -> None:
        """An agent runs on a device."""

    def ended(self, lane: str, what: str, outcome: str, detail: str) -> None:
        """An agent ended, and how."""

    def tick(self) -> None:
        """Time has passed."""

    def warn(self, message: str) -> None:
        """Something a person should know now."""


def create(path: Path, values: Mapping[str, Any], results_dir: Path) -> str:
    """Create a sweep on the W&B server; returns `ENTITY/PROJECT/ID`.

    Args:
        path: the definition.
        values: overrides of the command line, which become constant parameters.
        results_dir: the definition as it was sent is kept below it.

    Raises:
        XlaSweepsError: the server refused.
    """
    document = _definition(path, values)
    folder = results_dir / "logs" / "sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{document['name']}-{os.getpid()}.yaml"
    written.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return _create(written, document, values)


def check_path(path: str) -> None:
    """Refuse what is no sweep of W&B's.

    Raises:
        ConfigError: with how to write it.
    """
    if not PATH_PATTERN.fullmatch(path):
        raise ConfigError(f"agents {path}: write ENTITY/PROJECT/ID, as `wandb sweep` prints it")


def run(
    path: str,
    *,
    lanes: Sequence[Lane],
    results_dir: Path,
    screen: Screen,
    max_failed: int = MAX_FAILED,
) -> int:
    """One agent on each device until the sweep has no more trials; exit code 1 where one gave up.

    Args:
        path: `ENTITY/PROJECT/ID`.
        lanes: the devices.
        results_dir: below it lie the agents' logs and W&B's files.
        screen: told how the agents fare.
        max_failed: trials in a row that may fail before an agent gives up.
    """
    folder = (
        results_dir / "logs" / "agents" / f"{path.rpartition('/')[2]}-{os.getpid()}"
    ).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    shim = _shim(folder)
    agents: list[_Agent] = []
    with _Stopper(agents) as stopper:
        for lane in lanes:
            if stopper.number:
                break
            agent = _start(path, lane, folder, shim, results_dir, max_failed)
            agents.append(agent)
            screen.running(lane.name, f"wandb agent {path}", agent.log)
            if lane is not lanes[-1]:
                time.sleep(STAGGER_S)
        code = _wait(agents, screen, stopper)
    return 128 + stopper.number if stopper.number else code


def _start(
    path: str, lane: Lane, folder: Path, shim: Path, results_dir: Path, max_failed: int
) -> _Agent:
    log = folder / f"{lane.name.replace(':', '')}.log"
    environment = job_environment(os.environ, lane) | {
        "PATH": f"{shim}{os.pathsep}{os.environ.get('PATH', '')}",
        "WANDB_DIR": str(folder),
        "WANDB_AGENT_DISABLE_FLAPPING": "true",  # a model that does not compile is a result
        "WANDB_AGENT_MAX_INITIAL_FAILURES": str(max_failed),
        "WANDB_AGENT_KILL_DELAY": str(TERM_TIMEOUT_S),
    }
    environment.pop(PARENT_VARIABLE)
    command = [
        sys.executable,
        "-m",
        "wandb",
        "agent",
        "--forward-signals",
        "--term-timeout",
        str(TERM_TIMEOUT_S),
        "--max-consecutive-failed-runs",
        str(max_failed),
        path,
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    if lane.cores:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(process.pid, lane.cores)
    return _Agent(lane, process, log)


def _wait(agents: Sequence[_Agent], screen: Screen, stopper: _Stopper) -> int:
    """Wait for all agents; 1 where one gave up or failed."""
    code = 0
    left = list(agents)
    while left:
        time.sleep(0.25)
        screen.tick()
        if stopper.late():
            for agent in left:
                _kill(agent, signal.SIGKILL)
        for agent in [agent for agent in left if agent.process.poll() is not None]:
            left.remove(agent)
            text = agent.log.read_text("utf-8", "replace")
            gave_up = _GAVE_UP in text
            failed = gave_up or agent.process.returncode != 0
            detail = (
                next((line for line in reversed(text.splitlines()) if line.strip()), "")
                if failed
                else ""
            )
            outcome = "gave up" if gave_up else "failed" if failed else "finished"
            screen.ended(
                agent.lane.name,
                "wandb agent",
                outcome,
                f"{detail}  log={agent.log}" if failed else "",
            )
            if failed and not stopper.number:
                screen.warn(
                    f"the agent on {agent.lane.name} {outcome}: {detail or 'see'} {agent.log}"
                )
                code = 1
    return code


class _Stopper:
    """Passes the first Ctrl-C or SIGTERM on to the agents, who pass it on to their trials.

    The second kills.
    """

    def __init__(self, agents: Sequence[_Agent]) -> None:
        self.number = 0
        self._agents = agents
        self._deadline = 0.0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> _Stopper:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *ended: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        for agent in self._agents:
            if agent.process.poll() is None:
                _kill(agent, signal.SIGKILL)

    def late(self) -> bool:
        """Whether the grace after the first signal is over."""
        return bool(self._deadline) and time.monotonic() > self._deadline

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        again = bool(self.number)
        self.number = self.number or number
        self._deadline = 1e-9 if again else time.monotonic() + KILL_GRACE_S
        for agent in self._agents:
            _kill(agent, signal.SIGKILL if again else signal.SIGTERM)


def _kill(agent: _Agent, number: signal.Signals) -> None:
    """Signal an agent; SIGKILL goes to its trial as well, which has a process group of its own."""
    targets = [agent.process.pid]
    if number is signal.SIGKILL:
        targets += _descendants(agent.process.pid)
    for pid in targets:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    return found


def _shim(folder: Path) -> Path:
    """A folder with the `python` that agents start."""
    shim = folder / "bin"
    shim.mkdir(exist_ok=True)
    script = shim / "python"
    script.write_text(SHIM.format(python=sys.executable), encoding="utf-8")
    script.chmod(0o755)
    return shim


def _definition(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """The file's content with the overrides as constant parameters."""
    document: dict[str, Any] = dict(yaml.safe_load(path.read_text(encoding="utf-8")))
    given = {key: {"value": value} for key, value in values.items()}
    parameters = {**document["parameters"], **given}
    return {"command": COMMAND, **document, "name": load_sweep(path).name, "parameters": parameters}


def _create(written: Path, document: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Create the sweep with W&B's own command; returns `ENTITY/PROJECT/ID`."""
    project = (
        values.get("tracker.project")
        or document.get("project")
        or os.environ.get("WANDB_PROJECT")
        or "xla-sweeps"
    )
    entity = (
        values.get("tracker.entity") or document.get("entity") or os.environ.get("WANDB_ENTITY")
    )
    command = [sys.executable, "-m", "wandb", "sweep", "--project", str(project), str(written)]
    if entity:
        command[4:4] = ["--entity", str(entity)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        raise XlaSweepsError(
            "the W&B server did not answer within 120 s; nothing was started"
        ) from None
    found = _CREATED.search(done.stdout + done.stderr)
    if done.returncode or not found:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise XlaSweepsError(
            f"the W&B server did not take the sweep: {said[-1] if said else 'no word'}"
        )
    path = found[1].strip()
    return path if path.count("/") == 2 else f"{entity or ''}/{path}"
