"""The command line: a first word without `=` is a command.

Without one, the arguments run a trial.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Sequence

from xla_sweeps import __version__
from xla_sweeps.cli import COMMANDS
from xla_sweeps.errors import XlaSweepsError, unknown_name


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code.

    Users' mistakes are one line on standard error.
    """
    try:
        first = arguments[0] if arguments else ""
        if first in ("-h", "--help") or (
            arguments and not _is_command(first) and {"-h", "--help"} & set(arguments)
        ):
            return _help()
        if first == "--version":
            print(f"xla-sweeps {__version__}")
            return 0
        if _is_command(first):
            if first not in COMMANDS:
                raise unknown_name("command", first, COMMANDS)
            return int(pkgutil.resolve_name(COMMANDS[first].function)(arguments[1:]))
        from xla_sweeps.cli.trial import trial_command

        return trial_command(list(arguments))
    except XlaSweepsError as error:
        from xla_sweeps.report.terminal.console import complain

        return complain(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _is_command(word: str) -> bool:
    return bool(word) and "=" not in word and not word.startswith(("-", "+", "~", "{"))


def _help() -> int:
    from xla_sweeps.config import catalog
    from xla_sweeps.report.terminal.help import help_text

    commands = [(command.usage, command.help) for command in COMMANDS.values()]
    print(help_text(catalog.load_catalog(), commands))
    return 0
