"""Arguments that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from xla_sweeps.config.values import folder_of, path_of
from xla_sweeps.errors import ConfigError


def add_model(parser: argparse.ArgumentParser, *, overrides: str) -> None:
    """Add the model, and the form and place of the answer.

    Args:
        parser: of the command.
        overrides: help on the overrides.
    """
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=overrides)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument(
        "-o", "--output", type=path_of, help="file to write to (default: standard output)"
    )
    parser.add_argument(
        "--config-dir", type=folder_of, help="a further folder of configuration files"
    )


def require_model(command: str, overrides: Sequence[str]) -> None:
    """Refuse words that are no overrides, and a request without a model.

    Raises:
        ConfigError: with an example.
    """
    for word in overrides:
        if "=" not in word:
            raise ConfigError(f"{command}: '{word}': expected KEY=VALUE, as in model={word}")
    if not any(word.lstrip("+").startswith("model=") for word in overrides):
        raise ConfigError(
            f"{command}: name a model, as in `xla-sweeps {command} model=mobilenet_v2`"
        )
