"""Run a trial, or several with `-m`; the arguments are Hydra overrides.

Every trial is composed and checked before any runs, and what was checked is what runs. What Hydra
composes for a job of `-m` afterwards is only kept in its output folder.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import version
from hydra._internal.utils import _run_hydra, get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from xla_sweeps.cli import COMMANDS
from xla_sweeps.cli.mistakes import unknown_option
from xla_sweeps.config import catalog
from xla_sweeps.config.combinations import choices
from xla_sweeps.config.compose import check_overrides, compose_config, composed, composing, full_key
from xla_sweeps.config.foreign import check_size, check_value, may_set
from xla_sweeps.config.scenario import remarks_of
from xla_sweeps.config.settings import Settings, settings_of
from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.terminal.console import complain, warn
from xla_sweeps.schema.options import BY_NAME, LOGGED, RETIRED
from xla_sweeps.schema.overrides import flattened, key_of, keys_of, overrides, repeating
from xla_sweeps.store.store import folder_below
from xla_sweeps.system.environment import dropped_flags
from xla_sweeps.system.leases import without_leases
from xla_sweeps.system.process import Assignment
from xla_sweeps.trial.tracking import tracker_named

if TYPE_CHECKING:  # the runner loads SciPy, for which a mistake in the request need not wait
    from xla_sweeps.trial.runner import Prepared, TrialResult

_OPTIONS = {
    "--multirun": "-m",
    "--run": "-r",
    "--cfg": "-c",
    "--resolve": "--resolve",
    "--info": "-i",
    "--config-dir": "-cd",
    "--hydra-help": "--hydra-help",
    "--shell-completion": "-sc",
}
"""Options of Hydra that can be used here, and how they may be written in short.

The others would read other files as configuration, or run what they hold.
"""

_PATHS = ("weights", "data")
"""Options that a server may set to a name, and a person to a path."""

_End = tuple[int, str]
"""The end of a job: its exit code, and its trial where something was recorded, else ""."""


@dataclass(frozen=True)
class _Job:
    """One trial of the request.

    Attributes:
        words: its overrides.
        document: its configuration as plain data.
        config_dir: a further folder of configuration files.
    """

    words: tuple[str, ...]
    document: dict[str, Any]
    config_dir: Path | None

    @cached_property
    def settings(self) -> Settings:
        """Its settings on the machine that runs it."""
        asked = settings_of(self.document, explicit=keys_of(self.words))
        hidden = asked.device.kind == "cpu" and "CUDA_VISIBLE_DEVICES" in os.environ
        words = repeating(self.words, config_dir=str(self.config_dir or ""), on_cpu=hidden)
        return replace(asked, words=words)

    @cached_property
    def prepared(self) -> Prepared:
        """Its id, and the results folder that can be written."""
        from xla_sweeps.trial import runner

        return runner.prepare(self.settings)

    def __getstate__(self) -> dict[str, Any]:
        """Without what the machine that runs it decides, for a launcher of Hydra's."""
        return {name: getattr(self, name) for name in ("words", "document", "config_dir")}

    @property
    def again(self) -> str:
        """The command that resumes it."""
        place = ["--config-dir", str(self.config_dir)] if self.config_dir else []
        return shlex.join(["python", "-m", "xla_sweeps", *place, *self.words])


def expand_json(arguments: Sequence[str]) -> list[str]:
    """Replace an argument that is a JSON object (W&B's `${args_json}`) by the overrides it holds.

    None becomes `null`, strings are quoted and nested keys become flat. Unknown options (on a
    resumed run W&B passes all that was ever logged as config) and those that a server may not set
    are ignored with a warning.

    Raises:
        ConfigError: it is not JSON, or holds a value that a server may not set.
    """
    typed = keys_of(argument for argument in arguments if not argument.startswith("{"))
    expanded: list[str] = []
    for argument in arguments:
        expanded += _overrides_in(argument, typed) if argument.startswith("{") else [argument]
    return expanded


