"""Write values as Hydra overrides: `key=value` words that read back as exactly these values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xla_sweeps.schema.backend import is_harmless
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.options import BY_NAME, LOCAL, NESTED, RUNTIME
from xla_sweeps.schema.trial import Trial

_PLAIN = re.compile(r"[A-Za-z0-9_./:-]+")

_SHOWING = ("results_dir", "tracker", "ui", "hydra")
"""Options that say where results are kept and how they are shown, and nothing of the trial."""

_KEY = r"[A-Za-z_]\w*(?:[./][\w-]+)*"

_OVERRIDE = re.compile(rf"\+{{0,2}}{_KEY}=.*|~{_KEY}(?:=.*)?")

_LONGEST = 10_000  # characters of all words of a command

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
        return f"[{','.join(override_value(element) for element in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{key}:{override_value(element)}" for key, element in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, str) and (not _PLAIN.fullmatch(value) or _reads_as_other(value)):
        escaped = _BEFORE_QUOTE.sub(r"\1\1", value).replace("'", "\\'")
        return f"'{escaped}'"
    return str(value)


def repeating(words: Sequence[str], *, config_dir: str, on_cpu: bool) -> tuple[str, ...]:
    """Arguments that measure a trial again; `on_cpu` if it was kept from GPUs by other means."""
    place = ["--config-dir", config_dir] if config_dir else []
    kept = [word for word in words if option_of(word) not in _SHOWING]
    device = on_cpu and all(option_of(word) != "device" for word in words)
    return (*place, *kept, *(["device=cpu"] if device else []))


def agree(words: Sequence[str], trial: Trial) -> bool:
    """True for arguments as `repeating` makes them that ask for this trial and nothing unsafe.

    Anyone may have written a record, with words that are not those of what was measured, and
    terminals act on control characters that are pasted.
    """
    asked, in_folder = asked_of(trial), words[:1] == ("--config-dir",)
    place, given = (words[1:2], words[2:]) if in_folder else ((), words)
    return (
        sum(map(len, words)) <= _LONGEST
        and all(word.isprintable() and not word.startswith("-") for word in place)
        and all(word.isprintable() and _OVERRIDE.fullmatch(word) for word in given)
        and all(option_of(word) not in _SHOWING for word in given)
        and all(_agrees(word, asked, in_folder=in_folder) for word in given)
    )


def _agrees(word: str, asked: Mapping[str, Any], *, in_folder: bool) -> bool:
    option, key = option_of(word), key_of(word)
    text = word.partition("=")[2]
    value: Any = asked.get(option)
    if option not in BY_NAME:
        return in_folder  # a group of the user's own
    if option == "trust_code":
        return bool(value) or str(asked["weights"]) not in ("random", "imagenet")
    if BY_NAME[option].open_keys:
        given = {key.partition(".")[2]: text} if "." in key else _pairs(text)
        return all(
            is_harmless(name, value.get(name)) and _same(each, value[name])
            for name, each in given.items()
        )
    if key != option or option not in asked or option == "input_spec":
        return True  # values that name no file and run no code
    if option == "modes":
        listed = sorted(_bare(text).strip("[]").split(","))
        return listed == sorted(str(mode_of(label)) for label in value)
    if value is None:
        return _bare(text) in ("null", "auto", str(BY_NAME[option].default))
    return _same(text, value) or (option == "source" and text == "auto")


def _pairs(text: str) -> dict[str, str]:
    """The keys and values of a mapping in Hydra's grammar: `{a:1,b:2}`."""
    pairs = (pair.partition(":") for pair in _bare(text).strip("{}").split(",") if pair)
    return {name: value for name, _, value in pairs}


def _bare(text: str) -> str:
    return re.sub(r"""[\s'"\\]""", "", text)


def _same(text: str, value: Any) -> bool:
    """True if the text of an override is this value; of a path, its end is enough."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text) == value
        except ValueError:
            return False
    mine, other = _bare(text).rstrip("/"), _bare(override_value(value))
    return mine == other or (other.startswith("/") and other.endswith(mine.lstrip("~.")))


def option_of(word: str) -> str:
    """The option that an override sets: `effort` of `effort.block_s=1`."""
    return re.split(r"[=./@]", word.lstrip("+~"), maxsplit=1)[0]


def key_of(word: str) -> str:
    """The key of an override, without Hydra's `+` and `~`."""
    return word.lstrip("+~").partition("=")[0]


def keys_of(words: Iterable[str]) -> set[str]:
    """The keys of overrides."""
    return set(map(key_of, words))


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values of options as flat ones: `effort: {block_s: 1}` is `effort.block_s: 1`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if key in NESTED and isinstance(value, Mapping):
            flat.update({f"{key}.{inner}": inner_value for inner, inner_value in value.items()})
        else:
            flat[key] = value
    return flat


def asked_of(trial: Trial, *names: str) -> dict[str, Any]:
    """The options that ask for a trial, or these, as plain data; None for what it does not have."""
    options = {name: BY_NAME[name].of for name in names or BY_NAME}
    return {name: of(trial) for name, of in options.items() if of}


def runtime_text(trial: Trial) -> str:
    """The options of TensorFlow itself that a trial sets, in order: `threads.intra=1`; or ""."""
    flat = flatten(asked_of(trial, *RUNTIME))
    given = {name: value for name, value in flat.items() if value is not None}
    return " ".join(overrides(dict(sorted(given.items()))))


def inputs_text(trial: Trial) -> str:
    """Shapes and types of the inputs that `input_spec` gives an own model: `3×32×32 float32`."""
    given = trial.model.inputs if trial.model.source == LOCAL else ()
    return ", ".join(f"{'×'.join(map(str, one.shape))} {one.dtype}" for one in given)


def data_name(trial: Trial) -> str:
    """The name of the pictures that a trial trains on; "" of values that are drawn."""
    if trial.data is None:
        return ""
    path = trial.data.path
    name = path.rstrip("/").rpartition("/")[2] or path
    return f"{name}, last batch dropped" if trial.data.drop_remainder else name


def tidy(number: float) -> int | float:
    """A number without the noise of its last binary digits; an int where it is an integer."""
    rounded = float(f"{number:.12g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def _reads_as_other(text: str) -> bool:
    """True if Hydra would read a bare word as a number, a boolean or null."""
    if text.lower() in ("true", "false", "null", "inf", "-inf", "nan"):
        return True
    try:
        float(text.replace("_", ""))
    except ValueError:
        return False
    return True
