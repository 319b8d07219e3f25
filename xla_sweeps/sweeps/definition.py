"""Load and check a sweep definition, in W&B's own format.

Its trials are counted here and never expanded; `search` chooses them.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from xla_sweeps.config.compose import override_values
from xla_sweeps.config.foreign import may_set, read_values, read_yaml
from xla_sweeps.config.values import how_yaml_writes
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.overrides import tidy

METHODS = ("grid", "random", "bayes", "custom")
"""Methods of a definition; `custom` is W&B's word for a scheduler's, and becomes `bayes` here."""

ENGINES = ("optuna",)

CODE_KEYS = ("source", "optimizer", "search_space", "terminator")
"""Keys of a scheduler that name Python code."""

KEYS = (
    *("method", "name", "description", "metric", "parameters", "command", "program", "run_cap"),
    *("project", "entity"),
)

IGNORED = ("early_terminate", "controller", "imageuri", "resource", "job", "launch", "scheduler")
"""Keys of W&B that have no meaning here: they are ignored with a warning."""

PARAMETER_KEYS = (
    *("value", "values", "probabilities", "min", "max", "distribution", "q", "mu", "sigma"),
    "parameters",
)

DISTRIBUTIONS = {
    "constant": ("value",),
    "categorical": ("values",),
    "int_uniform": ("min", "max"),
    "uniform": ("min", "max"),
    "q_uniform": ("min", "max"),
    "log_uniform_values": ("min", "max"),
    "q_log_uniform_values": ("min", "max"),
    "normal": (),
    "q_normal": (),
    "log_normal": (),
    "q_log_normal": (),
}
"""The keys that each distribution needs; the normal ones have W&B's defaults mu 0, sigma 1."""

COUNTABLE = ("constant", "categorical", "int_uniform", "q_uniform")

LARGEST = 10**15
"""The largest number of a distribution; a step `q` is at least its inverse."""

GOALS = ("minimize", "maximize")

