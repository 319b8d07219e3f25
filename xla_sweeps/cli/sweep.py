"""The commands `sweep` and `agents`."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.cli import command_parser
from xla_sweeps.config.compose import override_values
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.measure.runner import record_death
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.report.terminal.progress_bar import Steps
from xla_sweeps.report.terminal.sweep_progress import Board
from xla_sweeps.report.terminal.sweep_summary import show_plan, show_sweep
from xla_sweeps.report.wandb.credentials import require_api_key
from xla_sweeps.report.wandb.payload import run_summary
from xla_sweeps.results.index import keep, read_index
from xla_sweeps.results.store import Store
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.sweep import launchers, search
from xla_sweeps.sweep.anchors import ANCHOR, take_turns_if_needed
from xla_sweeps.sweep.compose import Composer, Memo, Place, Task, compose_all
from xla_sweeps.sweep.definition import Sweep, load_sweep
from xla_sweeps.sweep.driver import Driver
from xla_sweeps.sweep.launchers import Launcher, wandb_agents
from xla_sweeps.sweep.launchers.local import Lane, LocalLauncher, lanes_for
from xla_sweeps.sweep.outcomes import Outcome
from xla_sweeps.sweep.plan import (
    DEVICE_RULE,
    WEAK,
    Plan,
    check_parameters,
    headline_rows,
    match,
    plan_sweep,
)
from xla_sweeps.sweep.search import SearchSource

LEFT_CODE = 3
"""Exit code of a sweep that ended with trials that are to be measured again."""

_OPTIONS_OF_LAUNCHERS = {
    "devices": ("local", "wandb"),
    "address": ("ray",),
    "slurm": ("slurm",),
    "chunk": ("slurm",),
    "slots": ("ray", "slurm"),
}
"""Options of `sweep` that only some launchers have a use for."""

_PROGRESS_EVERY = 64
_PROGRESS_FROM = 200
"""Trials from which composing them takes long enough to be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `xla-sweeps sweep` was asked for.

    Attributes:
        overrides: `key=value` for every trial; they win over the definition.
        launcher: `local`, `ray` or `slurm`.
        retry: statuses whose records do not count.
        rerun: a column of `results` and the value whose trials get one more replicate.
        address: of a Ray cluster.
        slurm: options for sbatch, by name.
        chunk: trials in one Slurm task.
        slots: the most jobs in a cluster's queue at once.
    """

    path: Path
    overrides: tuple[str, ...] = ()
    launcher: str = "local"
    devices: str | None = None
    dry_run: bool = False
    max_trials: int = 10_000
    seed: int = 0
    retry: tuple[Status, ...] = ()
    rerun: tuple[str, str] | None = None
    address: str | None = None
    slurm: Mapping[str, str] | None = None
    chunk: int = 1
    slots: int = 1000


def sweep_command(arguments: Sequence[str]) -> int:
    """Run or resume a sweep definition."""
    parser = command_parser(
        "sweep",
        "The definition is in W&B's format. Run it again to measure exactly what is missing.",
    )
    parser.add_argument("file", type=Path, help="the definition, as in sweeps/smoke.yaml")
    parser.add_argument(
        "overrides", nargs="*", help="key=value for every trial; they win over the file"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the commands and their number, run nothing"
    )
    parser.add_argument(
        "--max-trials", type=int, default=10_000, help="refuse more than this (default: 10000)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of a random or bayes search (default: 0)"
    )
    parser.add_argument(
        "--launcher",
        choices=launchers.NAMES,
        default="local",
        help="where trials run (default: local)",
    )
    parser.add_argument(
        "--devices",
        metavar="D,D",
        help="local, wandb: gpu:0,gpu:1, or cpu:0,cpu:1 to split the cores "
        "(default: every GPU, else the CPU as one)",
    )
    parser.add_argument(
        "--retry",
        action="append",
        default=[],
        metavar="STATUS",
        help="measure trials of this status again (repeatable)",
    )
    parser.add_argument(
        "--rerun",
        metavar="COLUMN=VALUE",
        help="one more replicate where `results` says so, as in verdict=ambiguous",
    )
    parser.add_argument(
        "--address", help="ray: the cluster's address (default: start one on this machine)"
    )
    parser.add_argument(
        "--slurm",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="slurm: an option of sbatch, as in partition=gpu (repeatable)",
    )
    parser.add_argument(
        "--chunk",
        type=int,
        default=1,
        help="slurm: trials in one task of the job array (default: 1)",
    )
    parser.add_argument(
        "--slots",
        type=int,
        default=1000,
        help="ray, slurm: the most jobs in the cluster's queue at once (default: 1000)",
    )
    options = parser.parse_intermixed_args(arguments)
    for name, fitting in _OPTIONS_OF_LAUNCHERS.items():
        if getattr(options, name) != parser.get_default(name) and options.launcher not in fitting:
            raise ConfigError(
                f"--{name} is for --launcher {' or '.join(fitting)}, not for {options.launcher}"
            )
    chosen = Options(
        path=options.file,
        overrides=tuple(options.overrides),
        launcher=options.launcher,
        devices=options.devices,
        dry_run=options.dry_run,
        max_trials=options.max_trials,
        seed=options.seed,
        retry=statuses(options.retry),
        rerun=_pair(options.rerun, "--rerun") if options.rerun else None,
        address=options.address,
        slurm=dict(_pair(text, "--slurm") for text in options.slurm),
        chunk=max(1, options.chunk),
        slots=max(1, options.slots),
    )
    if options.launcher == "wandb" and not options.dry_run:
        return launch_agents(chosen)
    return run(chosen)


def agents_command(arguments: Sequence[str]) -> int:
    """One W&B agent per device."""
    parser = command_parser("agents")
    parser.add_argument("sweep", metavar="ENTITY/PROJECT/ID", help="as `wandb sweep` prints it")
    parser.add_argument(
        "--devices",
        metavar="D,D",
        help="gpu:0,gpu:1 or cpu:0,cpu:1 (default: every GPU, else the CPU)",
    )
    parser.add_argument(
        "--results-dir",
        type=Path,
        default=Path("results"),
        help="for the agents' logs (default: results)",
    )
    parser.add_argument(
        "--max-failed",
        type=int,
        default=20,
        help="trials in a row that may fail before an agent gives up (default: 20)",
    )
    options = parser.parse_args(arguments)
    return _run_agents(
        options.sweep,
        devices=options.devices,
        results_dir=options.results_dir,
        max_failed=options.max_failed,
    )


def run(options: Options) -> int:
    """Run or resume a sweep; returns the exit code.

    Raises:
        XlaSweepsError: the definition or the request is wrong; nothing was started.
    """
    sweep = load_sweep(options.path)
    for warning in sweep.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if sweep.trials > options.max_trials:
        raise ConfigError(
            f"{options.path}: {sweep.trials:,} trials are more than --max-trials={options.max_trials:,}; raise it if "
            "you mean it"
        )
    lanes = _lanes(options) if options.launcher == "local" else None
    composer = Composer(_checked_overrides(options), places=_places(lanes))
    results_dir = _results_dir(composer)
    with _without_collecting():
        plan = _plan(sweep, composer, options, results_dir)
    if options.dry_run:
        show_plan(
            sweep.name,
            plan.tasks,
            search=sweep.trials if sweep.method == "bayes" else None,
            repeated=plan.repeated,
            costs=plan.costs,
            lanes=len(lanes or [None]),
        )
        return 0
    store = Store(results_dir)
    store.check_writable()
    return _execute(sweep, plan, composer, store, options, lanes)


def launch_agents(options: Options) -> int:
    """Create the sweep on the W&B server, then run agents for it on this machine.

    Raises:
        XlaSweepsError: the definition is wrong, there is no key, or the server refused.
    """
    require_api_key(os.environ)
    composer = Composer(_checked_overrides(options), places=_places(_lanes(options)))
    results_dir = _results_dir(composer)
    _plan(
        load_sweep(options.path), composer, options, results_dir
    )  # every trial that is known beforehand is checked
    path = wandb_agents.create(options.path, override_values(options.overrides), results_dir)
    print(
        f"created {path}; to join from another machine: xla-sweeps agents {path}", file=sys.stderr
    )
    return _run_agents(path, devices=options.devices, results_dir=results_dir)


def _run_agents(
    path: str, *, devices: str | None, results_dir: Path, max_failed: int = wandb_agents.MAX_FAILED
) -> int:
    wandb_agents.check_path(path)
    require_api_key(os.environ)
    lanes = lanes_for(devices)
    with Board(f"agents of {path}", [lane.name for lane in lanes]) as board:
        return wandb_agents.run(
            path, lanes=lanes, results_dir=results_dir, screen=board, max_failed=max_failed
        )


def _results_dir(composer: Composer) -> Path:
    return Path(str(composer.base()["results_dir"])).expanduser()


def _places(lanes: Sequence[Lane] | None) -> list[Place] | None:
    return None if lanes is None else [Place(lane.device, lane.core_count) for lane in lanes]


def _plan(sweep: Sweep, composer: Composer, options: Options, results_dir: Path) -> Plan:
    """Compose the trials and match them with the records."""
    check_parameters(sweep, options.path)
    index = read_index(Store(results_dir))
    for problem in index.problems:
        print(f"warning: {problem}", file=sys.stderr)
    asked = 0 if sweep.method == "bayes" else sweep.trials
    tasks = _composed(sweep, composer, options, results_dir) if asked else []
    return plan_sweep(
        tasks,
        composer,
        index,
        results_dir,
        repeated=asked - len(tasks),
        retry=options.retry,
        rerun=options.rerun,
        warn=warn,
    )


def _composed(sweep: Sweep, composer: Composer, options: Options, results_dir: Path) -> list[Task]:
    """The trials of a grid or a random search, each once."""
    memo = Memo(results_dir / "cache" / "plan.json", composer.fingerprint())
    trials = search.expand(sweep, seed=options.seed)
    composed = compose_all(composer, trials, lines=sweep.lines, where=str(options.path), memo=memo)
    tasks = (
        list(_shown(composed, sweep.trials)) if sweep.trials >= _PROGRESS_FROM else list(composed)
    )
    if results_dir.is_dir():
        memo.save()
    return tasks


def _shown(tasks: Iterator[Task], total: int) -> Iterator[Task]:
    """The tasks, with a progress bar while they are composed."""
    with Steps("planning", total, quiet=True) as steps:
        for number, task in enumerate(tasks, 1):
            if number % _PROGRESS_EVERY == 0:
                steps.end(task.model, count=_PROGRESS_EVERY)
            yield task


def _execute(
    sweep: Sweep,
    plan: Plan,
    composer: Composer,
    store: Store,
    options: Options,
    lanes: Sequence[Lane] | None,
) -> int:
    results_dir = store.results_dir
    stamp = datetime.datetime.now().strftime("%Y%m%dT%H%M%S")
    logs = results_dir / "logs" / "sweeps" / f"{sweep.name}-{stamp}-{os.getpid()}"
    extra = ["ui=plain"]
    if not any(word.startswith("tracker.group=") for word in options.overrides):
        extra.append(f"tracker.group={search.group_word(sweep.name)}")
    careful = any(task.effort != "quick" for task in plan.tasks)
    work = any(task.wanted for task in plan.tasks)
    anchors = (
        [composer.anchor([*ANCHOR, f"seed={index}"]) for index in range(len(lanes or [None]))]
        if work
        else []
    )
    source = None
    if sweep.method == "bayes":
        source = SearchSource(sweep, composer, store, seed=options.seed, measured=_measured)
    else:  # a search does not know its trials beforehand
        keep(results_dir, sweep.name, (task.request_id for task in plan.tasks))
    launcher = _launcher(options, lanes, results_dir)
    try:
        with Board(sweep.name, launcher.lanes(), ui=str(composer.base()["ui"])) as board:
            if isinstance(launcher, LocalLauncher) and len(anchors) > 1:
                take_turns_if_needed(
                    launcher, store, anchors, extra=extra, logs=logs, say=board.warn
                )
            driver = Driver(
                launcher,
                store,
                board,
                extra=extra,
                logs=logs,
                costs=plan.costs,
                source=source,
                anchors=anchors if careful else [],
                record_death=_death_recorder(composer, store, lanes),
                rematch=lambda task: match(
                    [task], read_index(store), software=composer.software, retry=()
                ),
            )
            outcome = driver.run(plan.tasks)
    finally:
        launcher.close()
    tasks = [*plan.tasks, *(source.tasks if source else ())]
    return _conclude(sweep.name, results_dir, tasks, outcome, options)


def _measured(records: Sequence[Record]) -> Mapping[str, object]:
    """What a trial measured, by the names that a sweep's `metric` may have."""
    return run_summary(records, summarize(records))


