"""The command line: a first word without `=` is a command; without one, the arguments are Hydra's and run a trial."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_sweeps import __version__
from xla_sweeps.errors import ConfigError, StoreError, XlaSweepsError, unknown_name
from xla_sweeps.lifeline import RECORDED_VARIABLE
from xla_sweeps.sweep import GROUPS, flattened, overrides

if TYPE_CHECKING:  # the runner loads much that most commands do not need
    from xla_sweeps.runner import TrialResult

_HYDRA_VALUE_FLAGS = {
    "--config-dir", "-cd", "--config-name", "-cn", "--config-path", "-cp", "--cfg", "-c", "--package", "-p", "--info",
    "-i", "--experimental-rerun",
}  # fmt: skip


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code. Users' mistakes are one line on standard error."""
    try:
        first = arguments[0] if arguments else ""
        if first in ("-h", "--help") or (arguments and not _is_command(first) and {"-h", "--help"} & set(arguments)):
            return _help()
        if first == "--version":
            print(f"xla-sweeps {__version__}")
            return 0
        if _is_command(first):
            if first not in COMMANDS:
                raise unknown_name("command", first, COMMANDS)
            return COMMANDS[first](arguments[1:])
        return _trial(list(arguments))
    except XlaSweepsError as error:
        from xla_sweeps.terminal.screen import complain

        return complain(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def expand_json(arguments: Sequence[str]) -> list[str]:
    """Replace an argument that is a JSON object (W&B's `${args_json}`) by the overrides it holds.

    None becomes `null`, texts are quoted, nested keys become flat, and what is no option (the agent's own `_wandb`, and
    on a resumed run all that was ever logged as config) is left out with a word.
    """
    from xla_sweeps.composition import OPTIONS

    expanded: list[str] = []
    for argument in arguments:
        if not argument.startswith("{"):
            expanded.append(argument)
            continue
        try:
            document = json.loads(argument)
        except ValueError as error:
            raise ConfigError(
                f"the argument {argument[:60]!r} begins like a JSON object but is none: {error}"
            ) from error
        known = {key: value for key, value in document.items() if key.lstrip("+~").split(".")[0] in OPTIONS}
        dropped = [key for key in document if key not in known and key != "_wandb"]
        if dropped:
            print(f"warning: not options of a trial, left out: {', '.join(dropped)}", file=sys.stderr)
        expanded += overrides(flattened(known, GROUPS))
    return expanded


def _is_command(word: str) -> bool:
    return bool(word) and "=" not in word and not word.startswith(("-", "+", "~", "{"))


def _trial(arguments: list[str]) -> int:
    """Check the whole request first, so that a mistake writes nothing; then hand it to Hydra."""
    arguments = expand_json(arguments)
    options, chosen, config_dir = _split(arguments)
    flags = set(options)
    multirun = bool({"-m", "--multirun"} & flags)
    if not {"--cfg", "-c", "--info", "-i", "--hydra-help", "--experimental-rerun", "--shell-completion", "-sc"} & flags:
        _check(chosen, config_dir, multirun=multirun)
    elif not {"--hydra-help", "--shell-completion", "-sc"} & flags:
        from xla_sweeps import composition

        composition.compose_config(chosen, config_dir=config_dir)
    return _run_hydra([*options, *chosen], multirun=multirun)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str], Path | None]:
    """Hydra's options and the overrides among the arguments, and the folder of `--config-dir`."""
    options: list[str] = []
    chosen: list[str] = []
    config_dir: Path | None = None
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if word.startswith("-"):
            options.append(word)
        if word in _HYDRA_VALUE_FLAGS and position + 1 < len(arguments):
            position += 1
            options.append(arguments[position])
            if word in ("--config-dir", "-cd"):
                config_dir = Path(arguments[position])
        elif word.startswith("--config-dir="):
            config_dir = Path(word.partition("=")[2])
        elif not word.startswith("-"):
            chosen.append(word)
        position += 1
    return options, chosen, config_dir


