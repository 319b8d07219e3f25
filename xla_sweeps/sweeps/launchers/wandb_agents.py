"""Create a sweep on a W&B server, and run one real `wandb agent` on every slot.

What is special about the agent: it counts only positive exit codes as failures, exits 0 when it
gives up, starts whatever `python` is first on PATH, and leaves its child behind unless signals are
forwarded.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from xla_sweeps.config.foreign import may_set
from xla_sweeps.errors import ConfigError, XlaSweepsError
from xla_sweeps.schema.environment_options import WANDB_DIR
from xla_sweeps.schema.overrides import overrides
from xla_sweeps.store.store import folder_below
from xla_sweeps.sweeps.definition import command_words, flatten_parameters, is_constant, load_sweep
from xla_sweeps.sweeps.launchers import AHEAD, DEVICES, Launcher, Options, Screen
from xla_sweeps.sweeps.launchers.job import wandb_variables
from xla_sweeps.sweeps.launchers.slots import Slot, job_environment, place_of, places
from xla_sweeps.system.files import replace_whole, scratch_folder
from xla_sweeps.system.leases import to_prepare
from xla_sweeps.system.process import (
    PYTHON,
    Assignment,
    StopSignals,
    kill_tree,
    python_command,
    start_process,
)
from xla_sweeps.system.text import file_name, last_line_of

STAGGER_S = 2.0

TERM_TIMEOUT_S = 60

KILL_GRACE_S = 75.0

MAX_FAILED = 20

COMMAND = ["${env}", "${interpreter}", "-P", "-m", "xla_sweeps", "${args_json}"]

_ARGUMENTS = ("${args_json}", "${args_no_hyphens}")
"""Words of a command that stand for the parameters."""

_OURS = re.compile(
    r"(\$\{env\} )?((\$\{interpreter\}|python3?) (-P )?(-m xla_sweeps|(\S*/)?xla_sweeps"
    r"(/__main__\.py)?)|xla-sweeps)"
)
"""Beginnings of a command that mean this program, `${program}` replaced; none is run as it is."""

_ALLOWED = (
    "agents would run it on every machine: remove it, or write "
    f"{COMMAND} and key=value words that a file may set"
)

PATH_PATTERN = re.compile(r"[\w.-]+/[\w. -]+/[\w-]+")

_CREATED = re.compile(r"wandb agent '?([^'\s\x1b]+/[^'\x1b]+?/[\w-]+)")

_GAVE_UP = "consecutive failed runs"

_DYING = """
import runpy, signal, sys
from xla_sweeps.system.process import die_with_parent
die_with_parent(int(sys.argv.pop(1)), signal.SIGTERM)
runpy.run_module("wandb", run_name="__main__", alter_sys=True)
"""
"""Runs `wandb` so that it stops, and stops its trial, when this process ends in whatever way."""

SHIM = """#!/usr/bin/env bash
# The interpreter that the agent starts, in the folder that we were in. A child that a signal killed
# becomes an exit code above 128, which it counts.
cd {folder} || exit
{variables}
{python} -P "$@" &
child=$!
trap 'kill -TERM $child 2>/dev/null' TERM
trap 'kill -INT $child 2>/dev/null' INT
while true; do
  wait $child
  code=$?
  kill -0 $child 2>/dev/null || exit $code
done
"""


class AgentsLauncher(Launcher):
    """A declaration alone: `run` starts agents, to which the W&B server hands out trials."""

    name = "wandb"
    options: ClassVar[Options] = {"devices": DEVICES, **AHEAD}
    driven = False


@dataclass(eq=False)
class _Agent:
    slot: Slot
    process: subprocess.Popen[bytes]
    log: Path


def create(path: Path, values: Mapping[str, Any], results_dir: Path) -> str:
    """Create a sweep on the W&B server; returns `ENTITY/PROJECT/ID`.

    The values of the command line become constant parameters. The definition as it was sent is kept
    below the results folder.

    Raises:
        XlaSweepsError: the definition has a command of its own, or the server refused.
    """
    document = _definition(path, values)
    folder = folder_below(results_dir.resolve(), "logs", "sweeps")
    written = folder / f"{file_name(document['name'])}-{os.getpid()}.yaml"
    replace_whole(written, yaml.safe_dump(document, sort_keys=False).encode())
    project, entity = (
        values.get(f"tracker.{key}") or document.get(key) or os.environ.get(f"WANDB_{key.upper()}")
        for key in ("project", "entity")
    )
    words = ["--project", str(project or "xla-sweeps")]
    words += ["--entity", str(entity)] if entity else []
    command = python_command("wandb", "sweep", *words, str(written))
    try:
        with scratch_folder() as empty:  # see `_start`
            done = subprocess.run(command, cwd=empty, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise XlaSweepsError("the W&B server did not answer within 120 s") from None
    created = _CREATED.search(done.stdout + done.stderr)
    if done.returncode or not created:
        message = last_line_of(done.stderr or done.stdout)
        raise XlaSweepsError(f"the W&B server rejected the sweep: {message or '(no message)'}")
    sweep = created[1].strip()
    return sweep if sweep.count("/") == 2 else f"{entity or ''}/{sweep}"


def run(
    path: str,
    *,
    slots: Sequence[Slot],
    results_dir: Path,
    screen: Screen,
    words: Sequence[str] = (),
    max_failed: int = MAX_FAILED,
    ahead: int = 0,
) -> int:
    """Agents on each slot until the sweep has no more trials; exit code 1 where one gave up.

    An agent gives up after `max_failed` trials in a row. Its trials have these options in place of
    the sweep's. `1 + ahead` agents share a slot: one of their trials measures, and the others
    prepare.
    """
    agents_folder = folder_below(results_dir.resolve(), "logs", "agents")
    folder = Path(tempfile.mkdtemp(prefix=f"{path.rpartition('/')[2]}-", dir=agents_folder))
    shim = _shim(folder)
    agents: list[_Agent] = []
    with StopSignals() as stop:
        try:
            for slot in places(slots, ahead):
                if agents:
                    time.sleep(STAGGER_S)
                if stop.number:
                    break
                log = folder / f"{slot.name.replace(':', '')}.log"
                counted = folder / f"{place_of(slot.name).replace(':', '')}.counted"
                mine = Assignment(
                    words=tuple(words),
                    counted=str(counted),
                    shares=sorted(to_prepare(slot.device, slot.cores)) if ahead else [],
                )
                agents.append(_start(path, slot, log, shim, mine, max_failed))
                screen.running(slot.name, f"wandb agent {path}", log)
            code = _wait(agents, screen, stop)
        finally:
            for agent in agents:
                if agent.process.poll() is None:
                    kill_tree(agent.process.pid)
    return 128 + stop.number if stop.number else code


def _start(
    path: str, slot: Slot, log: Path, shim: Path, assignment: Assignment, max_failed: int
) -> _Agent:
    """Start an agent in a new folder: W&B's client obeys a file wandb/settings where it starts."""
    environment = {
        **job_environment(os.environ, slot),
        **assignment.environment(),
        "PATH": f"{shim}{os.pathsep}{os.environ.get('PATH', '')}",
        WANDB_DIR: str(log.parent),
        "WANDB_AGENT_DISABLE_FLAPPING": "true",  # a model that does not compile is a result
        "WANDB_AGENT_MAX_INITIAL_FAILURES": str(max_failed),
        "WANDB_AGENT_KILL_DELAY": str(TERM_TIMEOUT_S),
    }
    limits = (f"--term-timeout={TERM_TIMEOUT_S}", f"--max-consecutive-failed-runs={max_failed}")
    parent = str(os.getpid())
    command = [*PYTHON, "-c", _DYING, parent, "agent", "--forward-signals", *limits, path]
    with log.open("ab") as output:
        process = start_process(
            command, output=output, environment=environment, cores=slot.cores, folder=log.parent
        )
    return _Agent(slot, process, log)


