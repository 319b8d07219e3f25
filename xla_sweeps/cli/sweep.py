"""The commands `sweep` and `agents`."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xla_sweeps.analysis.summary import summarize
from xla_sweeps.cli import command_parser
from xla_sweeps.config import catalog
from xla_sweeps.config.combinations import MAX_TRIALS, written
from xla_sweeps.config.compose import override_values
from xla_sweeps.config.values import folder_of, path_of, text
from xla_sweeps.errors import LEFT_CODE, ConfigError, unknown_name
from xla_sweeps.measure.recording import record_death
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.report.terminal.progress_bar import Steps
from xla_sweeps.report.terminal.sweep_progress import SweepProgress
from xla_sweeps.report.terminal.sweep_summary import show_plan, show_sweep
from xla_sweeps.report.wandb.credentials import require_login
from xla_sweeps.report.wandb.payload import run_summary
from xla_sweeps.results.index import keep, read_index
from xla_sweeps.results.store import Store, folder_below
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.record import Record
from xla_sweeps.sweep import launchers, search
from xla_sweeps.sweep.anchors import ANCHOR, take_turns_if_needed
from xla_sweeps.sweep.compose import Composer, Place, Task, compose_all
from xla_sweeps.sweep.definition import Sweep, load_sweep
from xla_sweeps.sweep.driver import Driver
from xla_sweeps.sweep.forecast import Forecast
from xla_sweeps.sweep.launchers import Launcher, wandb_agents
from xla_sweeps.sweep.launchers.local import LocalLauncher, Slot, slots_for
from xla_sweeps.sweep.outcomes import Outcome
from xla_sweeps.sweep.plan import (
    DEVICE_RULE,
    INCONCLUSIVE,
    Plan,
    check_parameters,
    headline_rows,
    match,
    plan_sweep,
)
from xla_sweeps.sweep.search import SearchSource
from xla_sweeps.system.text import file_name

_OPTIONS_OF_LAUNCHERS = {
    "devices": ("local", "wandb"),
    "address": ("ray",),
    "slurm": ("slurm",),
    "chunk": ("slurm",),
    "slots": ("ray", "slurm"),
}
"""Options of `sweep` that only some launchers accept."""

_PROGRESS_EVERY = 64
_PROGRESS_FROM = 200
"""Trials from which composing them takes long enough for a progress bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `xla-sweeps sweep`.

    Attributes:
        overrides: `key=value` for every trial; they win over the definition.
        config_dir: a further folder of configuration files for every trial.
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
    config_dir: Path | None = None
    launcher: str = "local"
    devices: str | None = None
    dry_run: bool = False
    max_trials: int = MAX_TRIALS
    seed: int = 0
    retry: tuple[Status, ...] = ()
    rerun: tuple[str, str] | None = None
    address: str | None = None
    slurm: Mapping[str, str] | None = None
    chunk: int = 1
    slots: int = 1000


@dataclass(frozen=True)
class _Request:
    """A sweep to be planned and run: what was asked for, and what follows from it.

    Attributes:
        slots: the devices of this machine; None on a cluster.
    """

    options: Options
    sweep: Sweep
    slots: Sequence[Slot] | None

    @cached_property
    def composer(self) -> Composer:
        """Composes its trials."""
        places = [Place(slot.device, slot.core_count) for slot in self.slots or ()]
        overrides = _trial_overrides(self.options)
        return Composer(
            overrides,
            places=None if self.slots is None else places,
            config_dir=self.options.config_dir,
        )

    @cached_property
    def store(self) -> Store:
        """Keeps its records."""
        return Store(folder_of(text(self.composer.base(), "results_dir")))

    @property
    def slot_count(self) -> int:
        """How many trials run at once, as far as is known beforehand."""
        return len(self.slots or [None])


def sweep_command(arguments: Sequence[str]) -> int:
    """Run or resume a sweep definition."""
    if list(arguments) == ["--list"]:
        return _list()
    options = options_of(arguments)
    if options.launcher == "wandb" and not options.dry_run:
        return _launch_agents(options)
    return run(options)


