"""The command `sweep`."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import msgspec

from xla_sweeps.analysis.compatibility import CHECK
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.cli.agents import agents_command
from xla_sweeps.cli.sweep_options import DEVICE, Options, options_of
from xla_sweeps.config import catalog
from xla_sweeps.config.combinations import write_choice
from xla_sweeps.config.compose import override_values
from xla_sweeps.config.values import folder_of, text
from xla_sweeps.errors import LEFT_CODE, ConfigError, StoreError, XlaSweepsError
from xla_sweeps.report.json_progress import JsonSweep
from xla_sweeps.report.run_content import SUMMARY_KEYS, run_summary
from xla_sweeps.report.terminal.console import paragraph, progress_console, say, warn
from xla_sweeps.report.terminal.progress import SweepProgress
from xla_sweeps.report.terminal.sweep_summary import show_plan, show_sweep
from xla_sweeps.report.wandb.credentials import require_login
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.schema.columns import AA_TAG
from xla_sweeps.schema.overrides import key_of, override_value
from xla_sweeps.schema.record import Record
from xla_sweeps.store.claim import remove_left
from xla_sweeps.store.planned import keep
from xla_sweeps.store.rows import load_runs
from xla_sweeps.store.store import Store, folder_below
from xla_sweeps.sweeps import search
from xla_sweeps.sweeps.anchors import ANCHOR, DEVICE_ANCHOR, take_turns_if_needed
from xla_sweeps.sweeps.backlog import Backlog
from xla_sweeps.sweeps.compose import Composer, Task, compose_all
from xla_sweeps.sweeps.definition import Sweep, load_sweep
from xla_sweeps.sweeps.driver import Driver
from xla_sweeps.sweeps.launchers import Launcher, LauncherRequest, Screen, wandb_agents
from xla_sweeps.sweeps.launchers.slots import Slot, ahead_on, slots_for
from xla_sweeps.sweeps.outcomes import Outcome
from xla_sweeps.sweeps.plan import (
    DEVICE_RULE,
    INCONCLUSIVE,
    Plan,
    add_duplicates,
    assign_records,
    check_parameters,
    costs_of,
    headline_rows,
    want_again,
    with_aa,
)
from xla_sweeps.sweeps.progress import time_left
from xla_sweeps.sweeps.search import Search
from xla_sweeps.system.devices import gpu_problems
from xla_sweeps.system.environment import absent
from xla_sweeps.system.leases import without_leases
from xla_sweeps.system.text import file_name

_OF_MULTIRUN = ("hydra.sweep.", "hydra/launcher", "hydra.launcher.")
"""Beginnings of Hydra's keys that have no effect on a single run, which each trial is."""


@dataclass(frozen=True)
class Request:
    """A sweep to be planned and run: what was asked for, and what follows from it.

    Attributes:
        slots: the devices of this machine; None on a cluster.
        more: further definitions of the same sweep.
        again: the command that resumes it.
        compares: whether speedups are its answer; else only failed ones are shown.
    """

    options: Options
    sweep: Sweep
    slots: Sequence[Slot] | None
    more: tuple[Sweep, ...] = ()
    again: tuple[str, ...] = ()
    compares: bool = True

    @cached_property
    def composer(self) -> Composer:
        """The composer of its trials."""
        return Composer(
            _trial_overrides(self.options),
            slots=self.slots,
            config_dir=self.options.config_dir,
            accepted=self.options.accepted,
        )

    @cached_property
    def store(self) -> Store:
        """The store of its records."""
        return Store(folder_of(text(self.composer.base(), "results_dir")))

    @property
    def slot_count(self) -> int:
        """Number of trials that run at once, as far as it is known beforehand."""
        return len(self.slots or [None])


def sweep_command(arguments: Sequence[str]) -> int:
    """Run or resume a sweep definition; returns the exit code."""
    if list(arguments) == ["--list"]:
        return _list()
    options = options_of(arguments)
    if not (options.kind.driven or options.dry_run):
        return _launch_agents(options)
    slots = slots_of(options) if options.kind.on_devices else None
    again = ("xla-sweeps", "sweep", *arguments)
    request = Request(options, _load_definition(options), slots, again=again)
    return measure(request, plan_of(request))


