"""Declaration of an option: its values, its keys, and its part in a trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from xla_sweeps.schema.trial import Trial, as_typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: `name=value` on the command line.

    Attributes:
        choices: the values, with what each means ("" where its name says it); empty for any value.
        keys: the keys below it, with their defaults: `timeouts.compile=600`.
        open_keys: whether the keys below it are names that only `config.settings` knows.
        in_files: whether its values are the files of a folder of `conf/`.
        of: its value in a trial, as plain data, None where the trial has none; None of an option
            that is no part of a trial.
        resolved: whether it is resolved into another key of the trial; trials that differ in any
            other option with `of` are different trials.
        foreign: what a sweep file, a W&B server or a file below `--config-dir` may set it to: any
            `value`, only a `name`, or `nothing`, because it names files or runs code.
    """

    usage: str
    help: str
    default: Any = None
    unset: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)
    open_keys: bool = False
    in_files: bool = False
    of: Callable[[Trial], Any] | None = None
    resolved: bool = False
    foreign: Literal["value", "name", "nothing"] = "value"

    @property
    def name(self) -> str:
        """The key that it sets: `threads` of `threads.KEY=N`."""
        return self.usage.partition("=")[0].partition(".")[0]

    @property
    def default_text(self) -> str:
        """The default, as one would type it, or what it means where it is null."""
        return self.unset or as_typed(self.default)


def description(option: Option) -> str:
    """Its effect, values and default, on one line."""
    if not option.choices:
        return f"{option.help} (default: {option.default_text})"
    listed = []
    for choice, meaning in option.choices.items():
        default = "default" if choice == as_typed(option.default) else ""
        notes = "; ".join(filter(None, (default, meaning)))
        listed.append(f"{choice} ({notes})" if notes else choice)
    return f"{option.help}: {', '.join(listed)}"
