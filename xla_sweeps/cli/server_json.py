"""Overrides that a W&B server sends as JSON (`${args_json}`): what it may set, and what is ignored.

On a resumed run W&B passes all that was ever logged as config.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from xla_sweeps.config.foreign import check_size, check_value, may_set
from xla_sweeps.errors import ConfigError
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.schema.options import BY_NAME, LOGGED
from xla_sweeps.schema.overrides import flatten, keys_of, overrides

_PATHS = ("weights", "data")
"""Options that a server may set to a name, and a person to a path."""


def expand_json(arguments: Sequence[str]) -> list[str]:
    """Replace an argument that is a JSON object by the overrides it holds.

    None becomes `null`, strings are quoted and nested keys become flat. Unknown options and those
    that a server may not set are ignored with a warning; what is no JSON, or a value that a server
    may not set, is a `ConfigError`.
    """
    typed = keys_of(argument for argument in arguments if not argument.startswith("{"))
    expanded: list[str] = []
    for argument in arguments:
        expanded += _overrides_in(argument, typed) if argument.startswith("{") else [argument]
    return expanded


def _overrides_in(argument: str, typed: Collection[str]) -> list[str]:
    """The overrides in a server's JSON; what the person typed beside it wins."""
    try:
        document = json.loads(argument)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the argument {argument[:60]!r} is not valid JSON: {error}") from error
    values: dict[str, Any] = {}
    unknown, refused = [], []
    for key, value in document.items():
        option = BY_NAME.get(key.split(".")[0])
        if option is None:
            unknown += [] if key in {*LOGGED, "_wandb"} else [key]
        elif key in typed or (option.foreign == "nothing" and value == option.default):
            continue
        elif option.foreign == "nothing" or (key in _PATHS and not may_set(key, value)):
            refused.append(key)
        else:
            check_size(value, where=f"the JSON argument: {key}")
            values[key] = value
    if unknown:
        warn(f"ignored unknown options: {', '.join(unknown)}")
    if refused:
        warn(f"ignored {', '.join(refused)}: only your own command line may set it, as key=value")
    values = {key: value for key, value in flatten(values).items() if key not in typed}
    for key, value in values.items():
        check_value(key, value, where="the JSON argument")
    return overrides(values)
