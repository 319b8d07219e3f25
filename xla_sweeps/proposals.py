"""Draws the trials of a sweep definition: every combination of a grid, or seeded random ones. Pure."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

from xla_sweeps.sweep import Parameter, Sweep, override_value, tidy

Values = dict[str, Any]
"""The value of each key of one trial."""

_DRAWS_PER_TRIAL = 100


def expand(sweep: Sweep, *, seed: int = 0) -> Iterator[Values]:
    """The values of each trial, in order: all combinations of a grid, or random ones without repetition.

    Args:
        sweep: with method grid or random.
        seed: of a random search: the same seed draws the same trials, so that a sweep can be resumed.
    """
    if sweep.method == "grid":
        return _grid(sweep)
    return _random(sweep, random.Random(seed))


def group_word(name: str) -> str:
    """A sweep's name as an override's value."""
    return override_value(name)


def sample(parameter: Parameter, source: random.Random) -> Any:
    """One random value."""
    match parameter.distribution:
        case "constant" | "categorical":
            weights = parameter.probabilities or None
            return source.choices(parameter.values, weights)[0] if weights else source.choice(parameter.values)
        case "int_uniform":
            return source.randint(int(parameter.low), int(parameter.high))
        case "uniform":
            return source.uniform(parameter.low, parameter.high)
        case "q_uniform":
            return parameter.value(source.randrange(parameter.count or 1))
        case "log_uniform_values" | "q_log_uniform_values":
            drawn = math.exp(source.uniform(math.log(parameter.low), math.log(parameter.high)))
        case "normal" | "q_normal":
            drawn = source.gauss(parameter.mu, parameter.sigma)
        case _:
            drawn = math.exp(source.gauss(parameter.mu, parameter.sigma))
    if not parameter.distribution.startswith("q_"):
        return drawn
    stepped = round(drawn / parameter.q) * parameter.q
    if "uniform" in parameter.distribution:
        stepped = min(max(stepped, parameter.low), parameter.high)
    return tidy(stepped)


def _grid(sweep: Sweep) -> Iterator[Values]:
    axes = [[axis.value(index) for index in range(axis.count or 0)] for axis in sweep.parameters.values()]
    keys = list(sweep.parameters)
    for combination in itertools.islice(itertools.product(*axes), sweep.trials):
        yield dict(zip(keys, combination, strict=True))


def _random(sweep: Sweep, source: random.Random) -> Iterator[Values]:
    weighted = any(parameter.probabilities for parameter in sweep.parameters.values())
    if sweep.combinations is not None and not weighted:
        for index in source.sample(range(sweep.combinations), sweep.trials):
            yield _combination(sweep.parameters, index)
        return
    seen: set[str] = set()
    for _ in range(_DRAWS_PER_TRIAL * sweep.trials):
        values = {key: sample(parameter, source) for key, parameter in sweep.parameters.items()}
        if len(seen) == sweep.trials:
            return
        if repr(values) not in seen:
            seen.add(repr(values))
            yield values


def _combination(parameters: Mapping[str, Parameter], index: int) -> Values:
    """The combination of that number, without expanding those before it."""
    chosen = {}
    for key in reversed(list(parameters)):
        index, position = divmod(index, parameters[key].count or 1)
        chosen[key] = parameters[key].value(position)
    return {key: chosen[key] for key in parameters}