def options_of(arguments: Sequence[str]) -> Options:
    """The options that these arguments of `sweep` give.

    Raises:
        ConfigError: an argument is wrong.
    """
    parser = command_parser(
        "sweep",
        "The definition is in W&B's format. Run it again to measure exactly what is missing.",
    )
    add = parser.add_argument
    add("file", type=_definition, help="the definition: a file, or a name that --list shows")
    add("overrides", nargs="*", help="key=value for every trial; they win over the file")
    add(
        "--dry-run",
        action="store_true",
        help="print the commands and how many there are; run nothing",
    )
    add(
        "--max-trials",
        type=int,
        default=MAX_TRIALS,
        help=f"the most trials to accept (default: {MAX_TRIALS})",
    )
    add("--list", action="store_true", help="list the definitions that come with the package")
    add("--config-dir", type=folder_of, help="a folder of your own models and efforts")
    add("--seed", type=int, default=0, help="of a random or bayes search (default: 0)")
    add(
        "--launcher",
        choices=launchers.NAMES,
        default="local",
        help="where trials run (default: local)",
    )
    add(
        "--devices",
        metavar="D,D",
        help="local, wandb: gpu:0,gpu:1, or cpu:0,cpu:1 to split the cores "
        "(default: every GPU, else the CPU as one)",
    )
    add(
        "--retry",
        action="append",
        default=[],
        metavar="STATUS",
        help="measure trials of this status again (repeatable)",
    )
    add(
        "--rerun",
        metavar="COLUMN=VALUE",
        help="one more replicate for matching rows of `results`, as in verdict=ambiguous",
    )
    add("--address", help="ray: the cluster's address (default: start one on this machine)")
    add(
        "--slurm",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="slurm: an option of sbatch, as in partition=gpu (repeatable)",
    )
    add(
        "--chunk",
        type=int,
        default=1,
        help="slurm: trials in one task of the job array (default: 1)",
    )
    add(
        "--slots",
        type=int,
        default=1000,
        help="ray, slurm: the most jobs in the cluster's queue at once (default: 1000)",
    )
    options = parser.parse_intermixed_args(arguments)
    _check_launcher(parser, options)
    return Options(
        path=options.file,
        overrides=tuple(options.overrides),
        config_dir=options.config_dir,
        launcher=options.launcher,
        devices=options.devices,
        dry_run=options.dry_run,
        max_trials=options.max_trials,
        seed=options.seed,
        retry=_statuses(options.retry),
        rerun=_pair(options.rerun, "--rerun") if options.rerun else None,
        address=options.address,
        slurm=dict(_pair(text, "--slurm") for text in options.slurm),
        chunk=max(1, options.chunk),
        slots=max(1, options.slots),
    )


def _definition(given: str) -> Path:
    """A file; or one of those that come with the package, by its name."""
    known, path = catalog.shipped_sweeps(), path_of(given)
    if (path.exists() and not path.is_dir()) or path.suffix or path.name != given:
        return path
    if given not in known:
        raise unknown_name("sweep", given, known)
    return known[given]


def _list() -> int:
    for name, path in catalog.shipped_sweeps().items():
        trials = written(load_sweep(path).trials)
        purpose = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        print(f"{name:<19} {trials:>5} trials  {purpose}")
    return 0