def _wait(agents: Sequence[_Agent], screen: Screen, stop: StopSignals) -> int:
    """Wait for all agents, and stop them on a signal; 1 where one gave up or failed."""
    code = 0
    left = list(agents)
    deadline: float | None = None
    while left:
        time.sleep(0.25)
        if stop.number and deadline is None:
            deadline = time.monotonic() + KILL_GRACE_S
            for agent in left:
                agent.process.terminate()  # it stops its own trial
        if stop.kill or (deadline is not None and time.monotonic() > deadline):
            for agent in left:
                kill_tree(agent.process.pid)  # its trial has a process group of its own
        for agent in [agent for agent in left if agent.process.poll() is not None]:
            left.remove(agent)
            text = agent.log.read_text("utf-8", "replace")
            outcome = "failed" if agent.process.returncode else "finished"
            outcome = "gave up" if _GAVE_UP in text else outcome
            failed = outcome != "finished"
            detail = f"{last_line_of(text)}  log={agent.log}" if failed else ""
            screen.show_end(agent.slot.name, "wandb agent", outcome, detail)
            if failed and not stop.number:
                screen.warn(f"the agent on {agent.slot.name} {outcome}: {detail}")
                code = 1
    return code


def _shim(folder: Path) -> Path:
    """A folder with the `python` that agents start."""
    shim = folder / "bin"
    shim.mkdir()
    script = shim / "python"
    place = wandb_variables().get(WANDB_DIR)  # the agent has its own, and would pass it on
    export = f"export {WANDB_DIR}={shlex.quote(place)}" if place else f"unset {WANDB_DIR}"
    here = shlex.quote(str(Path.cwd()))
    text = SHIM.format(python=shlex.quote(sys.executable), folder=here, variables=export)
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    return shim


def command_of(path: Path) -> list[str]:
    """The command that agents run on every machine: ours, and the device; values are parameters.

    Raises:
        ConfigError: the definition has another one.
    """
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    words = command_words(document) or COMMAND
    program = str(document.get("program") or "${program}").split()
    flat = [part for word in words for part in (program if word == "${program}" else [word])]
    beginnings = (count for count in range(len(flat)) if _OURS.fullmatch(" ".join(flat[:count])))
    if not (count := next(beginnings, 0)):
        raise ConfigError(f"{path}: command: {shlex.join(words)}: {_ALLOWED}")
    devices = [word for word in flat[count:] if word.startswith("device=")]
    for word in flat[count:]:
        if word not in (*_ARGUMENTS, *devices) and not is_constant(word):
            raise ConfigError(f"{path}: command: {word}: {_ALLOWED}")
    return [*COMMAND, *devices]


def _definition(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """The file's content with the overrides as parameters, or in the command if need be."""
    document: dict[str, Any] = dict(yaml.safe_load(path.read_text(encoding="utf-8")))
    document.pop("scheduler", None)  # agents would wait for its process
    sweep = load_sweep(path)
    nested = flatten_parameters(document["parameters"])
    parameters = {".".join(keys): given for keys, given in nested.items()}
    for key, parameter in sweep.parameters.items():
        if key not in parameters:  # it is of the command
            parameters[key] = {"value": parameter.value(0)}
    given = {key: {"value": value} for key, value in values.items() if may_set(key, value)}
    words = overrides({key: value for key, value in values.items() if key not in given})
    return {
        **document,
        "command": [*command_of(path), *words],
        "name": sweep.name,
        "method": sweep.method,
        "parameters": {**parameters, **given},
    }