def _check(requested: Sequence[str], config_dir: Path | None, *, multirun: bool) -> None:
    """Compose and check every trial of the request before any of them runs."""
    from xla_sweeps import composition, config, runner

    checked = []
    for choice in _expanded(requested) if multirun else [list(requested)]:
        composed = composition.compose_config(choice, config_dir=config_dir)
        settings = config.to_settings(composed, explicit=_keys(choice))
        if settings.tracker.name == "wandb":
            from xla_sweeps.trackers.wandb import require_api_key

            require_api_key(os.environ)
        checked.append(settings)
    for settings in checked:
        runner.check(settings)


def _expanded(requested: Sequence[str]) -> list[list[str]]:
    """Every combination that Hydra's `-m` will run."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_overrides(list(requested))
        batches = BasicSweeper.split_arguments(parsed, None)
    except HydraException as error:
        raise ConfigError(str(error).splitlines()[0]) from error
    return [list(job) for batch in batches for job in batch]


def _keys(requested: Sequence[str]) -> set[str]:
    return {text.lstrip("+~").partition("=")[0] for text in requested}


def _run_hydra(arguments: Sequence[str], *, multirun: bool) -> int:
    """Let Hydra compose and call us back, once or for each job of `-m`; the worst exit code wins."""
    import hydra
    from omegaconf import DictConfig

    from xla_sweeps import catalog

    codes: list[int] = []

    def task(config: DictConfig) -> None:
        codes.append(_measure(config))
        if codes[-1] >= 128 or not multirun:
            sys.exit(codes[-1])

    task.__module__ = "xla_sweeps.cli"
    main = hydra.main(version_base="1.3", config_path=str(catalog.conf_dir()), config_name="config")(task)
    saved, sys.argv = sys.argv, ["xla-sweeps", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.argv = saved
    return max(codes, default=0)


def _measure(config: Any) -> int:
    """Run one trial and show how it ended."""
    from hydra.core.hydra_config import HydraConfig

    from xla_sweeps import runner
    from xla_sweeps.config import to_settings
    from xla_sweeps.terminal.progress import Progress
    from xla_sweeps.terminal.tables import show_trial
    from xla_sweeps.trackers import tracker_named

    settings = to_settings(config, explicit=_keys(list(HydraConfig.get().overrides.task)))
    recorded = os.environ.pop(RECORDED_VARIABLE, "")
    with Progress(ui=settings.ui) as screen:
        result = runner.run_trial(settings, screen=screen, tracker=tracker_named(settings.tracker.name))
        for warning in result.tracking.warnings if result.tracking else ():
            screen.warn(warning)
        if result.exit_code >= 128:
            again = shlex.join(["python", "-m", "xla_sweeps", *HydraConfig.get().overrides.task])
            screen.warn(f"stopped; what was measured is saved. To go on: {again}")
    if recorded:
        with Path(recorded).open("a", encoding="utf-8") as handle:
            handle.writelines(f"{path.resolve()}\n" for path in result.paths)
    if result.summary is not None:
        show_trial(result.summary, places=_places(result, settings.results_dir))
    return result.exit_code


def _places(result: TrialResult, results_dir: Path) -> dict[str, str]:
    """Where what was written is, and the commands that show it again."""
    places = {}
    if result.paths:
        more = f" and {len(result.paths) - 1} more" if len(result.paths) > 1 else ""
        places["record"] = f"{result.paths[0]}{more}"
    if result.logs:
        places["log"] = str(result.logs[-1])
    if result.tracking and result.tracking.place:
        places["W&B"] = result.tracking.place
    places["again"] = f"xla-sweeps results {results_dir}"
    return places


def _help() -> int:
    from xla_sweeps import catalog
    from xla_sweeps.terminal.help import help_text

    print(help_text(catalog.load_catalog()))
    return 0


def _results(arguments: Sequence[str]) -> int:
    """Comparison rows of a results folder."""
    parser = _parser("results", "Comparison rows: one per trial, candidate and baseline.")
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    parser.add_argument("--format", choices=("table", "csv", "json", "parquet"), default="table",
                        help="how to write them (default: table); parquet needs -o")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, help="file to write to (default: standard output)")
    parser.add_argument("--all", action="store_true", help="every baseline, not the headline comparison alone")
    options = parser.parse_args(arguments)
    from xla_sweeps import results

    return results.show(options.dir, form=options.format, output=options.output, every=options.all)


def _sweep(arguments: Sequence[str]) -> int:
    """Run or resume a sweep definition."""
    from xla_sweeps.launchers import NAMES

    parser = _parser(
        "sweep", "Run a sweep definition in W&B's format; the same command again measures exactly what is missing."
    )
    parser.add_argument("file", type=Path, help="the definition, as in sweeps/smoke.yaml")
    parser.add_argument("overrides", nargs="*", help="key=value for every trial; they win over the file")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and their number, run nothing")
    parser.add_argument("--max-trials", type=int, default=10_000, help="refuse more than this (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of a random or bayes search (default: 0)")
    parser.add_argument("--launcher", choices=NAMES, default="local", help="where trials run (default: local)")
    parser.add_argument("--devices", metavar="D,D", help="local, wandb: gpu:0,gpu:1, or cpu:0,cpu:1 to split the cores "
                        "(default: every GPU, else the CPU as one)")  # fmt: skip
    parser.add_argument("--retry", action="append", default=[], metavar="STATUS",
                        help="measure trials of this status again (repeatable)")  # fmt: skip
    parser.add_argument("--rerun", metavar="COLUMN=VALUE",
                        help="one more replicate where `results` says so, as in verdict=ambiguous")  # fmt: skip
    parser.add_argument("--address", help="ray: the cluster's address (default: start one on this machine)")
    parser.add_argument("--slurm", action="append", default=[], metavar="KEY=VALUE",
                        help="slurm: an option of sbatch, as in partition=gpu (repeatable)")  # fmt: skip
    parser.add_argument("--chunk", type=int, default=1, help="slurm: trials in one task of the job array (default: 1)")
    parser.add_argument("--slots", type=int, default=1000,
                        help="ray, slurm: the most jobs in the cluster's queue at once (default: 1000)")  # fmt: skip
    options = parser.parse_intermixed_args(arguments)
    from xla_sweeps import sweeping

    chosen = sweeping.Options(
        path=options.file, overrides=tuple(options.overrides), launcher=options.launcher, devices=options.devices,
        dry_run=options.dry_run, max_trials=options.max_trials, seed=options.seed,
        retry=sweeping.statuses(options.retry), rerun=_pair(options.rerun, "--rerun") if options.rerun else None,
        address=options.address, slurm=dict(_pair(text, "--slurm") for text in options.slurm),
        chunk=max(1, options.chunk), slots=max(1, options.slots),
    )  # fmt: skip
    if options.launcher == "wandb" and not options.dry_run:
        from xla_sweeps import agents

        return agents.launch(chosen)
    return sweeping.run(chosen)


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ConfigError(f"{option} {text}: write KEY=VALUE")
    return key, value


def _agents(arguments: Sequence[str]) -> int:
    """One W&B agent per device."""
    parser = _parser("agents", "Join a W&B sweep: one real `wandb agent` on each device of this machine.")
    parser.add_argument("sweep", metavar="ENTITY/PROJECT/ID", help="as `wandb sweep` prints it")
    parser.add_argument(
        "--devices", metavar="D,D", help="gpu:0,gpu:1 or cpu:0,cpu:1 (default: every GPU, else the CPU)"
    )
    parser.add_argument(
        "--results-dir", type=Path, default=Path("results"), help="for the agents' logs (default: results)"
    )
    parser.add_argument("--max-failed", type=int, default=20,
                        help="trials in a row that may fail before an agent gives up (default: 20)")  # fmt: skip
    options = parser.parse_args(arguments)
    from xla_sweeps import agents

    return agents.run(
        options.sweep, devices=options.devices, results_dir=options.results_dir, max_failed=options.max_failed
    )


def _models(arguments: Sequence[str]) -> int:
    """The catalog."""
    parser = _parser("models", "The model catalog.")
    parser.add_argument("pattern", nargs="?", default="", help="part of a name or family, or a glob: 'regnet*'")
    options = parser.parse_args(arguments)
    from xla_sweeps import catalog
    from xla_sweeps.terminal.tables import show_model, show_models

    exact = catalog.load_catalog().get(options.pattern)
    entries = catalog.find(options.pattern)
    if not entries:
        raise catalog.unknown_model(options.pattern)
    if exact is not None:
        show_model(exact)
    else:
        show_models(entries)
    return 0


def _hub_replicas(arguments: Sequence[str]) -> int:
    """Replicas of TensorFlow Hub's models, made ahead of the trials that need them."""
    parser = _parser(
        "hub-replicas",
        "Make the SavedModels that source=hub runs with weights=random: the published architectures with random "
        "weights, once, into a cache ($XLA_SWEEPS_CACHE, else ~/.cache/xla-sweeps). A trial makes its own if need be.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="models, or globs: 'swin_*' (default: all of them)")
    parser.add_argument("--list", action="store_true", help="show which there are and where, make none")
    options = parser.parse_args(arguments)
    from xla_sweeps import hub_replicas

    return hub_replicas.show(options.names) if options.list else hub_replicas.make(options.names)


def _doctor(arguments: Sequence[str]) -> int:
    """Devices, versions, flags, and whether the machine is quiet enough to measure on."""
    parser = _parser("doctor", "Devices, versions, flags, and whether this machine is quiet enough to measure on.")
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to watch the machine (default: 3)")
    options = parser.parse_args(arguments)
    from xla_sweeps import doctor
    from xla_sweeps.terminal.tables import show_findings

    findings = doctor.diagnose(options.dir, seconds=options.seconds)
    show_findings([(item.level, item.subject, item.found, item.mend) for item in findings])
    return 1 if any(item.level == "bad" for item in findings) else 0


def _check_results(arguments: Sequence[str]) -> int:
    """An independent check of a results folder."""
    parser = _parser(
        "check",
        "Look a results folder over, with code that shares nothing with what wrote it: names, numbers, times, samples, "
        "and that nothing is there twice. Exit code 1 where something is wrong.",
    )
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    options = parser.parse_args(arguments)
    if not (options.dir / "records").is_dir():
        raise StoreError(f"{options.dir} holds no records")
    from xla_sweeps.checking import check

    counts, problems = check(options.dir)
    for problem in problems:
        print(problem)
    print(f"{options.dir}: {', '.join(f'{count} {word}' for word, count in counts.items())}; {len(problems)} problems")
    return 1 if problems else 0


def _push(arguments: Sequence[str]) -> int:
    """Send records to W&B that it does not have."""
    parser = _parser("push", "Send the records that Weights & Biases does not have; safe to repeat.")
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    parser.add_argument("--project", help="W&B project (default: as recorded)")
    parser.add_argument("--entity", help="W&B entity (default: as recorded)")
    parser.add_argument("--force", action="store_true", help="send them again even where W&B has them")
    options = parser.parse_args(arguments)
    from xla_sweeps import results

    return results.push(options.dir, project=options.project, entity=options.entity, force=options.force)


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise ConfigError(f"{name}: {message}; `xla-sweeps {name} --help` shows the usage")

    return Parser(prog=f"xla-sweeps {name}", description=description)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "sweep": _sweep,
    "agents": _agents,
    "results": _results,
    "models": _models,
    "hub-replicas": _hub_replicas,
    "doctor": _doctor,
    "push": _push,
    "check": _check_results,
}
