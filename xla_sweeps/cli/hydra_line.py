"""The command line of Hydra: the options that can be used here, what they show, its output."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hydra import version
from hydra._internal.utils import _run_hydra, get_args_parser

from xla_sweeps.cli import COMMANDS
from xla_sweeps.cli.mistakes import unknown_flag
from xla_sweeps.config import catalog
from xla_sweeps.config.compose import check_overrides, compose_config, full_key
from xla_sweeps.config.values import folder_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.options import BY_NAME
from xla_sweeps.schema.overrides import keys_of
from xla_sweeps.store.store import folder_below

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

_EXCLUSIVE = ("multirun", "run", "hydra_help", "shell_completion", "cfg", "info")

_COMPLETIONS = ("install=", "uninstall=", "query=")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The overrides, and the options of Hydra; a `ConfigError` for one that cannot be used."""
    for word, following in itertools.pairwise([*arguments, "VALUE"]):
        option, _, value = word.partition("=")
        if option.startswith("-") and option not in {*_OPTIONS, *_OPTIONS.values()}:
            raise unknown_flag(option, value or following, [*_OPTIONS, "--help", "--version"])
    parser = get_args_parser()
    parser.exit_on_error = False
    try:
        asked = parser.parse_intermixed_args(list(arguments))
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from error
    asked.config_dir = None if asked.config_dir is None else folder_of(asked.config_dir)
    if asked.hydra_help and asked.overrides:
        raise ConfigError(f"--hydra-help: remove {' '.join(asked.overrides)}")
    if asked.shell_completion and not any(map(_is_completion, asked.overrides)):
        raise ConfigError("--shell-completion: give install=SHELL, uninstall=SHELL or query=SHELL")
    chosen = [f"--{name.replace('_', '-')}" for name in _EXCLUSIVE if getattr(asked, name)]
    if len(chosen) > 1 or (asked.resolve and not asked.cfg):
        raise ConfigError(
            f"{' and '.join(chosen) or '--resolve'}: give one of them; --resolve goes with --cfg"
        )
    return asked


def _is_completion(word: str) -> bool:
    return word.startswith(_COMPLETIONS)


def shows(asked: argparse.Namespace) -> bool:
    """True if the options ask to show something, which is checked first; nothing then runs."""
    if asked.hydra_help or asked.shell_completion:
        check_overrides(asked.overrides)
    elif asked.cfg or asked.info:
        compose_config(asked.overrides, config_dir=asked.config_dir)
    else:
        return False
    return True


def show(asked: argparse.Namespace) -> int:
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
        why = f"{error.strerror}: {error.filename}; choose another, as in hydra.run.dir=DIR"
        raise ConfigError(f"Hydra's output folder cannot be written: {why}") from error
