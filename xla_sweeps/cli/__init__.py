"""The command line: one module a command.

Each parses its arguments, calls, prints, and gives an exit code.
"""

from __future__ import annotations

import argparse
from typing import Any

from xla_sweeps.errors import ConfigError


def command_parser(name: str, description: str) -> argparse.ArgumentParser:
    """A parser whose errors are one line of ours."""

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise ConfigError(f"{name}: {message}; `xla-sweeps {name} --help` shows the usage")

    return Parser(prog=f"xla-sweeps {name}", description=description)
