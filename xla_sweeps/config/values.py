"""Read one value of the configuration as the type that it must have.

Another value is a `ConfigError` that says what was expected.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.options import BY_NAME, name_of

_Value = TypeVar("_Value")

_EXPONENT = re.compile(r"(?P<digits>[+-]?\d+)e(?P<sign>[+-]?)(?P<exponent>\d+)", re.I)

_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)


def convert(document: Mapping[str, Any], kind: type[_Value], *, where: str) -> _Value:
    """Plain data as a struct; what does not fit is refused with its place."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        raise ConfigError(f"{where}{place.rstrip('`')}: {reason}") from error


def read_nested(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The keys below an option with their values, in full: `timeouts.compile`."""
    given, allowed = document[name], list(BY_NAME[name].keys)
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name}={given}: write {name}.KEY=VALUE; keys: {', '.join(allowed)}")
    for key in given:
        if key not in allowed:
            raise unknown_name(f"option of {name}", str(key), allowed, listed=len(allowed))
    return {f"{name}.{key}": value for key, value in given.items()}


def integer(
    document: Mapping[str, Any], key: str, *, at_least: int, at_most: int | None = None
) -> int:
    """An integer within bounds; a float that is whole counts as one."""
    value = document.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        several = re.fullmatch(r"(\d+)(?::|-|\.\.)(\d+)", str(value))
        most = math.inf if at_most is None else at_most
        hint = how_yaml_writes(value, lambda one: one.is_integer() and at_least <= one <= most)
        if several:
            hint = f"for several trials add -m: '{key}=range({several[1]},{several[2]})'"
        raise ConfigError(f"{key}={value}: expected an integer{hint and f'; {hint}'}")
    if value < at_least or (at_most is not None and value > at_most):
        upper = f" and at most {at_most}" if at_most is not None else ""
        raise ConfigError(f"{key}={value}: must be at least {at_least}{upper}")
    return value


def number(document: Mapping[str, Any], key: str, *, at_most: float) -> float:
    """A number above 0 and within a bound."""
    value: Any = document.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        hint = how_yaml_writes(value, lambda one: 0 < one <= at_most)
        raise ConfigError(f"{key}={value}: expected a number above 0{hint and f'; {hint}'}")
    if value > at_most:
        raise ConfigError(f"{key}={value:g}: must be at most {at_most:,}")
    return float(value)


def how_yaml_writes(
    value: object, is_allowed: Callable[[float], bool] = lambda number: True
) -> str:
    """Advice on a number that is a text, as '8' or 3e-4 in YAML 1.1; "" for any other value.

    None on a number that is not allowed in its place, since it would be refused again.
    """
    text = value if isinstance(value, str) else ""
    match = _EXPONENT.fullmatch(text)
    if not (match or _DECIMAL.fullmatch(text)) or not is_allowed(float(text)):
        return ""
    if not match:
        return f"'{text}' is a text; write {text} without quotes"
    number = f"{match['digits']}.0e{match['sign'] or '+'}{match['exponent']}"
    return f"{text} is a text in YAML 1.1; write {number}"


def boolean(document: Mapping[str, Any], key: str) -> bool:
    """True or false, as a boolean or as its name."""
    value = document.get(key)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ConfigError(f"{key}={value}: expected true or false")
    return value


def text(document: Mapping[str, Any], key: str) -> str:
    """A string that is not blank; an integer counts as one."""
    value = document.get(key)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise ConfigError(f"{key}={value}: expected a string")
    return str(value)


def optional(
    read: Callable[..., _Value], document: Mapping[str, Any], key: str, **bounds: Any
) -> _Value | None:
    """The value that another function reads; None where it is not set."""
    return None if document.get(key) is None else read(document, key, **bounds)


def integer_from(at_least: int, *, to: int) -> Callable[[str], int]:
    """A type of a command's option: an integer within bounds, both included."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = at_least - 1
        if not at_least <= value <= to:
            raise argparse.ArgumentTypeError(
                f"expected an integer from {at_least} to {to:,}, got {text[:60]!r}"
            )
        return value

    return read


def quantity_in(
    units: Mapping[str, float], expected: str, *, least: float = 1e-9, most: float = math.inf
) -> Callable[[str], float]:
    """A type of a command's option: a number above 0 with a unit, of so much each."""

    def read(text: str) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(\D*)", text)
        value = float(match[1]) * units.get(match[2], math.nan) if match else math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return value

    return read


def numbers_of(text: str, option: str, *, least: int, most: int) -> list[int]:
    """Different numbers from 1 to `most` in a text, at least `least`; else `ConfigError`."""
    words = [word for word in text.split(",") if word]
    good = all(re.fullmatch("[0-9]{1,9}", word) for word in words)
    numbers = sorted({int(word) for word in words}) if good else [0]
    if len(numbers) < least or not all(1 <= number <= most for number in numbers):
        wanted = f"at least {least} different numbers" if least > 1 else "numbers"
        raise ConfigError(f"{option} {text}: expected {wanted} from 1, as in 1,8,32,128")
    return numbers


SECONDS = quantity_in({"": 1, "s": 1, "min": 60, "m": 60, "h": 3600}, "a time such as 90s or 4m")


def path_of(text: str) -> Path:
    """A path that the operating system can look up, there or not; `~` is the home folder."""
    shown = f"{text[:60]}…" if len(text) > 60 else f"'{text}'"
    if not text:
        raise ConfigError("expected a path, got ''")
    try:
        path = Path(text).expanduser()
        path.stat()
    except FileNotFoundError:
        return path
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{shown}: {getattr(error, 'strerror', None) or error}") from error
    return path


def folder_of(text: str) -> Path:
    """A path that is a folder, or not there yet."""
    path = path_of(text)
    if path.exists() and not path.is_dir():
        raise ConfigError(f"'{text}': expected a folder")
    return path


def choice(document: Mapping[str, Any], key: str) -> str:
    """One of the values that the option is declared with."""
    value, allowed = name_of(document.get(key)), BY_NAME[key].choices
    if not value:
        raise ConfigError(f"{key}: name one, as in {key}={BY_NAME[key].default}")
    if value not in allowed:
        raise unknown_name(key, value, allowed)
    return value


def read_list(given: Any) -> list[str]:
    """The entries of a list, as text; of a text, as W&B's runs have it, those between blanks."""
    entries = given.split() if isinstance(given, str) else given
    whole = entries if isinstance(entries, Sequence) else [entries]
    return [] if given is None else list(map(str, whole))
