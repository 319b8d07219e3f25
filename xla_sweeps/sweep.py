"""From a sweep definition in W&B's own format to the list of commands it stands for. Pure: the file is read elsewhere.

Grid and random search over flat parameters; what W&B alone can do (bayes, distributions that need its server) is
refused with a word.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.errors import ConfigError, unknown_name

METHODS = ("grid", "random")
KEYS = ("method", "name", "description", "metric", "parameters", "command", "program", "run_cap", "project", "entity")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_BEFORE_QUOTE = re.compile(r"(\\+)(?='|$)")
"""Backslashes that Hydra's grammar would read as escaping a quote; elsewhere they stand for themselves."""

_PARAMETER_KEYS = ("value", "values", "min", "max", "distribution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep definition, checked.

    Attributes:
        parameters: the values that each flat key takes, in the order of the file.
        run_cap: the most trials, or None; a random search needs one.
    """

    name: str
    method: str
    parameters: Mapping[str, tuple[Any, ...]]
    run_cap: int | None

    @property
    def combinations(self) -> int:
        """How many combinations of values there are; counted, not expanded."""
        return math.prod(len(values) for values in self.parameters.values())

    @property
    def trials(self) -> int:
        """How many trials the sweep stands for."""
        if self.method == "random":
            return self.run_cap or 0
        return min(self.combinations, self.run_cap) if self.run_cap else self.combinations


def parse_sweep(document: Any, *, where: str) -> Sweep:
    """Check a definition.

    Args:
        document: the file's content as plain data.
        where: its name, for errors.

    Raises:
        ConfigError: one line with place and mend.
    """
    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: a sweep definition is a mapping with method and parameters")
    for key in document:
        if key not in KEYS:
            raise ConfigError(f"{where}: {unknown_name('key', str(key), KEYS)}")
    method = document.get("method")
    if method not in METHODS:
        raise ConfigError(f"{where}: {unknown_name('method', str(method), METHODS)} Others need W&B's own agents.")
    parameters = document.get("parameters")
    if not isinstance(parameters, Mapping) or not parameters:
        raise ConfigError(f"{where}: parameters: name at least one, as in model: {{values: [resnet50, vgg16]}}")
    run_cap = document.get("run_cap")
    if run_cap is not None and (isinstance(run_cap, bool) or not isinstance(run_cap, int) or run_cap < 1):
        raise ConfigError(f"{where}: run_cap={run_cap}: a whole number above 0 is needed")
    if method == "random" and run_cap is None:
        raise ConfigError(f"{where}: method random needs run_cap, the number of trials")
    return Sweep(
        name=str(document.get("name") or where.rpartition("/")[2].rpartition(".")[0]),
        method=str(method),
        parameters={str(key): _values(value, f"{where}: parameters.{key}") for key, value in parameters.items()},
        run_cap=run_cap,
    )


def expand(sweep: Sweep, *, seed: int = 0) -> Iterator[list[str]]:
    """The overrides of each trial, in order: all combinations, or random ones without repetition."""
    keys = list(sweep.parameters)
    if sweep.method == "grid":
        combinations: Iterator[tuple[Any, ...]] = itertools.product(*sweep.parameters.values())
        for combination in itertools.islice(combinations, sweep.trials):
            yield overrides(dict(zip(keys, combination, strict=True)))
        return
    source = random.Random(seed)
    total = sweep.combinations
    chosen = source.sample(range(total), min(total, sweep.trials))
    for index in chosen:
        yield overrides(_combination(sweep.parameters, index))


def overrides(values: Mapping[str, Any]) -> list[str]:
    """`key=value` words that Hydra reads back as exactly these values."""
    return [f"{key}={override_value(value)}" for key, value in values.items()]


def override_value(value: Any) -> str:
    """One value as Hydra's override grammar writes it: None is `null`, texts are quoted where they need it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(override_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{override_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        escaped = _BEFORE_QUOTE.sub(r"\1\1", value).replace("'", "\\'")
        return f"'{escaped}'"
    return str(value)


def _combination(parameters: Mapping[str, Sequence[Any]], index: int) -> dict[str, Any]:
    """The combination of that number, without expanding those before it."""
    chosen = {}
    for key in reversed(list(parameters)):
        index, position = divmod(index, len(parameters[key]))
        chosen[key] = parameters[key][position]
    return {key: chosen[key] for key in parameters}


def _values(parameter: Any, where: str) -> tuple[Any, ...]:
    """The values of one parameter: `value`, `values`, or whole numbers from `min` to `max`."""
    if not isinstance(parameter, Mapping):
        raise ConfigError(f"{where}: write value: X, values: [X, Y], or min: and max:")
    for key in parameter:
        if key == "parameters":
            raise ConfigError(f"{where}: nested parameters are not read; write the key flat, as in effort.block_s")
        if key not in _PARAMETER_KEYS:
            raise ConfigError(f"{where}: {unknown_name('key', str(key), _PARAMETER_KEYS)}")
    if "value" in parameter:
        return (parameter["value"],)
    if "values" in parameter:
        values = parameter["values"]
        if not isinstance(values, list) or not values:
            raise ConfigError(
                f"{where}.values={json.dumps(values, default=str)}: a list with at least one value is needed"
            )
        return tuple(values)
    low, high = parameter.get("min"), parameter.get("max")
    if all(isinstance(bound, int) and not isinstance(bound, bool) for bound in (low, high)) and low <= high:  # type: ignore[operator]
        return tuple(range(low, high + 1))  # type: ignore[arg-type, operator]
    raise ConfigError(f"{where}: give value, values, or whole numbers min <= max")