def _conclude(
    name: str, results_dir: Path, tasks: Sequence[Task], outcome: Outcome, options: Options
) -> int:
    """Show what came of it; the exit code says whether anything is left."""
    again = shlex.join(["xla-sweeps", *resume_words(options)])
    show_sweep(
        name,
        rows=headline_rows(results_dir, tasks, warn=warn),
        outcome=outcome,
        planned=len(tasks),
        results_dir=results_dir,
        again=again,
    )
    if outcome.signal_number:
        return 128 + outcome.signal_number
    return (
        LEFT_CODE
        if outcome.left or outcome.gave_up or outcome.broken or _weak(outcome.counts)
        else 0
    )


def resume_words(options: Options) -> list[str]:
    """The arguments that run the same sweep again."""
    words = ["sweep", str(options.path), *options.overrides]
    if options.launcher != "local":
        words += ["--launcher", options.launcher]
    for name, value in (("--devices", options.devices), ("--address", options.address)):
        words += [name, value] if value else []
    words += [
        part
        for key, value in (options.slurm or {}).items()
        for part in ("--slurm", f"{key}={value}")
    ]
    return words + (["--seed", str(options.seed)] if options.seed else [])


def _weak(counts: Mapping[str, int]) -> bool:
    return any(counts.get(str(status)) for status in WEAK) or bool(counts.get("missing"))


