"""The command line of Hydra: the options that can be used here, what they show, its output."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hydra._internal.utils import get_args_parser

from xla_sweeps.cli import COMMANDS
from xla_sweeps.cli.mistakes import unknown_flag
from xla_sweeps.config.compose import check_overrides, compose_config, composing
from xla_sweeps.config.foreign import is_name
from xla_sweeps.config.own_folder import CONFIG, OwnFolder
from xla_sweeps.config.settings import settings_of
from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.options import BY_NAME
from xla_sweeps.schema.overrides import keys_of
from xla_sweeps.store.store import folder_below

_OPTIONS = ("--multirun", "--cfg", "--config-dir", "--trust-config", "--config-name", "--dry-run")
"""Options that can be used here.

The others of Hydra would read other files as configuration, or run what they hold.
"""

_UNLISTED = (
    *("-m", "-c", "-cd", "-cn", "-r", "-i", "-sc"),
    *("--run", "--resolve", "--info", "--hydra-help", "--shell-completion"),
)
"""Short forms, and further options for who knows Hydra, which no message lists."""

_EXCLUSIVE = ("multirun", "run", "hydra_help", "shell_completion", "cfg", "info")

_COMPLETIONS = ("install=", "uninstall=", "query=")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The overrides, and the options of Hydra; a `ConfigError` for one that cannot be used."""
    for word, following in itertools.pairwise([*arguments, "VALUE"]):
        option, _, value = word.partition("=")
        if option.startswith("-") and option not in (*_OPTIONS, *_UNLISTED):
            raise unknown_flag(option, value or following, [*_OPTIONS, "--help", "--version"])
    parser = get_args_parser()
    parser.exit_on_error = False
    parser.add_argument("--trust-config")
    parser.add_argument("--dry-run", action="store_true")
    try:
        asked = parser.parse_intermixed_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from error
    asked.config_dir = _folder_of(asked)
    words = asked.overrides
    if asked.hydra_help and words:
        raise ConfigError(f"--hydra-help: remove {' '.join(words)}")
    if asked.shell_completion and not any(word.startswith(_COMPLETIONS) for word in words):
        raise ConfigError("--shell-completion: give install=SHELL, uninstall=SHELL or query=SHELL")
    if any(word.startswith("query=") for word in words) and "COMP_LINE" not in os.environ:
        raise ConfigError("--shell-completion query=SHELL: for shells only (COMP_LINE is not set)")
    chosen = [f"--{name.replace('_', '-')}" for name in _EXCLUSIVE if getattr(asked, name)]
    if asked.dry_run and {*chosen} - {"--multirun", "--run"}:
        chosen.append("--dry-run")
    if len(chosen) > 1 or (asked.resolve and not asked.cfg):
        raise ConfigError(
            f"{' and '.join(chosen) or '--resolve'}: give one of them; --resolve goes with --cfg"
        )
    return asked


def _folder_of(asked: argparse.Namespace) -> OwnFolder | None:
    """The folder of configuration, and the file in it that is composed first."""
    place, trusted = asked.config_dir, asked.trust_config
    if place is not None and trusted is not None:
        raise ConfigError("--config-dir and --trust-config: give one of them")
    if asked.config_name is not None and not all(map(is_name, asked.config_name.split("/"))):
        raise ConfigError(f"--config-name {asked.config_name}: expected the name of a file")
    if place is None and trusted is None:
        if asked.config_name in (None, CONFIG):
            return None
        name = f"--config-name {asked.config_name}"
        raise ConfigError(f"{name}: name its folder too: --config-dir DIR or --trust-config DIR")
    path = folder_of(trusted if place is None else place)
    return OwnFolder(path, place is None, asked.config_name or CONFIG)


def show(asked: argparse.Namespace) -> bool:
    """Let Hydra's own command line print what the options ask to show; False if they do not.

    It is checked first, and runs nothing: a configuration is printed only if a trial of it would be
    measured.
    """
    words = asked.overrides
    if asked.hydra_help or asked.shell_completion:
        check_overrides(words)
    elif asked.cfg or asked.info:
        document = compose_config(words, config_dir=asked.config_dir)
        if asked.cfg:
            settings_of(document, explicit=keys_of(words))
    else:
        return False
    if "query=bash" in words and _completes_words(os.environ["COMP_LINE"]):
        return True
    saved, sys.argv = sys.argv, ["xla-sweeps"]  # the name in the script of a shell's completion
    try:
        with composing(asked.config_dir) as (hydra, name):
            if asked.hydra_help:
                hydra.hydra_help(config_name=name, args_parser=get_args_parser(), args=asked)
            elif asked.cfg:
                hydra.show_cfg(name, words, asked.cfg, package=None, resolve=asked.resolve)
            elif asked.info:
                hydra.show_info(asked.info, name, words)
            else:
                hydra.shell_completion(name, words)
    finally:
        sys.argv = saved
    return True


def _completes_words(line: str) -> bool:
    """True if a shell completes a command's own words, which Hydra would complain about.

    For the first word, it prints the commands beside Hydra's options.
    """
    words = line.split()
    if len(words) <= 1 or (len(words) == 2 and not line.endswith(" ")):
        print(*COMMANDS)
        return False
    return words[1] in COMMANDS


@contextlib.contextmanager
def output_below(asked: argparse.Namespace, results_dirs: Iterable[Path]) -> Iterator[None]:
    """Make the folders of Hydra's output in the results folders of the trials.

    None is made where another place was chosen. A `ConfigError` says that one cannot be written.
    """
    folders = {*results_dirs}
    if len(folders) > 1:  # with `-m results_dir=a,b` Hydra keeps the request in the default one
        folders.add(Path(str(BY_NAME["results_dir"].default)))
    if ("hydra.sweep.dir" if asked.multirun else "hydra.run.dir") not in keys_of(asked.overrides):
        for folder in folders:
            folder_below(folder, "hydra")
    try:
        yield
    except OSError as error:
        why = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        wrong = f"Hydra's output folder cannot be written: {why}"
        raise ConfigError(f"{wrong}; choose another, as in hydra.run.dir=DIR") from error