def _overrides_in(argument: str, typed: Collection[str]) -> list[str]:
    """The overrides in a server's JSON; what the person typed beside it wins."""
    try:
        document = json.loads(argument)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the argument {argument[:60]!r} is not valid JSON: {error}") from error
    values: dict[str, Any] = {}
    unknown, refused = [], []
    for key, value in document.items():
        option = BY_NAME.get(key.split(".")[0])
        if option is None:
            unknown += [] if key in {*RETIRED, *LOGGED, "_wandb"} else [key]
        elif key == "keras" and "." in str(value):
            continue  # the version that was loaded, as earlier versions logged it
        elif key in typed or (option.foreign == "nothing" and value == option.default):
            continue
        elif option.foreign == "nothing" or (key in _PATHS and not may_set(key, value)):
            refused.append(key)
        else:
            check_size(value, where=f"the JSON argument: {key}")
            values[key] = value
    if unknown:
        warn(f"ignored unknown options: {', '.join(unknown)}")
    if refused:
        warn(f"ignored {', '.join(refused)}: only your own command line may set it, as key=value")
    values = {key: value for key, value in flattened(values).items() if key not in typed}
    for key, value in values.items():
        check_value(key, value, where="the JSON argument")
    return overrides(values)


def trial_command(arguments: list[str]) -> int:
    """Validate the whole request, so that a mistake writes nothing; then let Hydra run it."""
    assignment = Assignment.take(os.environ)
    asked = _parsed(expand_json(arguments))
    if assignment.config_dir:
        asked.config_dir = Path(assignment.config_dir)
    if place := assignment.results_dir:
        others = (word for word in asked.overrides if key_of(word) != "results_dir")
        asked.overrides = [*others, *overrides({"results_dir": place})]
    if asked.hydra_help or asked.shell_completion:
        check_overrides(asked.overrides)
        return _show(asked)
    if asked.cfg or asked.info:
        compose_config(asked.overrides, config_dir=asked.config_dir)
        return _show(asked)
    return (_run_several if asked.multirun else _run_one)(asked, assignment)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The overrides, and the options of Hydra that can be used.

    Raises:
        ConfigError: an option is unknown, cannot be used here or does not go with another.
    """
    for word, following in itertools.pairwise([*arguments, "VALUE"]):
        option, _, value = word.partition("=")
        if option.startswith("-") and option not in {*_OPTIONS, *_OPTIONS.values()}:
            raise unknown_option(option, value or following, [*_OPTIONS, "--help", "--version"])
    parser = get_args_parser()
    parser.exit_on_error = False
    try:
        asked = parser.parse_intermixed_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from error
    asked.config_dir = None if asked.config_dir is None else folder_of(asked.config_dir)
    chosen = [
        name
        for name in ("multirun", "run", "hydra_help", "shell_completion", "cfg", "info")
        if getattr(asked, name)
    ]
    if asked.hydra_help and asked.overrides:
        raise ConfigError(f"--hydra-help: remove {' '.join(asked.overrides)}")
    orders = ("install=", "uninstall=", "query=")
    if asked.shell_completion and not any(word.startswith(orders) for word in asked.overrides):
        raise ConfigError(
            "--shell-completion: expected install=SHELL, uninstall=SHELL or query=SHELL"
        )
    if len(chosen) > 1 or (asked.resolve and not asked.cfg):
        given = [f"--{name.replace('_', '-')}" for name in chosen]
        raise ConfigError(
            f"{' and '.join(given) or '--resolve'}: give one of them; --resolve goes with --cfg"
        )
    return asked


def _check(jobs: Sequence[_Job], assignment: Assignment) -> None:
    """Check, before any runs, that each trial can be measured and kept."""
    for name in {job.settings.tracker.name for job in jobs}:
        tracker_named(name).require()
    prepared = [job.prepared for job in jobs]
    if len(jobs) > 1:
        from xla_sweeps.trial import runner

        for each in prepared:
            runner.check_free(each, assignment)
    remarks = (line for job in jobs for line in remarks_of(job.document, job.settings.trial))
    warn(*remarks, *filter(None, [without_leases()]))
    if dropped := dropped_flags(os.environ):
        warn(f"ignored {' '.join(dropped)}: a trial's flags name no files and hold no secrets")


def _show(asked: argparse.Namespace) -> int:
    """Let Hydra's own command line print what was asked for; it runs nothing."""
    if "query=bash" in asked.overrides and _completes_words(os.environ.get("COMP_LINE", "")):
        return 0
    asked.overrides = list(map(full_key, asked.overrides))
    version.setbase("1.3")
    saved, sys.argv = sys.argv, ["xla-sweeps"]  # the name in the script of a shell's completion
    try:
        _run_hydra(
            args=asked,
            args_parser=get_args_parser(),
            task_function=lambda config: None,
            config_path=str(catalog.conf_dir()),
            config_name="config",
        )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.argv = saved
    return 0


