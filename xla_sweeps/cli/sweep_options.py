"""The options of the command `sweep`: read from its arguments, and written as arguments again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xla_sweeps.cli import command_parser
from xla_sweeps.cli.arguments import add_accept_contaminated, add_config_dir
from xla_sweeps.config import catalog
from xla_sweeps.config.combinations import MAX_TRIALS
from xla_sweeps.config.values import path_of
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.measurement import Status
from xla_sweeps.sweep.launchers import LAUNCHERS, Entry, launchers_by_option


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `xla-sweeps sweep`.

    Attributes:
        overrides: `key=value` for every trial; they win over the definition.
        config_dir: a further folder of configuration files for every trial.
        launcher: a name in `LAUNCHERS`.
        launching: the options that this launcher accepts, by name.
        retry: statuses whose records do not count.
        rerun: a column of `results` and the value whose trials get one more replicate.
        accept_contaminated: whether contaminated replicates count as measured.
    """

    path: Path
    overrides: tuple[str, ...] = ()
    config_dir: Path | None = None
    launcher: str = "local"
    launching: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    max_trials: int = MAX_TRIALS
    seed: int = 0
    retry: tuple[Status, ...] = ()
    rerun: tuple[str, str] | None = None
    accept_contaminated: bool = False

    @property
    def entry(self) -> Entry:
        """The launcher's declaration."""
        return LAUNCHERS[self.launcher]

    @property
    def devices(self) -> str | None:
        """The devices of this machine that were asked for."""
        return self.launching.get("devices")

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
    _add_trials(parser)
    _add_again(parser)
    _add_launching(parser.add_argument)
    options = parser.parse_intermixed_args(arguments)
    _check_launcher(options)
    return Options(
        path=options.file,
        overrides=tuple(options.overrides),
        config_dir=options.config_dir,
        launcher=options.launcher,
        launching=_launching(options),
        dry_run=options.dry_run,
        max_trials=options.max_trials,
        seed=options.seed,
        retry=_statuses(options.retry),
        rerun=_pair(options.rerun, "--rerun") if options.rerun else None,
        accept_contaminated=options.accept_contaminated,
    )


def _add_trials(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the trials."""
    add = parser.add_argument
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
    add_config_dir(parser)
    add("--seed", type=int, default=0, help="of a random or bayes search (default: 0)")


def _add_again(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose trials to measure again."""
    add = parser.add_argument
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
    add_accept_contaminated(parser)


def _add_launching(add: Callable[..., object]) -> None:
    """Add the options of launchers."""
    add("--launcher", choices=LAUNCHERS, default="local", help="where trials run (default: local)")
    for option, names in launchers_by_option().items():
        words = f"{', '.join(names)}: {option.help}"
        if option.default is False:
            add(option.flag, action="store_true", help=words)
        elif option.default == ():
            add(option.flag, action="append", default=[], metavar=option.metavar, help=words)
        else:
            kind = str if option.default is None else int
            default, metavar = option.default, option.metavar
            add(option.flag, type=kind, default=default, metavar=metavar, help=words)


def _definition(given: str) -> Path:
    """A file; or one of those that come with the package, by its name."""
    shipped, path = catalog.shipped_sweeps(), path_of(given)
    if (path.exists() and not path.is_dir()) or path.suffix or path.name != given:
        return path
    if given not in shipped:
        raise unknown_name("sweep", given, shipped)
    return shipped[given]


def _check_launcher(options: argparse.Namespace) -> None:
    """Refuse an option that the chosen launcher does not accept."""
    driving = [name for name, entry in LAUNCHERS.items() if entry.module]
    accepting = [
        ("--accept-contaminated", driving, options.accept_contaminated),
        *(
            (option.flag, names, getattr(options, option.name) not in (option.default, []))
            for option, names in launchers_by_option().items()
        ),
    ]
    for flag, names, given in accepting:
        if given and options.launcher not in names:
            raise ConfigError(
                f"{flag} is for --launcher {' or '.join(names)}, not for {options.launcher}"
            )


def _launching(options: argparse.Namespace) -> dict[str, Any]:
    """The values of the chosen launcher's options."""
    values = {}
    for option in LAUNCHERS[options.launcher].options:
        value = getattr(options, option.name)
        if option.default == ():
            value = dict(_pair(text, option.flag) for text in value)
        elif isinstance(value, int) and option.default is not False:
            value = max(1, value)
        values[option.name] = value
    return values


def resume_words(options: Options) -> list[str]:
    """The arguments that resume the sweep: those that gave these options."""
    words = ["sweep", str(options.path), *options.overrides]
    defaults = Options(path=options.path)
    for name in ("config_dir", "launcher", "seed", "max_trials"):
        if getattr(options, name) != getattr(defaults, name):
            words += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    words += ["--accept-contaminated"] if options.accept_contaminated else []
    for option in options.entry.options:
        value = options.launching.get(option.name, option.default)
        if isinstance(value, Mapping):
            words += [word for key in value for word in (option.flag, f"{key}={value[key]}")]
        elif value != option.default:
            words += [option.flag] if option.default is False else [option.flag, str(value)]
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