def _checked_overrides(options: Options) -> tuple[str, ...]:
    """Overrides of the command line, less the device, which says where the local launcher runs trials."""
    device = next((word for word in options.overrides if word.startswith("device=")), None)
    if device and options.launcher != "local":
        raise ConfigError(f"{device} with --launcher {options.launcher}: {DEVICE_RULE}")
    return tuple(word for word in options.overrides if not word.startswith("device="))


def _lanes(options: Options) -> list[Lane]:
    device = next(
        (word.partition("=")[2] for word in options.overrides if word.startswith("device=")), None
    )
    if device and options.devices:
        raise ConfigError(f"device={device} and --devices={options.devices}: give one of the two")
    if device == "gpu":
        device = "gpu:0"
    return lanes_for(options.devices or (None if device in (None, "auto") else device))


def _launcher(options: Options, lanes: Sequence[Lane] | None, results_dir: Path) -> Launcher:
    if options.launcher == "local":
        return LocalLauncher(lanes or [])
    if options.launcher == "ray":
        from xla_sweeps.sweep.launchers.ray import RayLauncher

        return RayLauncher(options.address, slots=options.slots)
    if options.launcher == "slurm":
        from xla_sweeps.sweep.launchers.slurm import SlurmLauncher

        return SlurmLauncher(
            results_dir, options=options.slurm or {}, chunk=options.chunk, slots=options.slots
        )
    raise unknown_name("launcher", options.launcher, launchers.NAMES)


def _death_recorder(
    composer: Composer, store: Store, lanes: Sequence[Lane] | None
) -> Callable[[Task, str], Record] | None:
    """Writes the record of a trial whose own process died, where the device it ran on is known."""
    if not lanes:
        return None
    return lambda task, detail: record_death(
        composer.settings(task.words), task.trial_ids[0], store, detail
    )


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Leave the cycle collector out while many small objects are made that have no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def statuses(words: Collection[str]) -> tuple[Status, ...]:
    """The statuses that these words name.

    Raises:
        ConfigError: one is none; with the nearest.
    """
    names = [str(status) for status in Status]
    for word in words:
        if word not in names:
            raise unknown_name("status", word, names, listed=len(names))
    return tuple(Status(word) for word in words)


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ConfigError(f"{option} {text}: write KEY=VALUE")
    return key, value
