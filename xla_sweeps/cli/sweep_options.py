"""The options of the command `sweep`: read from its arguments, and written as arguments again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xla_sweeps.cli import command_parser
from xla_sweeps.config import catalog
from xla_sweeps.config.combinations import MAX_TRIALS
from xla_sweeps.config.values import folder_of, path_of
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.measurement import Status
from xla_sweeps.sweep import launchers

_OPTIONS_OF_LAUNCHERS = {
    "devices": ("local", "wandb"),
    "address": ("ray",),
    "slurm": ("slurm",),
    "chunk": ("slurm",),
    "slots": ("ray", "slurm"),
    "accept_contaminated": ("local", "ray", "slurm"),
    "fresh_processes": ("local",),
}
"""Options of `sweep` that only some launchers accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `xla-sweeps sweep`.

    Attributes:
        overrides: `key=value` for every trial; they win over the definition.
        config_dir: a further folder of configuration files for every trial.
        launcher: `local`, `ray` or `slurm`.
        retry: statuses whose records do not count.
        rerun: a column of `results` and the value whose trials get one more replicate.
        accept_contaminated: whether contaminated replicates count as measured.
        fresh_processes: whether no measuring process is forked from one that has loaded TensorFlow.
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
    accept_contaminated: bool = False
    fresh_processes: bool = False
    address: str | None = None
    slurm: Mapping[str, str] | None = None
    chunk: int = 1
    slots: int = 1000

    @property
    def accepted(self) -> tuple[Status, ...]:
        """Statuses of the replicates that count as measured."""
        return (Status.OK, Status.CONTAMINATED) if self.accept_contaminated else (Status.OK,)


def options_of(arguments: Sequence[str]) -> Options:
    """The options that these arguments of `sweep` give.

    Raises:
        ConfigError: an argument is wrong.
    """
    parser = command_parser(
        "sweep",
        "The definition is in W&B's format. Run it again to measure exactly what is missing.",
    )
    _add_trials(parser.add_argument)
    _add_again(parser.add_argument)
    _add_launching(parser.add_argument)
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
        accept_contaminated=options.accept_contaminated,
        fresh_processes=options.fresh_processes,
        address=options.address,
        slurm=dict(_pair(text, "--slurm") for text in options.slurm),
        chunk=max(1, options.chunk),
        slots=max(1, options.slots),
    )


def _add_trials(add: Callable[..., object]) -> None:
    """Add what says which trials there are."""
    add("file", type=_definition, help="the definition: a file, or a name that --list shows")
    add(
        "overrides", nargs="*", default=(), help="key=value for every trial; they win over the file"
    )
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


def _add_again(add: Callable[..., object]) -> None:
    """Add what says which trials are measured again."""
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
    add(
        "--accept-contaminated",
        action="store_true",
        help="keep contaminated trials instead of measuring them again",
    )


def _add_launching(add: Callable[..., object]) -> None:
    """Add what says where trials run, and how."""
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
        "--fresh-processes",
        action="store_true",
        help="local: load TensorFlow for each trial, also at effort=quick, which else forks them",
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


def _definition(given: str) -> Path:
    """A file; or one of those that come with the package, by its name."""
    known, path = catalog.shipped_sweeps(), path_of(given)
    if (path.exists() and not path.is_dir()) or path.suffix or path.name != given:
        return path
    if given not in known:
        raise unknown_name("sweep", given, known)
    return known[given]


def _check_launcher(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse an option that the chosen launcher does not accept."""
    for name, fitting in _OPTIONS_OF_LAUNCHERS.items():
        if getattr(options, name) != parser.get_default(name) and options.launcher not in fitting:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(
                f"{option} is for --launcher {' or '.join(fitting)}, not for {options.launcher}"
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
    words += ["--accept-contaminated"] if options.accept_contaminated else []
    words += ["--fresh-processes"] if options.fresh_processes else []
    for key, value in (options.slurm or {}).items():
        words += ["--slurm", f"{key}={value}"]
    for status in options.retry:
        words += ["--retry", str(status)]
    return words + (["--rerun", "=".join(options.rerun)] if options.rerun else [])


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
