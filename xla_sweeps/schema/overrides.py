"""Writes values as Hydra overrides: `key=value` words that read back as exactly these values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.options import NESTED, RUNTIME, SYNTHETIC, name_of

_PLAIN = re.compile(r"[A-Za-z0-9_./:-]+")

_SHOWING = ("results_dir", "tracker", "ui", "hydra")
"""What says where results are kept and how they are shown, and nothing of the trial."""

_KEY = r"[A-Za-z_]\w*(?:[./][\w-]+)*"

_OVERRIDE = re.compile(rf"\+{{0,2}}{_KEY}=.*|~{_KEY}(?:=.*)?")

_LONGEST = 10_000
"""Characters of all words of a command."""

_BEFORE_QUOTE = re.compile(r"(\\+)(?='|$)")
"""Backslashes that Hydra's grammar would read as escaping a quote.

Elsewhere they stand for themselves.
"""


def overrides(values: Mapping[str, Any]) -> list[str]:
    """`key=value` words that Hydra reads back as exactly these values."""
    return [f"{key}={override_value(value)}" for key, value in values.items()]


def override_value(value: Any) -> str:
    """One value in Hydra's override grammar: None is `null`, strings are quoted if necessary."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(override_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{override_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str) and (not _PLAIN.fullmatch(value) or _reads_as_other(value)):
        escaped = _BEFORE_QUOTE.sub(r"\1\1", value).replace("'", "\\'")
        return f"'{escaped}'"
    return str(value)


def repeating(words: Sequence[str], *, config_dir: str, on_cpu: bool) -> tuple[str, ...]:
    """Arguments of the command that measures a trial again, wherever its results are kept.

    Args:
        words: the trial's overrides.
        config_dir: its further folder of configuration files, or "".
        on_cpu: whether it was kept from the GPUs by other means than its overrides.
    """
    place = ["--config-dir", config_dir] if config_dir else []
    kept = [word for word in words if option_of(word) not in _SHOWING]
    device = on_cpu and all(option_of(word) != "device" for word in words)
    return (*place, *kept, *(["device=cpu"] if device else []))


def repeats(words: Sequence[str]) -> bool:
    """Whether these are arguments as `repeating` makes them, which can be shown on one line.

    A record is a file that anyone may have written, and a terminal acts on control characters that
    are pasted, in quotes too.
    """
    place, given = (words[1:2], words[2:]) if words[:1] == ("--config-dir",) else ((), words)
    return (
        sum(map(len, words)) <= _LONGEST
        and all(word.isprintable() and not word.startswith("-") for word in place)
        and all(map(_repeats, given))
    )


@lru_cache(maxsize=4096)
def _repeats(word: str) -> bool:
    """Whether a word is an override of what is measured."""
    is_override = word.isprintable() and _OVERRIDE.fullmatch(word)
    return bool(is_override) and option_of(word) not in _SHOWING


@lru_cache(maxsize=4096)
def option_of(word: str) -> str:
    """The option that an override sets: `effort` of `effort.block_s=1`."""
    return re.split(r"[=./@]", word.lstrip("+~"), maxsplit=1)[0]


def flattened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values of options as flat ones: `effort: {block_s: 1}` is `effort.block_s: 1`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if key in NESTED and isinstance(value, Mapping):
            flat.update({f"{key}.{inner}": item for inner, item in value.items()})
        else:
            flat[key] = value
    return flat


def runtime_of(config: Mapping[str, Any]) -> str:
    """The options of TensorFlow itself that a configuration sets, as words: `threads.intra=1`.

    In alphabetical order, joined by blanks; "" where it sets none.
    """
    asked = {name: config[name] for name in RUNTIME if config.get(name) not in (None, {})}
    given = {key: value for key, value in flattened(asked).items() if value not in (None, {})}
    return " ".join(overrides(dict(sorted(given.items()))))


def optimizer_of(config: Mapping[str, Any]) -> str:
    """The optimizer of a configuration that trains; "" of one that does not."""
    trains = name_of(config.get("scenario")) in (Scenario.TRAIN_STEP, Scenario.FIT)
    return name_of(config.get("optimizer")) if trains else ""


def data_of(config: Mapping[str, Any]) -> str:
    """The name of the pictures that a configuration trains on; "" of values that are drawn."""
    given = config.get("data")
    if not isinstance(given, str) or given == SYNTHETIC:
        return ""
    name = given.rstrip("/").rpartition("/")[2] or given
    return f"{name}, last batch dropped" if config.get("drop_remainder") else name


def tidy(number: float) -> int | float:
    """A number without the noise of its last binary digits; an int where it is an integer."""
    rounded = float(f"{number:.12g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def _reads_as_other(text: str) -> bool:
    """Whether Hydra would read a bare word as a number, a boolean or null."""
    if text.lower() in ("true", "false", "null", "inf", "-inf", "nan"):
        return True
    try:
        float(text.replace("_", ""))
    except ValueError:
        return False
    return True