Locate = Callable[..., str]
"""Gives `file:line` of a path of keys of the definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """The values that one key may have: listed ones, or numbers between bounds, both included.

    `q` is the step of a quantized distribution.
    """

    distribution: str
    values: tuple[Any, ...] = ()
    probabilities: tuple[float, ...] = ()
    low: float = 0
    high: float = 0
    q: float = 1
    mu: float = 0
    sigma: float = 1

    @property
    def count(self) -> int | None:
        """Number of values; None where it is infinite."""
        if self.distribution in ("constant", "categorical"):
            return len(self.values)
        if self.distribution in ("int_uniform", "q_uniform"):
            return math.floor((self.high - self.low) / self.q + 1e-9) + 1
        return None

    def value(self, index: int) -> Any:
        """The value of that index, below `count`."""
        if self.values:
            return self.values[index]
        if self.distribution == "int_uniform":
            return int(self.low) + index
        return tidy(self.low + index * self.q)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Objective of a search: a key of the W&B summary or a column of `results`."""

    name: str
    goal: Literal["minimize", "maximize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep definition, checked.

    Attributes:
        parameters: the values of each flat key, in the order of the file.
        run_cap: the most trials; a search needs one.
        warnings: a line for each key that was ignored.
        lines: the line of each parameter in the file, where it is known.
    """

    name: str
    method: str
    parameters: Mapping[str, Parameter]
    run_cap: int | None
    metric: Metric | None = None
    warnings: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def combinations(self) -> int | None:
        """Number of combinations of values, counted without expanding them; None where infinite."""
        counts = [parameter.count for parameter in self.parameters.values()]
        return None if None in counts else math.prod(count or 0 for count in counts)

    @property
    def trials(self) -> int:
        """Number of trials of the sweep; a search repeats none, so at most all combinations."""
        bounds = [bound for bound in (self.combinations, self.run_cap) if bound is not None]
        return min(bounds, default=0)


def parse_sweep(
    document: Any, *, where: str, lines: Mapping[tuple[str, ...], int] | None = None
) -> Sweep:
    """Check the content of a file; a `ConfigError` is one line with file, line and fix."""
    line_of = lines or {}

    def at(*path: str) -> str:
        while path and path not in line_of:
            path = path[:-1]
        return f"{where}:{line_of[path]}" if path else where

    if not isinstance(document, Mapping):
        raise ConfigError(f"{where}: a sweep definition is a mapping with method and parameters")
    method = _method(document, at)
    keys = KEYS if document["method"] != "custom" else (*KEYS, "scheduler")
    warnings = [_warning_of(str(key), at) for key in document if key not in keys]
    parameters = document.get("parameters")
    if not isinstance(parameters, Mapping) or not parameters:
        hints = [f" ({text.partition(': ')[2]})" for text in warnings if "'parameters'" in text]
        expected = "expected at least one, as in model: {values: [resnet50, vgg16]}"
        raise ConfigError(f"{at('parameters')}: parameters: {expected}{''.join(hints[:1])}")
    run_cap = document.get("run_cap")
    if run_cap is None and method != "grid":
        needs = f"method {document['method']} needs run_cap, the number of trials"
        raise ConfigError(f"{at('method')}: {needs}")
    if run_cap is not None and not (type(run_cap) is int and run_cap > 0):
        is_count = isinstance(run_cap, str) and run_cap.isdecimal() and run_cap.strip("0")
        wrong, hint = f"run_cap={_short(run_cap)}", how_yaml_writes(run_cap) if is_count else ""
        wrong = f"{wrong}: expected an integer above 0{hint and f'; {hint}'}"
        raise ConfigError(f"{at('run_cap')}: {wrong}")
    constants, ignored = _constants(document, at)
    flat: dict[tuple[str, ...], Parameter] = {}
    for path, given in flatten_parameters({**parameters, **constants}).items():
        location = f"{at(*_place(path))}: parameters.{'.'.join(path)}"
        if ".".join(path) in {".".join(other) for other in flat}:
            raise ConfigError(f"{location}: it is there twice, nested and with dots; keep one")
        flat[path] = parameter = _parameter(given, location)
        if method == "grid" and parameter.count is None:
            raise ConfigError(
                f"{location}: a grid needs values that can be counted ({', '.join(COUNTABLE)}), "
                f"not {parameter.distribution}; list values, or use method: random"
            )
    return Sweep(
        name=str(document.get("name") or Path(where).stem),
        method=method,
        parameters={".".join(path): parameter for path, parameter in flat.items()},
        run_cap=run_cap,
        metric=_metric(document.get("metric"), required=method == "bayes", at=at),
        warnings=(*warnings, *ignored),
        lines={".".join(path): line_of[_place(path)] for path in flat if _place(path) in line_of},
    )


def command_words(document: Mapping[str, Any]) -> list[str]:
    """The words of a definition's command, of which W&B's agents make one."""
    given = document.get("command") or []
    return list(map(str, given)) if isinstance(given, list) else str(given).split()


def is_constant(word: str) -> bool:
    """True for a word of a command that gives an option a value that a file may set.

    The device is no value of a trial's: launchers choose it.
    """
    key, equals, value = word.partition("=")
    return bool(equals) and key != "device" and may_set(key, value)


def _constants(document: Mapping[str, Any], at: Locate) -> tuple[dict[str, Any], list[str]]:
    """The command's values as parameters, and a line for what W&B's agents alone read."""
    words = [word for word in command_words(document) if "=" in word]
    ignored = [
        f"{at(key)}: ignored {key} (W&B agents only); for all launchers type tracker.{key}=NAME"
        for key in ("project", "entity")
        if document.get(key)
    ]
    if refused := [word for word in words if not is_constant(word)]:
        why = "expected option=value words that a file may set"
        ignored.append(f"{at('command')}: command: ignored {_short(shlex.join(refused))}; {why}")
    try:
        values = override_values([word for word in words if is_constant(word)])
    except ConfigError as error:
        raise ConfigError(f"{at('command')}: command: {error}") from error
    for path in flatten_parameters(document["parameters"]):
        if (key := ".".join(path)) in values:
            twice = f"command: {key}=… is a parameter too; keep one of the two"
            raise ConfigError(f"{at('command')}: {twice}")
    return {key: {"value": value} for key, value in values.items()}, ignored


def _method(document: Mapping[str, Any], at: Locate) -> str:
    """The method; W&B's `custom` with Optuna as its engine is `bayes`."""
    method, scheduler = document.get("method"), document.get("scheduler")
    if method not in METHODS:
        wrong = unknown_name("method", str(method), METHODS) if method else "method is missing"
        raise ConfigError(f"{at('method')}: {wrong}{'' if method else ', as in method: grid'}")
    given = scheduler if isinstance(scheduler, Mapping) else {}
    for key in CODE_KEYS:
        if key in given:
            never = "names Python code, which a definition never runs; allowed: engine: optuna"
            raise ConfigError(f"{at('scheduler', key)}: scheduler.{key}: {never}")
    if method != "custom":
        return str(method)
    if "engine" not in given:
        raise ConfigError(f"{at('scheduler')}: method custom needs scheduler: {{engine: optuna}}")
    for key, value in given.items():
        wrong = unknown_name("scheduler key", str(key), ("engine",))
        if key == "engine":
            wrong = unknown_name("engine", str(value), ENGINES)
        if key != "engine" or value not in ENGINES:
            raise ConfigError(f"{at('scheduler', str(key))}: {wrong}")
    return "bayes"


def _warning_of(key: str, at: Locate) -> str:
    if key in IGNORED:
        return f"{at(key)}: ignored {key} (W&B server only)"
    return f"{at(key)}: {unknown_name('key', key, KEYS)} Ignored, as W&B does."


def flatten_parameters(
    parameters: Mapping[Any, Any], path: tuple[str, ...] = ()
) -> dict[tuple[str, ...], Any]:
    """Content of each parameter, by its path; nested ones are written as W&B does."""
    flat: dict[tuple[str, ...], Any] = {}
    for key, value in parameters.items():
        inner = (*path, str(key))
        nested = value.get("parameters") if isinstance(value, Mapping) else None
        if nested and isinstance(nested, Mapping):
            flat |= flatten_parameters(nested, inner)
        else:
            flat[inner] = value
    return flat


def _place(path: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the file that lead to a parameter."""
    return tuple(word for key in path for word in ("parameters", key))


def _parameter(given: Any, location: str) -> Parameter:
    """One parameter; as in W&B, values imply categorical and integer bounds int_uniform."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{location}: expected value: X, values: [X, Y], or min: and max:")
    if "parameters" in given:
        raise ConfigError(f"{location}.parameters: expected at least one")
    distribution = given.get("distribution")
    if distribution and (not isinstance(distribution, str) or distribution not in DISTRIBUTIONS):
        unknown = unknown_name("distribution", str(distribution), DISTRIBUTIONS)
        raise ConfigError(f"{location}: {unknown}")
    for key in given:
        if key not in PARAMETER_KEYS:
            raise ConfigError(f"{location}: {unknown_name('key', str(key), PARAMETER_KEYS)}")
    distribution = distribution or _distribution_of(given, location)
    for key in DISTRIBUTIONS[distribution]:
        if key not in given:
            raise ConfigError(f"{location}: distribution {distribution} needs {key}")
    used = _keys_of(distribution)
    for key in given:
        if key not in (*used, "distribution"):
            hint = "; for steps of q write distribution: q_uniform" if key == "q" else ""
            unused = f"distribution {distribution} does not use {key}; allowed: {', '.join(used)}"
            raise ConfigError(f"{location}: {unused}{hint}")
    if distribution == "constant":
        return Parameter(distribution="constant", values=(given["value"],))
    if distribution == "categorical":
        return _categorical(given, location)
    return _numeric(distribution, given, location)


def _keys_of(distribution: str) -> tuple[str, ...]:
    """The keys that a distribution uses; those that it needs are `DISTRIBUTIONS`."""
    return (
        *DISTRIBUTIONS[distribution],
        *(("probabilities",) if distribution == "categorical" else ()),
        *(("mu", "sigma") if "normal" in distribution else ()),
        *(("q",) if distribution.startswith("q_") else ()),
    )


def _distribution_of(given: Mapping[str, Any], location: str) -> str:
    if "value" in given:
        return "constant"
    if "values" in given:
        return "categorical"
    if "mu" in given or "sigma" in given:
        return "normal"
    bounds = [given.get("min"), given.get("max")]
    if all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds):
        return "int_uniform" if all(isinstance(bound, int) for bound in bounds) else "uniform"
    for key in ("min", "max"):
        _refuse_text(given.get(key), f"{location}.{key}")
    raise ConfigError(f"{location}: expected value, values, or numbers min <= max")


