"""W&B runs of made-up trials, tracked with the real client."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from factories import TRIAL_ID, make_record
from programs import run_program
from wandb_server import WandbServer

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.report.run_content import history_rows
from xla_sweeps.report.wandb.client import SCRATCH
from xla_sweeps.report.wandb.push import push
from xla_sweeps.report.wandb.tracker import WandbTracker, run_urls
from xla_sweeps.schema.record import Record
from xla_sweeps.trial.tracking import RunHeader, TrackerReport, run_header

FIRST, SECOND = (
    make_record({"eager": 0.4, "graph": 0.2, "xla": 0.1}, noise=0.01, seed=n, replicate=n)
    for n in (0, 1)
)

SUMMARY = summarize([FIRST])

ENVIRONMENT = {
    "xla_sweeps": "0.1.0",
    "git": "0123456789ab",
    "python": "3.11.7",
    "host": "5bce98f7",
    "packages": {"tensorflow": "2.21.0", "keras": "3.15.1"},
    "driver": {"driver": "550.54", "cuda": "12.4"},
    "flags": {"TF_XLA_FLAGS": "--a"},
}

PATIENT: dict[str, Any] = {"connect_timeout_s": 120.0, "finish_timeout_s": 240.0}
"""Time limits of a run on a machine that is busy with other tests."""

WANDB = str(Path(sys.executable).with_name("wandb"))


def header(
    results_dir: Path, *, tracker: Mapping[str, Any] | None = None, **changes: Any
) -> RunHeader:
    """The header of a run, which waits long for a server; `tracker` holds the tracker's options."""
    made = run_header(
        FIRST.trial,
        replace(FIRST.tracker, **(tracker or {})),
        trial_id=TRIAL_ID,
        device_kind="cpu",
        device_name="Some CPU",
        environment=ENVIRONMENT,
        results_dir=results_dir,
    )
    return replace(made, **{**PATIENT, **changes})


def tracked(
    tracker: WandbTracker,
    head: RunHeader,
    record: Record = FIRST,
    *earlier: Record,
    exit_code: int = 0,
) -> TrackerReport:
    """Log one command that adds a replicate to the earlier ones."""
    tracker.open(head)
    tracker.begin()
    for part in (record.rounds[:6], record.rounds[6:]):
        tracker.log_rounds(record.replicate, part, batch_size=4, gpu=record.gpu)
    return tracker.finish([record], summarize([*earlier, record]), exit_code=exit_code)


def rows_of(*records: Record) -> list[dict[str, Any]]:
    """The history that the server must hold."""
    modes = FIRST.trial.modes
    return [
        row
        for record in records
        for row in history_rows(record.replicate, record.rounds, batch_size=4, modes=modes)
    ]


def rounds_of(run: Any) -> list[dict[str, Any]]:
    """The rounds in the history of a run on the server, without the point of its results."""
    return [row for row in run.rows if "round" in row]


def inspected(results_dir: Path) -> list[dict[str, Any]]:
    """The one offline run below a results folder, as `wandb leet inspect` reads it."""
    (path,) = (results_dir / "wandb").glob("offline-run-*/*.wandb")
    done = run_program(WANDB, "leet", "inspect", "--json", path, cwd=results_dir)
    return [json.loads(line) for line in done.stdout.splitlines()]


def marked(mark: str) -> set[str]:
    """Command lines of processes of a helper, W&B's own service among them.

    `mark` is a part of the name of its folder of temporary files.
    """
    command_lines = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if any(
                line.startswith(f"{SCRATCH}=".encode()) and mark.encode() in line
                for line in path.read_bytes().split(b"\0")
            ):
                command_lines.add(
                    path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode()
                )
        except OSError:
            continue
    return command_lines


def assert_repaired(server: WandbServer, head: RunHeader, log: Path) -> None:
    """`push` completes the run on the server, and a second push changes nothing.

    Its address is noted.
    """
    server.heal()
    patient = replace(head, **PATIENT)
    report = push([(patient, [FIRST], SUMMARY)], log=log)
    assert (report.sent, report.failed) == (1, ())
    assert rounds_of(server.run) == rows_of(FIRST)
    assert server.run.summary["speedup"] == SUMMARY.comparisons[0].speedup.value
    address = f"{server.url}/tester/xla-sweeps/runs/{server.run.name}"
    assert run_urls(head.results_dir) == {TRIAL_ID: address}
    updates = server.run.updates
    assert push([(patient, [FIRST], SUMMARY)], log=log).already == 1
    assert server.run.updates == updates