def _list() -> int:
    for name, path in catalog.shipped_sweeps().items():
        trials = write_choice(load_sweep(path).trials)
        head = path.read_text(encoding="utf-8").partition("\nname:")[0]
        purpose = " ".join(line.removeprefix("# ") for line in head.splitlines())
        noun = "trial " if trials == "1" else "trials"
        paragraph(f"{name:<19} {trials:>5} {noun}  {purpose}", indent=4)
    return 0


def measure(request: Request, plan: Plan) -> int:
    """Measure what is missing of a plan, or show it; returns the exit code."""
    sweep, options, results_dir = request.sweep, request.options, request.store.results_dir
    source = _search(request) if sweep.method == "bayes" else None
    slots, own = request.slots or (), {**options.launching}
    if slots and (asked := own.get("ahead")):
        own["ahead"], less = ahead_on(slots, asked)
        warn(*filter(None, [less]))
    if options.dry_run:
        _show_plan(request, plan)
        return 0
    warn(*filter(None, [without_leases()]))
    request.store.check_writable()
    folder_below(results_dir, "logs", "sweeps")
    if source is None:  # a search does not know its trials beforehand
        keep(results_dir, sweep.name, (task.request_id for task in plan.tasks))
    ui = str(request.composer.base()["ui"])
    json_ui = JsonSweep() if ui == "json" else None
    launching = LauncherRequest(options=own, results_dir=results_dir, slots=slots, warn=warn)
    with (
        contextlib.closing(options.kind(launching)) as launcher,
        json_ui or SweepProgress(sweep.name, launcher.slots(), ui=ui) as board,
    ):
        outcome = _driver(request, plan, launcher, board, source).run(plan.tasks)
    tasks = [*plan.tasks, *(source.tasks if source else ())]
    return _conclude(request, tasks, outcome, json_ui=json_ui)


def measure_aside(request: Request, plan: Plan) -> int:
    """`measure`, whose lines go to standard error: an answer alone goes to standard output."""
    with contextlib.redirect_stdout(sys.stdout if request.options.dry_run else sys.stderr):
        return measure(request, plan)


def not_measured(request: Request, what: str) -> StoreError:
    """Error for an answer without anything to show, such as `shapes: no mode`."""
    folder = shlex.quote(str(request.store.results_dir))
    return StoreError(f"{what} was measured; see why: xla-sweeps results {folder}")


def _load_definition(options: Options) -> Sweep:
    """The definition, with its warnings shown and its size checked."""
    sweep = load_sweep(options.file)
    warn(*sweep.warnings)
    if sweep.trials > options.max_trials:
        raise ConfigError(
            f"{options.file}: {write_choice(sweep.trials)} trials are more than "
            f"--max-trials={options.max_trials:,}; raise it if that is intended"
        )
    return sweep


def plan_of(request: Request, *, self_checks: bool = True) -> Plan:
    """Compose the trials and match them with records; `self_checks` are twins and duplicates.

    Raises:
        XlaSweepsError: the definition or the request is wrong.
    """
    options, store, composer = request.options, request.store, request.composer
    sweeps = (request.sweep, *request.more)
    for sweep in sweeps:
        check_parameters(sweep, options.file)
    runs = load_runs(store)
    warn(*runs.problems)
    listable = [sweep for sweep in sweeps if sweep.method != "bayes"]
    trials = (values for sweep in listable for values in search.expand(sweep, seed=options.seed))
    lines, where = request.sweep.lines, str(options.file)
    tasks = composed = compose_all(composer, trials, lines=lines, where=where)
    if self_checks:
        tasks = with_aa(composed, composer.of_words, warn=warn)
        add_duplicates(tasks)
    assign_records(tasks, runs, software=composer.software, retry=options.retry)
    if options.rerun is not None:
        want_again(tasks, runs, store.results_dir, *options.rerun, warn=warn)
    repeated = sum(sweep.trials for sweep in listable) - len(composed)
    return Plan(tasks=tasks, repeated=repeated, costs=costs_of(runs))


