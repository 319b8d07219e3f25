"""The command line: a first word without `=` is a command.

Without one, the arguments run a trial.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path

from xla_sweeps.cli import COMMANDS
from xla_sweeps.errors import ConfigError, StoreError
from xla_sweeps.system.process import Assignment
from xla_sweeps.system.streams import output_error
from xla_sweeps.version import __version__

_HELP = {"-h", "--help"}

_SHOWING = frozenset(COMMANDS) - {"sweep", "agents", "push"} | {"help", "--version"}
"""Commands that fail where their output is lost; the others have done what was asked for."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code.

    A user's mistake is one line on standard error. So is a defect of ours, whose traceback goes to
    a file.
    """
    try:
        for word in arguments:
            if not word.isascii() and word != word.encode("utf-8", "replace").decode():
                encoding = sys.getfilesystemencoding().upper()
                hint = "" if encoding == "UTF-8" else "; set PYTHONUTF8=1"
                raise ConfigError(f"the argument {word!r} is not valid {encoding}{hint}")
        try:
            Path.cwd()
        except OSError as error:
            raise ConfigError(f"the current folder cannot be used: {error.strerror}") from error
        try:
            code = _run(list(arguments))
        except SystemExit as end:  # of argparse's help
            code = end.code if isinstance(end.code, int) else 0
        lost = output_error()
        if lost:
            from xla_sweeps.report.terminal.console import complain

            refused = complain(StoreError(f"cannot write to standard output: {lost}"))
            shows = {*arguments[:1]} & _SHOWING or {*arguments} & _HELP
            return code or (refused if shows else 0)
        return code
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from xla_sweeps.report.terminal.console import complain

        return complain(error)


def _run(arguments: list[str]) -> int:
    first = arguments[0] if arguments else ""
    is_command = bool(first) and "=" not in first and not first.startswith(("-", "+", "~", "{"))
    if first in {*_HELP, "help"} or (not is_command and _HELP & set(arguments)):
        return _help()
    if not arguments:
        from xla_sweeps.cli.mistakes import print_usage

        return print_usage()
    if first == "--version":
        print(f"xla-sweeps {__version__}")
        return 0
    if is_command:
        if first not in COMMANDS:
            from xla_sweeps.cli.mistakes import unknown_command

            raise unknown_command(first)
        name = first.replace("-", "_")
        place = f"xla_sweeps.cli.{COMMANDS[first].module or name}:{name}_command"
        return int(pkgutil.resolve_name(place)(arguments[1:]))
    assignment = Assignment.of(os.environ)
    if assignment.shares:  # prepare without a processor while the agent's other trial measures
        from xla_sweeps.system.leases import share_from_start

        os.environ.update(share_from_start(assignment).environment())
    from xla_sweeps.cli.trial import trial_command

    return trial_command(arguments)


def _help() -> int:
    from xla_sweeps.config import catalog
    from xla_sweeps.report.terminal.help import help_text

    commands = [(f"{name} {each.arguments}".strip(), each.help) for name, each in COMMANDS.items()]
    print(help_text(catalog.load_catalog(), commands))
    return 0
