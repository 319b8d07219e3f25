"""Runs a trial, or several with `-m`; the arguments are Hydra overrides."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig

from xla_sweeps.config import catalog
from xla_sweeps.config.compose import compose_config, full_key
from xla_sweeps.config.settings import to_settings
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.wandb.credentials import require_api_key
from xla_sweeps.schema.options import NAMES, RETIRED
from xla_sweeps.schema.overrides import flattened, overrides
from xla_sweeps.system.process import Assignment

if TYPE_CHECKING:  # the runner loads SciPy, for which a mistake in the request need not wait
    from xla_sweeps.measure.runner import TrialResult


_HYDRA_OWN = {"--hydra-help", "--shell-completion", "-sc"}
"""Flags of Hydra that need no configuration of ours."""

_HYDRA_SHOWS = {"--cfg", "-c", "--info", "-i", "--experimental-rerun"}
"""Flags of Hydra that need the configuration but measure nothing new."""

_HYDRA_VALUE_FLAGS = {
    "--config-dir",
    "-cd",
    "--config-name",
    "-cn",
    "--config-path",
    "-cp",
    "--cfg",
    "-c",
    "--package",
    "-p",
    "--info",
    "-i",
    "--experimental-rerun",
}


def expand_json(arguments: Sequence[str]) -> list[str]:
    """Replace an argument that is a JSON object (W&B's `${args_json}`) by the overrides it holds.

    None becomes `null`, strings are quoted and nested keys become flat. Unknown options (on a
    resumed run W&B passes all that was ever logged as config) are ignored with a warning.
    """
    expanded: list[str] = []
    for argument in arguments:
        if not argument.startswith("{"):
            expanded.append(argument)
            continue
        try:
            document = json.loads(argument)
        except ValueError as error:
            raise ConfigError(
                f"the argument {argument[:60]!r} is not valid JSON: {error}"
            ) from error
        known = {
            key: value for key, value in document.items() if key.lstrip("+~").split(".")[0] in NAMES
        }
        dropped = [key for key in document if key not in {*known, *RETIRED, "_wandb"}]
        if dropped:
            print(f"warning: ignored unknown options: {', '.join(dropped)}", file=sys.stderr)
        expanded += overrides(flattened(known))
    return expanded


def trial_command(arguments: list[str]) -> int:
    """Validate the whole request, so that a mistake writes nothing; then let Hydra run it."""
    assignment = Assignment.take(os.environ)
    arguments = expand_json(arguments)
    options, chosen, config_dir = _split(arguments)
    flags = set(options)
    multirun = bool({"-m", "--multirun"} & flags)
    if _HYDRA_SHOWS & flags and not _HYDRA_OWN & flags:
        compose_config(chosen, config_dir=config_dir)
    elif not _HYDRA_OWN & flags:
        _check(chosen, config_dir, assignment, multirun=multirun)
    return _run_hydra([*options, *map(full_key, chosen)], assignment, multirun=multirun)


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


def _check(
    requested: Sequence[str], config_dir: Path | None, assignment: Assignment, *, multirun: bool
) -> None:
    """Compose and validate every trial of the request before any runs."""
    checked = []
    for choice in _expanded(requested) if multirun else [list(requested)]:
        composed = compose_config(choice, config_dir=config_dir)
        settings = to_settings(composed, explicit=_keys(choice))
        if settings.tracker.name == "wandb":
            require_api_key(os.environ)
        checked.append(settings)
    from xla_sweeps.measure import runner

    for settings in checked:
        runner.check(settings, assignment)


def _expanded(requested: Sequence[str]) -> list[list[str]]:
    """Every combination that Hydra's `-m` will run (a private class; tried with Hydra 1.3.8)."""
    try:
        parsed = OverridesParser.create().parse_overrides(list(requested))
        batches = BasicSweeper.split_arguments(parsed, None)
    except HydraException as error:
        raise ConfigError(str(error).splitlines()[0]) from error
    return [list(job) for batch in batches for job in batch]


def _keys(requested: Sequence[str]) -> set[str]:
    return {text.lstrip("+~").partition("=")[0] for text in requested}


def _run_hydra(arguments: Sequence[str], assignment: Assignment, *, multirun: bool) -> int:
    """Let Hydra compose and call us back, once or for each job of `-m`.

    The worst exit code wins.
    """
    codes: list[int] = []

    def task(config: DictConfig) -> None:
        codes.append(_measure(config, assignment))
        if codes[-1] >= 128 or not multirun:
            sys.exit(codes[-1])

    task.__module__ = "xla_sweeps.cli.trial"
    main = hydra.main(
        version_base="1.3", config_path=str(catalog.conf_dir()), config_name="config"
    )(task)
    saved, sys.argv = sys.argv, ["xla-sweeps", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.argv = saved
    return max(codes, default=0)


def _measure(config: DictConfig, assignment: Assignment) -> int:
    """Run one trial and show its result."""
    from xla_sweeps.measure import runner
    from xla_sweeps.measure.tracking import tracker_named
    from xla_sweeps.report.terminal.tables import show_trial
    from xla_sweeps.report.terminal.trial_progress import TrialProgress

    settings = to_settings(config, explicit=_keys(list(HydraConfig.get().overrides.task)))
    with TrialProgress(ui=settings.ui) as screen:
        result = runner.run_trial(
            settings,
            screen=screen,
            tracker=tracker_named(settings.tracker.name),
            assignment=assignment,
        )
        for warning in result.tracking.warnings if result.tracking else ():
            screen.warn(warning)
        if result.exit_code >= 128:
            again = shlex.join(["python", "-m", "xla_sweeps", *HydraConfig.get().overrides.task])
            screen.warn(f"stopped; what was measured is saved. Resume with: {again}")
    if assignment.recorded:
        with Path(assignment.recorded).open("a", encoding="utf-8") as handle:
            handle.writelines(f"{path.resolve()}\n" for path in result.paths)
    if result.summary is not None:
        show_trial(result.summary, places=_places(result, settings.results_dir))
    return result.exit_code


def _places(result: TrialResult, results_dir: Path) -> dict[str, str]:
    """Where the files of the trial are, and the command that shows it again."""
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