def _show_plan(request: Request, plan: Plan) -> None:
    sweep = request.sweep
    wanted = [task for task in plan.tasks if task.wanted]
    if sweep.method == "bayes":  # like one of those that it may propose
        example = _example(request)
        example.wanted = example.replicates
        wanted = [example] * sweep.trials
        if example.duplicates and example.replicates == 1:
            count = sweep.trials // example.duplicates
            wanted[:count] = [msgspec.structs.replace(example, wanted=2, twice=True)] * count
    options, folder, script = request.options, request.store.results_dir, ""
    if jobs := sum(task.wanted for task in wanted):
        script = options.kind.preview(options.launching, jobs=jobs, results_dir=folder)
    left = [(task.model, task.wanted) for task in wanted]
    estimated = sum(task.model in plan.costs for task in wanted)
    show_plan(
        sweep.name,
        [(task.words, task.wanted) for task in plan.tasks],
        search=sweep.trials if sweep.method == "bayes" else None,
        repeated=plan.repeated,
        twins=sum(AA_TAG in task.tags for task in plan.tasks if task.wanted),
        twice=sum(task.twice for task in wanted),
        estimated=estimated,
        left_s=time_left(left, past=plan.costs, slots=request.slot_count) if estimated else None,
        timed_s=sum(task.timed_s * task.wanted for task in wanted) / request.slot_count,
    )
    if script:
        say(script.rstrip("\n"), console=progress_console())


_EXAMPLES = 100  # combinations that are tried for one that is not refused


def _example(request: Request) -> Task:
    """A trial that a search may propose; raises an error where many are refused."""
    source = random.Random(request.options.seed)
    for _ in range(_EXAMPLES - 1):
        with contextlib.suppress(XlaSweepsError):
            return request.composer.task(search.example(request.sweep, source))
    return request.composer.task(search.example(request.sweep, source))


def _search(request: Request) -> Search:
    """The search of a sweep; refuses a metric that no trial will have."""
    sweep, options = request.sweep, request.options
    name = sweep.metric.name if sweep.metric else ""
    if name not in SUMMARY_KEYS and not name.startswith("throughput_"):
        available = ", ".join(sorted(SUMMARY_KEYS))
        wrong = f"no trial has the metric '{name}'; available: {available}, throughput_MODE"
        raise ConfigError(f"{options.file}: {wrong}")
    return Search(
        sweep, request.composer, request.store, seed=options.seed, measured=metrics_of, warn=warn
    )


def metrics_of(records: Sequence[Record]) -> dict[str, Any]:
    """A trial's results by the names that a metric may have; None for what it could not measure."""
    return {**dict.fromkeys(SUMMARY_KEYS), **run_summary(records, summarize(records))}


def _driver(
    request: Request,
    plan: Plan,
    launcher: Launcher,
    board: Screen,
    source: Search | None,
) -> Driver:
    """The driver, with the anchors that the sweep needs; slots that interfere take turns."""
    name, store = request.sweep.name, request.store
    stamp = datetime.datetime.now().strftime("%Y%m%dT%H%M%S")
    logs = store.results_dir / "logs" / "sweeps" / f"{file_name(name)}-{stamp}-{os.getpid()}"
    extra = ["ui=plain"]
    if "tracker.group" not in map(key_of, request.options.overrides):
        extra.append(f"tracker.group={override_value(name)}")
    several = (source.total if source else sum(task.wanted > 0 for task in plan.tasks)) > 1
    anchors = _anchors(request) if several else []
    if several and request.slot_count > 1:
        first = [tasks[0] for tasks in anchors]
        take_turns_if_needed(launcher, store, first, extra=extra, logs=logs, warn=board.warn)
    quick = all(task.effort in ("quick", CHECK) for task in plan.tasks)
    repeats = [task.replicates for task in plan.tasks if AA_TAG not in task.tags]
    return Driver(
        launcher,
        store,
        board,
        extra=extra,
        logs=logs,
        backlog=Backlog(anchors, source, repeats=max(repeats, default=1), late_anchors=quick),
        costs=plan.costs,
        composer=request.composer,
    )


