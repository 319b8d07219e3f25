"""The command `sweep`: reads a definition, plans what is missing, runs it on a launcher, and says what came of it."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import shlex
import statistics
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from xla_sweeps import analysis, interference, launchers, planned, proposals, results
from xla_sweeps.comparison import ComparisonRow
from xla_sweeps.composition import check_file
from xla_sweeps.driver import Driver
from xla_sweeps.driver_seams import Outcome
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.index import Index, read_index
from xla_sweeps.launchers import Launcher
from xla_sweeps.launchers.local import Lane, LocalLauncher, lanes_for
from xla_sweeps.measurement import Status
from xla_sweeps.planning import ANCHOR, Composer, Memo, Place, Task, compose_all, match, with_aa
from xla_sweeps.record import Record
from xla_sweeps.runner import record_death
from xla_sweeps.searching import SearchSource
from xla_sweeps.standing import WEAK
from xla_sweeps.store import Store
from xla_sweeps.sweep import Sweep, parse_sweep
from xla_sweeps.terminal.board import Board
from xla_sweeps.terminal.steps import Steps
from xla_sweeps.terminal.sweeps import show_plan, show_sweep

LEFT_CODE = 3
"""Exit code of a sweep that ended with trials that are to be measured again."""

_DEVICE_RULE = "device is the launcher's to give: use --devices on this machine, or accelerator"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a sweep stands for here and now.

    Attributes:
        tasks: every trial once, with its standing.
        repeated: how many of the definition's trials are the same as an earlier one.
        costs: seconds that a replicate took before, by model.
    """

    sweep: Sweep
    tasks: list[Task]
    repeated: int
    costs: Mapping[str, float]
    results_dir: Path
    ui: str


def load_sweep(path: Path) -> Sweep:
    """Read and check a definition; the file is bounded before it is parsed.

    Raises:
        ConfigError: with file and line.
    """
    check_file(path)
    text = path.read_text(encoding="utf-8")
    return parse_sweep(yaml.safe_load(text), where=str(path), lines=dict(_lines(yaml.compose(text), ())))


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
    places = None if lanes is None else [Place(lane.device, lane.core_count) for lane in lanes]
    composer = Composer(_checked_overrides(options), places=places)
    with _without_collecting():
        plan = _plan(sweep, composer, options)
    if options.dry_run:
        show_plan(plan.sweep, plan.tasks, repeated=plan.repeated, costs=plan.costs, lanes=len(lanes or [None]))
        return 0
    store = Store(plan.results_dir)
    store.check_writable()
    return _execute(plan, composer, store, options, lanes)


def check(options: Options) -> Path:
    """Compose every trial of a definition, as far as they are known before it runs; returns the results folder.

    Raises:
        XlaSweepsError: the definition or the request is wrong.
    """
    sweep = load_sweep(options.path)
    places = [Place(lane.device, lane.core_count) for lane in _lanes(options)]
    return _plan(sweep, Composer(_checked_overrides(options), places=places), options).results_dir


def _plan(sweep: Sweep, composer: Composer, options: Options) -> Plan:
    """Compose the trials and match them with the records."""
    base = composer.base()
    results_dir = Path(str(base["results_dir"])).expanduser()
    if "results_dir" in sweep.parameters:
        raise ConfigError(f"{options.path}: results_dir is one for the whole sweep: give it on the command line")
    if "device" in sweep.parameters:
        line = sweep.lines.get("device")
        raise ConfigError(f"{options.path}{f':{line}' if line else ''}: {_DEVICE_RULE}")
    index = read_index(Store(results_dir))
    for problem in index.problems:
        print(f"warning: {problem}", file=sys.stderr)
    tasks: list[Task] = []
    asked = 0
    if sweep.method != "bayes":
        asked = sweep.trials
        memo = Memo(results_dir / "cache" / "plan.json", composer.fingerprint())
        trials = proposals.expand(sweep, seed=options.seed)
        composed = compose_all(composer, trials, lines=sweep.lines, where=str(options.path), memo=memo)
        tasks = list(_shown(composed, asked)) if asked >= _PROGRESS_FROM else list(composed)
        if results_dir.is_dir():
            memo.save()
    repeated = asked - len(tasks)
    tasks = with_aa(tasks, composer.of_words)
    match(tasks, index, software=composer.software, retry=options.retry)
    if options.rerun is not None:
        _want_again(tasks, index, results_dir, *options.rerun)
    return Plan(
        sweep=sweep, tasks=tasks, repeated=repeated, costs=_costs(index), results_dir=results_dir, ui=str(base["ui"])
    )