def _check_launcher(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse an option that the chosen launcher does not accept."""
    for name, fitting in _OPTIONS_OF_LAUNCHERS.items():
        if getattr(options, name) != parser.get_default(name) and options.launcher not in fitting:
            raise ConfigError(
                f"--{name} is for --launcher {' or '.join(fitting)}, not for {options.launcher}"
            )


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
        type=folder_of,
        default=Path("results"),
        help="for the agents' logs (default: results)",
    )
    parser.add_argument(
        "--config-dir", type=folder_of, help="a folder of your own models and efforts"
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
        config_dir=options.config_dir,
        max_failed=options.max_failed,
    )


def run(options: Options) -> int:
    """Run or resume a sweep; returns the exit code.

    Raises:
        XlaSweepsError: the definition or the request is wrong; nothing was started.
    """
    sweep = _loaded(options)
    slots = _slots(options) if options.launcher == "local" else None
    request = _Request(options, sweep, slots)
    plan = _plan(request)
    if options.dry_run:
        _show_plan(request, plan)
        return 0
    request.store.check_writable()
    folder_below(request.store.results_dir, "logs", "sweeps")
    source = _source(request)
    if source is None:  # a search does not know its trials beforehand
        keep(request.store.results_dir, sweep.name, (task.request_id for task in plan.tasks))
    ui = str(request.composer.base()["ui"])
    with (
        contextlib.closing(_launcher(request)) as launcher,
        SweepProgress(sweep.name, launcher.slots(), ui=ui) as board,
    ):
        outcome = _driver(request, plan, launcher, board, source).run(plan.tasks)
    return _conclude(request, [*plan.tasks, *(source.tasks if source else ())], outcome)


def _loaded(options: Options) -> Sweep:
    """The definition, with its warnings shown and its size checked."""
    sweep = load_sweep(options.path)
    for warning in sweep.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if sweep.trials > options.max_trials:
        raise ConfigError(
            f"{options.path}: {written(sweep.trials)} trials are more than "
            f"--max-trials={options.max_trials:,}; raise it if that is intended"
        )
    return sweep


def _plan(request: _Request) -> Plan:
    """Compose the trials and match them with the records."""
    sweep, options, store = request.sweep, request.options, request.store
    check_parameters(sweep, options.path)
    index = read_index(store)
    for problem in index.problems:
        print(f"warning: {problem}", file=sys.stderr)
    asked = 0 if sweep.method == "bayes" else sweep.trials
    with _without_collecting():
        tasks = _composed(request) if asked else []
        return plan_sweep(
            tasks,
            request.composer,
            index,
            store.results_dir,
            repeated=asked - len(tasks),
            retry=options.retry,
            rerun=options.rerun,
            warn=warn,
        )


def _composed(request: _Request) -> list[Task]:
    """The trials of a grid or a random search, each once."""
    sweep, options = request.sweep, request.options
    trials = search.expand(sweep, seed=options.seed)
    tasks = compose_all(request.composer, trials, lines=sweep.lines, where=str(options.path))
    return list(_shown(tasks, sweep.trials) if sweep.trials >= _PROGRESS_FROM else tasks)


def _shown(tasks: Iterator[Task], total: int) -> Iterator[Task]:
    """The tasks, with a progress bar while they are composed."""
    with Steps("planning", total, quiet=True) as steps:
        for number, task in enumerate(tasks, 1):
            if number % _PROGRESS_EVERY == 0:
                steps.end(task.model, count=_PROGRESS_EVERY)
            yield task


def _show_plan(request: _Request, plan: Plan) -> None:
    sweep = request.sweep
    left = [(task.model, task.wanted) for task in plan.tasks if task.wanted]
    known = sum(model in plan.costs for model, _ in left)
    show_plan(
        sweep.name,
        plan.tasks,
        search=sweep.trials if sweep.method == "bayes" else None,
        repeated=plan.repeated,
        known=known,
        left_s=Forecast(plan.costs).left_s(left, slots=request.slot_count) if known else None,
    )


def _source(request: _Request) -> SearchSource | None:
    """Proposes the trials of a search; None for a grid or a random sweep."""
    if request.sweep.method != "bayes":
        return None
    seed = request.options.seed
    return SearchSource(
        request.sweep, request.composer, request.store, seed=seed, measured=_measured
    )


def _measured(records: Sequence[Record]) -> Mapping[str, object]:
    """A trial's results, by the names that a sweep's `metric` may have."""
    return run_summary(records, summarize(records))


def _launcher(request: _Request) -> Launcher:
    options, results_dir = request.options, request.store.results_dir
    if options.launcher == "local":
        return LocalLauncher(request.slots or [])
    if options.launcher == "ray":
        from xla_sweeps.sweep.launchers.ray import RayLauncher

        return RayLauncher(options.address, warn=warn, queue_limit=options.slots)
    if options.launcher == "slurm":
        from xla_sweeps.sweep.launchers.slurm import SlurmLauncher

        return SlurmLauncher(
            results_dir,
            options=options.slurm or {},
            warn=warn,
            chunk=options.chunk,
            queue_limit=options.slots,
        )
    raise unknown_name("launcher", options.launcher, launchers.NAMES)


def _driver(
    request: _Request,
    plan: Plan,
    launcher: Launcher,
    board: SweepProgress,
    source: SearchSource | None,
) -> Driver:
    """The driver, with the anchors that the sweep needs; slots that interfere take turns."""
    name, composer, store = request.sweep.name, request.composer, request.store
    stamp = datetime.datetime.now().strftime("%Y%m%dT%H%M%S")
    logs = store.results_dir / "logs" / "sweeps" / f"{file_name(name)}-{stamp}-{os.getpid()}"
    extra = ["ui=plain"]
    if not any(word.startswith("tracker.group=") for word in request.options.overrides):
        extra.append(f"tracker.group={search.group_word(name)}")
    anchors: list[Task] = []
    if any(task.wanted for task in plan.tasks):
        seeds = range(request.slot_count)
        anchors = [composer.anchor([*ANCHOR, f"seed={seed}"]) for seed in seeds]
    if isinstance(launcher, LocalLauncher) and len(anchors) > 1:
        take_turns_if_needed(launcher, store, anchors, extra=extra, logs=logs, warn=board.warn)
    quick = all(task.effort == "quick" for task in plan.tasks)
    return Driver(
        launcher,
        store,
        board,
        extra=extra,
        logs=logs,
        costs=plan.costs,
        source=source,
        anchors=anchors,
        late_anchors=quick,
        record_death=_death_recorder(request),
        rematch=lambda task: match([task], read_index(store), software=composer.software, retry=()),
    )


def _death_recorder(request: _Request) -> Callable[[Task, str], Record] | None:
    """Records that a trial's process died, where the device it ran on is known."""
    if not request.slots:
        return None
    composer, store = request.composer, request.store
    return lambda task, detail: record_death(
        composer.settings(task.words), task.trial_ids[0], store, detail
    )


def _conclude(request: _Request, tasks: Sequence[Task], outcome: Outcome) -> int:
    """Show the results; the exit code says whether anything is left."""
    results_dir = request.store.results_dir
    show_sweep(
        request.sweep.name,
        rows=headline_rows(results_dir, tasks, warn=warn),
        outcome=outcome,
        planned=len(tasks),
        results_dir=results_dir,
        again=shlex.join(["xla-sweeps", *resume_words(request.options)]),
    )
    if outcome.signal_number:
        return 128 + outcome.signal_number
    inconclusive = any(outcome.counts.get(word) for word in (*map(str, INCONCLUSIVE), "missing"))
    return LEFT_CODE if outcome.left or outcome.gave_up or outcome.broken or inconclusive else 0


def _launch_agents(options: Options) -> int:
    """Create the sweep on the W&B server, then run agents for it on this machine.

    Raises:
        XlaSweepsError: the definition is wrong, there is no key, or the server refused.
    """
    require_login()
    request = _Request(options, load_sweep(options.path), _slots(options))
    _plan(request)  # checks every trial that is known beforehand
    if command := wandb_agents.other_command(options.path):
        warn(f"{options.path}: the agents run its own command on every machine: {command}")
    results_dir = request.store.results_dir
    path = wandb_agents.create(options.path, override_values(options.overrides), results_dir)
    print(
        f"created {path}; to join from another machine: xla-sweeps agents {path}", file=sys.stderr
    )
    return _run_agents(
        path, devices=options.devices, results_dir=results_dir, config_dir=options.config_dir
    )


def _run_agents(
    path: str,
    *,
    devices: str | None,
    results_dir: Path,
    config_dir: Path | None = None,
    max_failed: int = wandb_agents.MAX_FAILED,
) -> int:
    wandb_agents.check_path(path)
    require_login()
    slots = slots_for(devices)
    with SweepProgress(f"agents of {path}", [slot.name for slot in slots]) as board:
        return wandb_agents.run(
            path,
            slots=slots,
            results_dir=results_dir,
            config_dir=config_dir,
            screen=board,
            max_failed=max_failed,
        )


def resume_words(options: Options) -> list[str]:
    """The arguments that resume the sweep: those that gave these options."""
    words = ["sweep", str(options.path), *options.overrides]
    defaults = Options(path=options.path)
    for name in (
        "config_dir",
        "launcher",
        "devices",
        "address",
        "seed",
        "max_trials",
        "chunk",
        "slots",
    ):
        if getattr(options, name) != getattr(defaults, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    for key, value in (options.slurm or {}).items():
        words += ["--slurm", f"{key}={value}"]
    for status in options.retry:
        words += ["--retry", str(status)]
    return words + (["--rerun", "=".join(options.rerun)] if options.rerun else [])


def _trial_overrides(options: Options) -> tuple[str, ...]:
    """The command line's overrides without the device, which chooses the local launcher's slots."""
    device = next((word for word in options.overrides if word.startswith("device=")), None)
    if device and options.launcher != "local":
        raise ConfigError(f"{device} with --launcher {options.launcher}: {DEVICE_RULE}")
    return tuple(word for word in options.overrides if not word.startswith("device="))


def _slots(options: Options) -> list[Slot]:
    """The devices of this machine that run trials."""
    device = next(
        (word.partition("=")[2] for word in options.overrides if word.startswith("device=")), None
    )
    if device and options.devices:
        raise ConfigError(f"device={device} and --devices={options.devices}: give one of the two")
    if device == "gpu":
        device = "gpu:0"
    return slots_for(options.devices or (None if device in (None, "auto") else device))


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Turn the cycle collector off while many small objects without cycles are made."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _statuses(words: Collection[str]) -> tuple[Status, ...]:
    """The statuses of these names.

    Raises:
        ConfigError: a word is not a status.
    """
    names = [str(status) for status in Status]
    for word in words:
        if word not in names:
            raise unknown_name("status", word, names, listed=len(names))
    return tuple(Status(word) for word in words)


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ConfigError(f"{option} {text}: expected KEY=VALUE")
    return key, value
