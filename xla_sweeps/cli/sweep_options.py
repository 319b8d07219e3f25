"""The options of the command `sweep`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xla_sweeps.cli.arguments import add_config_dir, command_parser
from xla_sweeps.config import catalog
from xla_sweeps.config.combinations import MAX_TRIALS
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.values import path_of
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.measurement import Status
from xla_sweeps.sweeps.launchers import Launcher, key_and_value, launchers

DEVICE = "device="


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `xla-sweeps sweep`.

    Attributes:
        overrides: `key=value` for every trial; they win over the definition.
        launching: the launcher's own options that were given, by name.
        retry: statuses whose records do not count.
        rerun: a column of `results` and the value whose trials get one more replicate.
    """

    file: Path
    overrides: Sequence[str] = ()
    config_dir: OwnFolder | None = None
    launcher: str = "local"
    launching: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    max_trials: int = MAX_TRIALS
    seed: int = 0
    retry: Sequence[Status] = ()
    rerun: tuple[str, str] | None = None
    accept_contaminated: bool = False

    @property
    def kind(self) -> type[Launcher]:
        """The launcher's class."""
        return launchers()[self.launcher]

    @property
    def device(self) -> str | None:
        """The device among the overrides."""
        given = (word for word in self.overrides if word.startswith(DEVICE))
        return next((word.removeprefix(DEVICE) for word in given), None)

    @property
    def devices(self) -> str | None:
        """The devices of this machine that were asked for."""
        return self.launching.get("devices")

    @property
    def accepted(self) -> tuple[Status, ...]:
        """Statuses of the replicates that count as measured."""
        return (Status.OK, Status.CONTAMINATED) if self.accept_contaminated else (Status.OK,)


def options_of(arguments: Sequence[str]) -> Options:
    """The options that these arguments of `sweep` give."""
    parser = command_parser(
        "sweep",
        "The definition is in W&B's format. Run it again to measure exactly what is missing.",
    )
    _add_trials(parser)
    accepting = _add_launching(parser)
    given = vars(parser.parse_intermixed_args(arguments))
    del given["list"]
    keys = {name: name.replace("-", "_") for name in accepting}
    launching = {name: given.pop(key) for name, key in keys.items() if key in given}
    driving = [name for name, kind in launchers().items() if kind.driven]
    limited = {name: accepting[name] for name in launching}
    limited |= {"accept-contaminated": driving} if given["accept_contaminated"] else {}
    for name, allowed in limited.items():
        if given["launcher"] not in allowed:
            raise ConfigError(
                f"--{name} is for --launcher {' or '.join(allowed)}, not for {given['launcher']}"
            )
    return Options(**given, launching=launching)


def _add_trials(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the trials, and those to measure again."""
    add = parser.add_argument
    add("file", type=_definition, help="the definition: a file, or a name that --list shows")
    every = "key=value for every trial, in place of the file's"
    add("overrides", nargs="*", default=(), help=every)
    dry = "print the commands and how many there are; run nothing"
    add("--dry-run", action="store_true", help=dry)
    most = f"the most trials to accept (default: {MAX_TRIALS})"
    add("--max-trials", type=int, default=MAX_TRIALS, help=most)
    add("--list", action="store_true", help="list the definitions that come with the package")
    add_config_dir(parser)
    add("--seed", type=int, default=0, help="seed of a random or bayes search (default: 0)")
    text = "measure trials of this status again (repeatable)"
    add("--retry", action="append", type=_status, default=[], metavar="STATUS", help=text)
    text = "one more replicate for matching rows of `results`, as in verdict=ambiguous"
    add("--rerun", type=key_and_value, metavar="COLUMN=VALUE", help=text)
    text = "keep contaminated trials instead of measuring them again"
    add("--accept-contaminated", action="store_true", help=text)


def _add_launching(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Add the options of launchers; returns the names of the launchers that accept each."""
    text = "where trials run (default: local)"
    parser.add_argument("--launcher", choices=launchers(), default="local", help=text)
    declared: dict[str, Mapping[str, Any]] = {}
    accepting: dict[str, list[str]] = {}
    for launcher, kind in launchers().items():
        declared |= kind.options
        for name in kind.options:
            accepting.setdefault(name, []).append(launcher)
    for name, option in declared.items():
        text = f"{', '.join(accepting[name])}: {option['help']}"
        parser.add_argument(f"--{name}", **{**option, "default": argparse.SUPPRESS, "help": text})
    return accepting


def _definition(given: str) -> Path:
    """A file; or one of those that come with the package, by its name."""
    shipped, path = catalog.shipped_sweeps(), path_of(given)
    if (path.exists() and not path.is_dir()) or path.suffix or path.name != given:
        return path
    if given not in shipped:
        for suffix in (".yaml", ".yml"):
            if path.with_name(given + suffix).is_file():
                raise ConfigError(f"sweep {given}: a file is named in full: {given}{suffix}")
        raise unknown_name("sweep", given, shipped, lister="xla-sweeps sweep --list")
    return shipped[given]


def _status(word: str) -> Status:
    names = [str(status) for status in Status]
    if word not in names:
        raise unknown_name("status", word, names, listed=len(names))
    return Status(word)