def _execute(plan: Plan, composer: Composer, store: Store, options: Options, lanes: Sequence[Lane] | None) -> int:
    sweep = plan.sweep
    stamp = datetime.datetime.now().strftime("%Y%m%dT%H%M%S")
    logs = plan.results_dir / "logs" / "sweeps" / f"{sweep.name}-{stamp}-{os.getpid()}"
    extra = ["ui=plain"]
    if not any(word.startswith("tracker.group=") for word in options.overrides):
        extra.append(f"tracker.group={proposals.group_word(sweep.name)}")
    careful = any(task.effort != "quick" for task in plan.tasks)
    work = any(task.wanted for task in plan.tasks)
    anchors = [composer.anchor([*ANCHOR, f"seed={index}"]) for index in range(len(lanes or [None]))] if work else []
    source = SearchSource(sweep, composer, store, seed=options.seed) if sweep.method == "bayes" else None
    if source is None:  # a search does not know its trials beforehand
        planned.keep(plan.results_dir, sweep.name, (task.request_id for task in plan.tasks))
    launcher = _launcher(options, lanes, plan.results_dir)
    try:
        with Board(sweep.name, launcher.lanes(), ui=plan.ui) as board:
            if isinstance(launcher, LocalLauncher) and len(anchors) > 1:
                interference.take_turns_if_needed(launcher, store, anchors, extra=extra, logs=logs, say=board.warn)
            driver = Driver(
                launcher, store, board, extra=extra, logs=logs, costs=plan.costs, source=source,
                anchors=anchors if careful else [], record_death=_death_recorder(composer, store, lanes),
                rematch=lambda task: match([task], read_index(store), software=composer.software, retry=()),
            )  # fmt: skip
            outcome = driver.run(plan.tasks)
    finally:
        launcher.close()
    tasks = [*plan.tasks, *(source.tasks if source else ())]
    return _conclude(plan, tasks, outcome, options)


def _conclude(plan: Plan, tasks: Sequence[Task], outcome: Outcome, options: Options) -> int:
    """Show what came of it; the exit code says whether anything is left."""
    again = shlex.join(["xla-sweeps", *resume_words(options)])
    show_sweep(
        plan.sweep.name, rows=_rows(plan.results_dir, tasks), outcome=outcome, planned=len(tasks),
        results_dir=plan.results_dir, again=again,
    )  # fmt: skip
    if outcome.signal_number:
        return 128 + outcome.signal_number
    return LEFT_CODE if outcome.left or outcome.gave_up or outcome.broken or _weak(outcome.counts) else 0


def resume_words(options: Options) -> list[str]:
    """The arguments that run the same sweep again."""
    words = ["sweep", str(options.path), *options.overrides]
    if options.launcher != "local":
        words += ["--launcher", options.launcher]
    for name, value in (("--devices", options.devices), ("--address", options.address)):
        words += [name, value] if value else []
    words += [part for key, value in (options.slurm or {}).items() for part in ("--slurm", f"{key}={value}")]
    return words + (["--seed", str(options.seed)] if options.seed else [])


def _weak(counts: Mapping[str, int]) -> bool:
    return any(counts.get(str(status)) for status in WEAK) or bool(counts.get("missing"))


