"""The command line: a first word without `=` is a command.

Without one, the arguments run a trial.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Sequence

from xla_sweeps import __version__
from xla_sweeps.errors import XlaSweepsError, unknown_name

COMMANDS = {
    "sweep": "xla_sweeps.cli.sweep:sweep_command",
    "agents": "xla_sweeps.cli.sweep:agents_command",
    "results": "xla_sweeps.cli.results:results_command",
    "dashboard": "xla_sweeps.cli.dashboard:dashboard_command",
    "import": "xla_sweeps.cli.results:import_command",
    "compare": "xla_sweeps.cli.compare:compare_command",
    "models": "xla_sweeps.cli.models:models_command",
    "hub-replicas": "xla_sweeps.cli.models:hub_replicas_command",
    "doctor": "xla_sweeps.cli.doctor:doctor_command",
    "push": "xla_sweeps.cli.results:push_command",
    "report": "xla_sweeps.cli.dashboard:report_command",
    "check": "xla_sweeps.cli.check:check_command",
}
"""Where each command is; imported when it is run, so that none waits for the imports of another."""


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
            return int(pkgutil.resolve_name(COMMANDS[first])(arguments[1:]))
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

    print(help_text(catalog.load_catalog()))
    return 0