def _categorical(given: Mapping[str, Any], location: str) -> Parameter:
    values = given["values"]
    if not isinstance(values, list) or not values:
        shown = json.dumps(values, default=str)
        raise ConfigError(f"{location}.values={shown}: expected a list with at least one value")
    shares = given.get("probabilities") or []
    if shares and not (
        isinstance(shares, list)
        and len(shares) == len(values)
        and all(_is_number(share) and 0 <= share <= 1 for share in shares)
        and math.isclose(math.fsum(shares), 1, rel_tol=1e-3)
    ):
        wrong = f"{location}.probabilities={shares}"
        raise ConfigError(f"{wrong}: expected one for each value, with sum 1")
    return Parameter(distribution="categorical", values=tuple(values), probabilities=tuple(shares))


def _numeric(distribution: str, given: Mapping[str, Any], location: str) -> Parameter:
    numbers: dict[str, Any] = {}
    for key, default in (("min", 0), ("max", 0), ("q", 1), ("mu", 0), ("sigma", 1)):
        value = given.get(key, default)
        _refuse_text(value, f"{location}.{key}")
        if not _is_number(value) or abs(value) > LARGEST:
            wrong = f"{location}.{key}={_short(value)}"
            raise ConfigError(f"{wrong}: expected a number, at most {LARGEST:g}")
        numbers[key] = value
    if numbers["min"] > numbers["max"]:
        raise ConfigError(f"{location}: min={given['min']} is above max={given['max']}")
    if "log" in distribution and "min" in given and numbers["min"] <= 0:
        raise ConfigError(f"{location}: {distribution} needs min above 0")
    whole = isinstance(numbers["min"], int) and isinstance(numbers["max"], int)
    if distribution == "int_uniform" and not whole:
        raise ConfigError(f"{location}: int_uniform needs integers")
    if numbers["q"] < 1 / LARGEST or numbers["sigma"] < 0:
        raise ConfigError(f"{location}: q must be at least {1 / LARGEST:g}, and sigma at least 0")
    low, high = numbers.pop("min"), numbers.pop("max")
    return Parameter(distribution=distribution, low=low, high=high, **numbers)


