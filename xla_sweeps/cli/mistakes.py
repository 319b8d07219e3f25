"""What a person may have meant by words that are no command and no option."""

from __future__ import annotations

import difflib
import sys
import textwrap

from xla_sweeps.cli import COMMANDS
from xla_sweeps.config import catalog
from xla_sweeps.config.own_files import own_model_hint
from xla_sweeps.errors import USAGE_CODE, ConfigError, did_you_mean, unknown_name
from xla_sweeps.schema.options import NAMES


def print_usage() -> int:
    """Print what may follow the program's name; returns the exit code: nothing was asked for."""
    commands = textwrap.fill(
        f"commands: {', '.join(COMMANDS)}", 80, break_on_hyphens=False, subsequent_indent=" " * 10
    )
    print(
        "usage: xla-sweeps model=NAME [key=value ...]    measure a model\n"
        f"       xla-sweeps COMMAND [...]\n{commands}\n"
        "as in: xla-sweeps model=mobilenet_v2 resolution=96\n"
        "`xla-sweeps --help` lists all options, commands and models.",
        file=sys.stderr,
    )
    return USAGE_CODE


def unknown_command(given: str) -> ConfigError:
    """Error for a first word that is no command; it may be a model."""
    commands, models = [*COMMANDS, "help"], catalog.names()
    near = difflib.get_close_matches(given.lower(), [*commands, *models], n=1, cutoff=0.5)
    hint = own_model_hint(given)
    if not hint and near and near[0] not in commands:
        hint = did_you_mean(given, [f"model={models[near[0]]}"]).strip()
    if hint:
        return ConfigError(f"unknown command '{given}'. {hint} `xla-sweeps --help` lists them all.")
    return unknown_name("command", given, commands, lister="xla-sweeps --help")


def unknown_flag(option: str, value: str, options: list[str]) -> ConfigError:
    """Error for a word that begins with a dash; it may be a key of the configuration.

    `option` is the word up to its `=`, `value` what followed, and `options` those that there are.
    """
    group, dot, inner = option.lstrip("-").replace("-", "_").partition(".")
    if near := difflib.get_close_matches(group, NAMES, n=1, cutoff=0.8):
        return ConfigError(f"{option}: write it without dashes: {near[0]}{dot}{inner}={value}")
    return unknown_name("option", option, options)
