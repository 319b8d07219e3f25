"""The trials that `-m` asks for: the names that globs match, and how many trials that makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, Override, RangeSweep
from hydra.errors import HydraException

from xla_sweeps.config import local_model
from xla_sweeps.config.compose import group_choices, parsed
from xla_sweeps.errors import ConfigError

MAX_TRIALS = 10_000
"""The most trials of one command, unless it is told otherwise."""


def without_globs(overrides: Sequence[str], config_dir: Path | None) -> list[str]:
    """The overrides with the names that each glob matches: `model=glob(regnetx_00*)`.

    Args:
        overrides: as on the command line.
        config_dir: a further folder of configuration files, whose groups count too.

    Raises:
        ConfigError: a glob of what is no group, or one that matches nothing.
    """
    return [_named(text, config_dir) for text in overrides]


def _named(text: str, config_dir: Path | None) -> str:
    """An override; in place of a glob the names of the files that match."""
    override = parsed(text)
    glob: Any = override.value()
    if not isinstance(glob, Glob):
        return text
    group = override.key_or_group
    names = set(group_choices(group, config_dir)) - {local_model.NAME}
    if not names:
        raise ConfigError(f"{text}: glob takes a group of files: model=glob(…) or effort=glob(…)")
    matches = glob.filter(sorted(names))
    if not matches:
        raise ConfigError(f"{text}: matches none of the {len(names)} names of {group}")
    return f"{override.get_key_element()}={','.join(matches)}"


def check_count(overrides: Sequence[str], *, at_most: int = MAX_TRIALS) -> None:
    """Refuse a request for no trial or for too many.

    Args:
        overrides: as on the command line: `seed=range(0,9)`, `model=vgg16,resnet50`.
        at_most: trials.

    Raises:
        ConfigError: an override that cannot be read, has no value, or a kind of values that cannot
            be listed; more trials than `at_most`.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError(str(error).splitlines()[0]) from error
    except ValueError as error:
        raise ConfigError("-m: it has a number of too many digits") from error
    counts = {override.get_key_element(): _count(override) for override in parsed}
    total = math.prod(counts.values())
    if total > at_most:
        raise ConfigError(
            f"-m: {written(total)} trials are more than {at_most:,}; give fewer values, or write "
            "a sweep file: `xla-sweeps sweep FILE --max-trials N`"
        )


def written(count: int) -> str:
    """A number of trials, as it is said where it may be of any size."""
    return f"{count:,}" if count < 10**15 else "more than 10^15"


def _count(override: Override) -> int:
    """The number of values of one override."""
    if not override.is_sweep_override():
        return 1
    sweep, text = override.value(), override.input_line
    if isinstance(sweep, ChoiceSweep):
        count = len(sweep.list)
    elif isinstance(sweep, RangeSweep):
        start, stop, step = (
            Decimal(number or 0) for number in (sweep.start, sweep.stop, sweep.step)
        )
        if not step or not (stop - start).is_finite() or not step.is_finite():
            raise ConfigError(f"{text}: expected finite bounds and a step that is not 0")
        count = max(0, math.ceil((stop - start) / step))
    else:
        raise ConfigError(f"{text}: -m takes values and ranges, as in seed=1,2 or seed=range(0,5)")
    if not count:
        raise ConfigError(f"{text}: no value")
    return count