def _completes_words(line: str) -> bool:
    """True if a shell completes a command's own words, which Hydra would complain about.

    For the first word, it prints the commands beside Hydra's options.
    """
    words = line.split()
    if len(words) <= 1 or (len(words) == 2 and not line.endswith(" ")):
        print(*COMMANDS)
        return False
    return words[1] in COMMANDS


def _run_one(asked: argparse.Namespace, assignment: Assignment) -> int:
    """Compose one trial, check it, and run it as Hydra does."""
    document, run = composed(asked.overrides, config_dir=asked.config_dir)
    job = _Job(tuple(asked.overrides), document, asked.config_dir)
    _check([job], assignment)
    with _hydra_output(asked, [job]):
        code, _ = run(lambda config: _ended(job, assignment, ""))
    return int(code)


def _run_several(asked: argparse.Namespace, assignment: Assignment) -> int:
    """Compose and check every trial, and have Hydra's launcher run them, here or elsewhere."""
    each = choices(asked.overrides, asked.config_dir)
    jobs = [
        _Job(words, compose_config(words, config_dir=asked.config_dir), asked.config_dir)
        for words in itertools.product(*each)
    ]
    asked.overrides = [
        ",".join((first, *(word.partition("=")[2] for word in others))) for first, *others in each
    ]
    _check(jobs, assignment)
    ended: list[_End] = []

    def task(config: DictConfig) -> _End:
        number = int(HydraConfig.get().job.num)
        end = _ended(jobs[number], assignment, f"{number + 1} of {len(jobs)}")
        ended.append(end)
        if end[0] >= 128:
            sys.exit(end[0])
        return end

    os.environ["PYTHONSAFEPATH"] = "1"  # for the processes of a launcher of Hydra's
    code, words = 0, [*map(full_key, asked.overrides), "hydra.mode=MULTIRUN"]
    try:
        with _hydra_output(asked, jobs), composing(asked.config_dir) as (own, further):
            batches = own.multirun("config", task, [*words, *further])
            ended = [job.return_value for batch in batches for job in batch]
    except SystemExit as stop:
        code = int(stop.code or 0)
    measured = [trial_id for _, trial_id in ended if trial_id]
    if len(measured) > 1:
        _show_all(jobs, measured)
    return max(code, *(end for end, _ in ended))


def _show_all(jobs: Sequence[_Job], trial_ids: Sequence[str]) -> None:
    """Show the headlines of these trials in their order, from the rows that they kept."""
    from xla_sweeps.report.terminal.sweep_summary import show_headlines
    from xla_sweeps.store import rows, table

    for folder in dict.fromkeys(Path(str(job.document["results_dir"])) for job in jobs):
        headlines = table.headlines(rows.load(folder).table, trial_ids)
        show_headlines(
            sorted(headlines, key=lambda row: trial_ids.index(row.trial.trial_id)), folder
        )


