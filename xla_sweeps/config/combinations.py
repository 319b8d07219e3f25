"""The trials that `-m` asks for: the values of each override, and how many trials they make."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, RangeSweep

from xla_sweeps.config.compose import check_overrides, group_choices, parse_overrides
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.options import LOCAL

MAX_TRIALS = 10_000
"""The most trials of one command, unless it is told otherwise."""


def choices(overrides: Sequence[str], config_dir: OwnFolder | None) -> list[list[str]]:
    """The words of each override (`seed=range(0,9)`, `model=glob(x*)`): one for each value.

    A `ConfigError` says that there are more combinations than `MAX_TRIALS`, that the values of one
    cannot be listed, or that two have one key. The groups of `config_dir` count too.
    """
    check_overrides(overrides)
    each = [_words(parse_overrides(text), config_dir) for text in dict.fromkeys(overrides)]
    _check_count(math.prod(map(len, each)))
    return each


def write_choice(count: int) -> str:
    """A number of trials, as it is said where it may be of any size."""
    return f"{count:,}" if count < 10**15 else "more than 10^15"


def _check_count(count: int) -> None:
    if count > MAX_TRIALS:
        raise ConfigError(
            f"-m: {write_choice(count)} trials are more than {MAX_TRIALS:,}; give fewer values, or "
            "write a sweep file: `xla-sweeps sweep FILE --max-trials N`"
        )


def _words(override: Override, config_dir: OwnFolder | None) -> list[str]:
    """One override for each value."""
    key, text = override.get_key_element(), override.input_line
    sweep: Any = override.value()
    if not override.is_sweep_override():
        return [str(text)]
    if isinstance(sweep, Glob):
        values = _names(override, sweep, config_dir)
    elif isinstance(sweep, ChoiceSweep | RangeSweep):
        if isinstance(sweep, RangeSweep):
            _check_range(sweep, str(text))
        values = list(override.sweep_string_iterator())
    else:
        raise ConfigError(f"{text}: -m takes values and ranges, as in seed=1,2 or seed=range(0,5)")
    if not values:
        raise ConfigError(f"{text}: no value")
    return [f"{key}={value}" for value in values]


def _check_range(sweep: RangeSweep, text: str) -> None:
    """Refuse a range that has no end, or more values than may be listed."""
    start, stop, step = (Decimal(number or 0) for number in (sweep.start, sweep.stop, sweep.step))
    if not step or not (stop - start).is_finite() or not step.is_finite():
        raise ConfigError(f"{text}: expected finite bounds and a step that is not 0")
    _check_count(math.ceil((stop - start) / step))


def _names(override: Override, glob: Glob, config_dir: OwnFolder | None) -> list[str]:
    """The names of the files that match a glob."""
    text, group = override.input_line, override.key_or_group
    names = set(group_choices(group, config_dir)) - {LOCAL}
    if not names:
        raise ConfigError(f"{text}: glob takes a group of files: model=glob(…) or effort=glob(…)")
    matches = glob.filter(sorted(names))
    if not matches:
        raise ConfigError(f"{text}: matches none of the {len(names)} names of {group}")
    return list(matches)