def _refuse_text(value: Any, location: str) -> None:
    """Refuse 3e-4, which YAML 1.1 reads as a text, and say how to write the number."""
    if hint := how_yaml_writes(value):
        raise ConfigError(f"{location}: {hint}")


def _is_number(value: Any) -> bool:
    """True if it is a number that is neither infinite nor nan."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _short(value: Any) -> str:
    """A value as it is shown in an error, of any size."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"{'-' if value < 0 else ''}10^{math.floor(math.log10(abs(value)))}"
    return str(value)[:60]


def _metric(given: Any, *, required: bool, at: Locate) -> Metric | None:
    if given is None and not required:
        return None
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise ConfigError(f"{at('metric')}: metric: expected {{name: speedup, goal: maximize}}")
    goal = given.get("goal", "minimize")
    if goal not in GOALS:
        raise ConfigError(f"{at('metric', 'goal')}: {unknown_name('goal', str(goal), GOALS)}")
    return Metric(name=given["name"], goal=goal)


def load_sweep(path: Path) -> Sweep:
    """Read and check a definition; the file's size is checked before it is parsed.

    Raises:
        ConfigError: one line with file, line and fix.
    """
    document, lines = read_values(read_yaml(path), where=str(path))
    return parse_sweep(document, where=str(path), lines=lines)