def _anchors(request: Request) -> list[list[Task]]:
    """The anchors of each slot; none without TensorFlow, in which they are measured."""
    if absent(default_backend()):
        return []
    on_gpu = any(slot.device.kind == "gpu" for slot in request.slots or ())
    kinds = (ANCHOR, DEVICE_ANCHOR) if on_gpu else (ANCHOR,)
    return [
        [request.composer.anchor([*words, f"seed={seed}"]) for words in kinds]
        for seed in range(request.slot_count)
    ]


def _conclude(
    request: Request, tasks: Sequence[Task], outcome: Outcome, *, json_ui: JsonSweep | None
) -> int:
    """Show the results; the exit code says whether anything is left."""
    results_dir = request.store.results_dir
    remove_left(results_dir, (trial for task in tasks for trial in task.trial_ids))
    rows = headline_rows(results_dir, tasks, warn=warn)
    show = partial(
        show_sweep,
        request.sweep.name,
        rows=[row for row in rows if request.compares or row.speedup.verdict.is_missing],
        counts=outcome.counts,
        gave_up=outcome.gave_up,
        stopped=outcome.broken if outcome.broken or outcome.signal_number else None,
        planned=len(tasks),
        twins=sum(AA_TAG in task.tags for task in tasks),
        results_dir=results_dir,
        again=shlex.join(request.again),
        kept=request.options.accept_contaminated,
    )
    code = _code_of(outcome, request.options)
    if json_ui is None:
        show()
    else:
        json_ui.end(
            exit_code=code,
            show=show,
            trials=list(dict.fromkeys(row.trial.trial_id for row in rows)),
            counts=outcome.counts,
            reasons=[*outcome.gave_up.values(), *filter(None, [outcome.broken])],
        )
    return code


def _code_of(outcome: Outcome, options: Options) -> int:
    if outcome.signal_number:
        return 128 + outcome.signal_number
    open_words = {*map(str, INCONCLUSIVE), "missing"} - {*map(str, options.accepted)}
    inconclusive = any(outcome.counts.get(word) for word in open_words)
    return LEFT_CODE if outcome.left or outcome.gave_up or outcome.broken or inconclusive else 0


def _launch_agents(options: Options) -> int:
    """Create the sweep on the W&B server, then run agents for it on this machine."""
    sweep = load_sweep(options.file)
    wandb_agents.command_of(options.file)
    require_login()
    request = Request(options, sweep, slots_of(options))
    plan_of(request)  # checks every trial that is known beforehand
    results_dir, folder = request.store.results_dir, options.config_dir
    path = wandb_agents.create(options.file, override_values(options.overrides), results_dir)
    words = [path, *(folder.words if folder else ())]
    join = shlex.join(["xla-sweeps", "agents", *words])
    say(f"created {path}; to join from another machine: {join}", console=progress_console())
    for name, value in options.launching.items():
        words.append(f"--{name}" if value is True else f"--{name}={value}")
    return agents_command([*words, f"--results-dir={results_dir}"])


def _trial_overrides(options: Options) -> tuple[str, ...]:
    """The command line's overrides without the device, which chooses the local launcher's slots."""
    if options.device and not options.kind.on_devices:
        launcher = f"device={options.device} with --launcher {options.launcher}"
        raise ConfigError(f"{launcher}: {DEVICE_RULE}")
    for word in options.overrides:
        if key_of(word).startswith(_OF_MULTIRUN):
            instead = "hydra.run.dir=DIR or --launcher"
            raise ConfigError(f"{word}: only -m reads it; a sweep takes {instead}")
    return tuple(word for word in options.overrides if not word.startswith(DEVICE))


def slots_of(options: Options) -> list[Slot]:
    """The devices of this machine that run trials."""
    device = options.device
    if device and options.devices:
        raise ConfigError(f"device={device} and --devices={options.devices}: give one of the two")
    named = {"auto": None, "gpu": "gpu:0"}.get(device or "auto", device)
    asked = options.devices or named
    slots = slots_for(asked)
    for problem in () if asked else gpu_problems():
        warn(f"{problem}; not used")
    return slots