@contextlib.contextmanager
def _hydra_output(asked: argparse.Namespace, jobs: Sequence[_Job]) -> Iterator[None]:
    """Make the folders of Hydra's output, and say where it cannot be written.

    Raises:
        ConfigError: it cannot be written.
    """
    for folder in _hydra_folders(asked, jobs):
        folder_below(folder, "hydra")
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"Hydra's output folder cannot be written: {error.strerror}: {error.filename}; choose "
            "another, as in hydra.run.dir=DIR"
        ) from error


def _hydra_folders(asked: argparse.Namespace, jobs: Sequence[_Job]) -> set[Path]:
    """The results folders that Hydra's output goes below: none where another place was chosen."""
    if ("hydra.sweep.dir" if asked.multirun else "hydra.run.dir") in keys_of(asked.overrides):
        return set()
    folders = {Path(str(job.document["results_dir"])) for job in jobs}
    # with `-m results_dir=a,b` Hydra keeps what was asked for in the default one
    return folders if len(folders) == 1 else {*folders, Path(str(BY_NAME["results_dir"].default))}


def _ended(job: _Job, assignment: Assignment, part: str) -> _End:
    """Run one job to its end: an error ends this job and no other."""
    try:
        return _measure(job, assignment, part)
    except Exception as error:
        return complain(error, results_dir=Path(str(job.document.get("results_dir")))), ""


def _measure(job: _Job, assignment: Assignment, part: str) -> _End:
    """Run one trial, and show its result."""
    from xla_sweeps.report.json_progress import JsonProgress
    from xla_sweeps.report.terminal.tables import show_trial
    from xla_sweeps.report.terminal.trial_progress import TrialProgress
    from xla_sweeps.trial import runner
    from xla_sweeps.trial.neighbours import cause_of

    settings = job.settings
    told = JsonProgress(part=part) if settings.ui == "json" else None
    with told or TrialProgress(ui=settings.ui, part=part) as screen:
        result = runner.run_trial(
            settings,
            screen=screen,
            tracker=tracker_named(settings.tracker.name),
            assignment=assignment,
            prepared=None if part else job.prepared,  # a moment ago, unless others ran before it
        )
        for warning in result.tracking.warnings if result.tracking else ():
            screen.warn(warning)
        if result.exit_code >= 128:
            screen.warn(f"stopped; what was measured is saved. Resume with: {job.again}")
    if assignment.recorded:
        with Path(assignment.recorded).open("a", encoding="utf-8") as handle:
            handle.writelines(f"{path.resolve()}\n" for path in result.paths)

    def show() -> None:
        if result.summary is not None:
            others = "".join(map(cause_of, result.records[-1:]))
            show_trial(result.summary, places=_places(result, settings), others=others)

    if told is None:
        show()
    else:
        told.end(
            exit_code=result.exit_code,
            trial_id=result.trial_id,
            records=result.paths,
            logs=result.logs,
            summary=result.summary,
            show=show,
        )
    return result.exit_code, result.trial_id if result.summary else ""


def _places(result: TrialResult, settings: Settings) -> dict[str, str]:
    """Paths of the trial's files, and the command that shows it again."""
    places = {}
    if result.paths:
        more = f" and {len(result.paths) - 1} more" if len(result.paths) > 1 else ""
        places["record"] = f"{result.paths[0]}{more}"
    if result.logs:
        places["log"] = str(result.logs[-1])
    if result.tracking and result.tracking.place:
        place = result.tracking.place  # an address, or the absolute path of a folder
        below = Path(place).is_relative_to(Path.cwd())
        name = tracker_named(settings.tracker.name).title or settings.tracker.name
        places[name] = os.path.relpath(place) if below else place
    places["table"] = f"xla-sweeps results {shlex.quote(str(settings.results_dir))}"
    return places