def _rows(results_dir: Path, tasks: Sequence[Task]) -> list[ComparisonRow]:
    """The headline rows of the sweep's trials, as far as there are records."""
    ids = {identifier for task in tasks for identifier in task.trial_ids}
    requests = {task.request_id for task in tasks if not task.trial_ids}
    if not (results_dir / "records").is_dir():
        return []
    records, summaries = results.load(results_dir, only=ids or None, missing_ok=True)
    return [
        row for trial, summary in summaries.items()
        if trial in ids or records[trial][0].request_id in requests
        for row in summary.comparisons if row.headline
    ]  # fmt: skip


def _checked_overrides(options: Options) -> tuple[str, ...]:
    """Overrides of the command line, less the device, which says where the local launcher runs trials."""
    device = next((word for word in options.overrides if word.startswith("device=")), None)
    if device and options.launcher != "local":
        raise ConfigError(f"{device} with --launcher {options.launcher}: {_DEVICE_RULE}")
    return tuple(word for word in options.overrides if not word.startswith("device="))


def _lanes(options: Options) -> list[Lane]:
    device = next((word.partition("=")[2] for word in options.overrides if word.startswith("device=")), None)
    if device and options.devices:
        raise ConfigError(f"device={device} and --devices={options.devices}: give one of the two")
    if device == "gpu":
        device = "gpu:0"
    return lanes_for(options.devices or (None if device in (None, "auto") else device))


def _launcher(options: Options, lanes: Sequence[Lane] | None, results_dir: Path) -> Launcher:
    if options.launcher == "local":
        return LocalLauncher(lanes or [])
    if options.launcher == "ray":
        from xla_sweeps.launchers.ray import RayLauncher

        return RayLauncher(options.address, slots=options.slots)
    if options.launcher == "slurm":
        from xla_sweeps.launchers.slurm import SlurmLauncher

        return SlurmLauncher(results_dir, options=options.slurm or {}, chunk=options.chunk, slots=options.slots)
    raise unknown_name("launcher", options.launcher, launchers.NAMES)


def _death_recorder(
    composer: Composer, store: Store, lanes: Sequence[Lane] | None
) -> Callable[[Task, str], Record] | None:
    """Writes the record of a trial whose own process died, where the device it ran on is known."""
    if not lanes:
        return None
    return lambda task, detail: record_death(composer.settings(task.words), task.trial_ids[0], store, detail)


def _want_again(tasks: Sequence[Task], index: Index, results_dir: Path, column: str, value: str) -> None:
    """One more replicate for trials whose headline row says so."""
    if column not in analysis.COLUMNS:
        raise unknown_name("column in --rerun", column, analysis.COLUMNS)
    wanted = {row.trial_id for row in _rows(results_dir, tasks) if str(getattr(row, column)).lower() == value.lower()}
    requests = {entry.request_id for trial in wanted for entry in index.entries.get(trial, ())}
    for task in tasks:
        if wanted & set(task.trial_ids) or (not task.trial_ids and task.request_id in requests):
            task.outcomes = [status for status in task.outcomes if status is Status.OK]
            task.replicates = max(task.replicates, len(task.outcomes) + 1)
            task.wanted = max(task.wanted, 1)


def _costs(index: Index) -> dict[str, float]:
    """The median wall time of a model's replicates."""
    costs: dict[str, list[float]] = {}
    for entry in index.all():
        if entry.outcome not in WEAK and entry.cost_s > 0:
            costs.setdefault(entry.model, []).append(entry.cost_s)
    return {model: statistics.median(seconds) for model, seconds in costs.items()}


def _shown(tasks: Iterator[Task], total: int) -> Iterator[Task]:
    """The tasks, with a progress bar while they are composed."""
    with Steps("planning", total, quiet=True) as steps:
        for number, task in enumerate(tasks, 1):
            if number % _PROGRESS_EVERY == 0:
                steps.end(task.model, count=_PROGRESS_EVERY)
            yield task


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Leave the cycle collector out while many small objects are made that have no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _lines(node: yaml.Node | None, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """The line of every key in a YAML document."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _lines(value, inner)


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
