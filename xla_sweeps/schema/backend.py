"""Backends: the frameworks that run models, each declared as a value that loads no framework."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.comparisons import by_backend
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.modes import DEFAULT_BACKEND
from xla_sweeps.schema.trial import Trial

BACKENDS: dict[str, str] = {
    DEFAULT_BACKEND: "xla_sweeps.backends.tensorflow.declaration:BACKEND",
    "jax": "xla_sweeps.backends.jax.declaration:BACKEND",
    "torch": "xla_sweeps.backends.torch.declaration:BACKEND",
}
"""Place of each backend's declaration; resolved when it is chosen."""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """An error of a framework: the text that identifies it, and what it means.

    Attributes:
        message: with the expression's groups in braces, or made of the match.
        hint: a text, or made of the operation, the group `op`.
    """

    expression: re.Pattern[str]
    status: Status
    message: str | Callable[[re.Match[str]], str]
    hint: str | Callable[[str], str]

    def describe(self, match: re.Match[str]) -> tuple[str, str, str]:
        """Message, hint and operation of a match."""
        groups, message = match.groupdict(), self.message
        text = message.format(**groups) if isinstance(message, str) else message(match)
        op = groups.get("op", "")
        return text, self.hint if isinstance(self.hint, str) else self.hint(op), op


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backend:
    """Facts of a framework that are needed where it is not loaded.

    Attributes:
        programs: commands that start a process of it: `worker`, which measures (`worker.server`).
            Optional: `flags`, which reads the flags and ends; `self_check`, `plants`, `ops`,
            `replicas`.
        explains_with: packages that this needs besides, by the module that each brings.
        packages: what is installed of it, each under the names that it may have, for the record.
        for_gpu: what pip installs for it to use an NVIDIA GPU.
        identity: modules that it needs, whose versions are part of a trial's identity.
        only_for: those of them that only a model of the library of that name needs.
        shown: what a worker tells of its versions and people are shown, by key.
        tracked: packages whose versions a tracker gets, by the key that it gets them under.
        variables: set in every process of it; `environment` makes those that a trial needs besides.
        cache: variables that have its compiler keep what it compiles in a folder, given the others.
        prefixes: beginnings, before `_`, of variables that change what is measured.
        caches: variables that name its folders, and change nothing.
        foreign: expression of variables that look like its own, and are not; `harmless`: of its own
            that change nothing of a trial.
        log_level: variable that says how much its libraries write, or "".
        switches: variables by option (`threads.intra`), which may not be set as well.
        flags: variables that hold flags, by option.
        words: flags whose value is a word, and that somebody else's file may set (`is_harmless`).
        failures: errors that it is known for; the first that matches is reported.
        libraries: those that build models that it runs; all where it names none.
        lacks: precisions in which it cannot train, with the reason.
    """

    name: str
    title: str
    programs: Mapping[str, tuple[str, ...]]
    explains: bool = False
    explains_with: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    for_gpu: str = ""
    identity: tuple[str, ...] = ()
    only_for: frozenset[str] = frozenset()
    shown: Mapping[str, str] = field(default_factory=dict)
    tracked: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    environment: Callable[[Trial, Mapping[str, str]], Mapping[str, str]] = lambda trial, given: {}
    cache: Callable[[str, Mapping[str, str]], Mapping[str, str]] = lambda folder, given: {}
    prefixes: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    foreign: str = ""
    harmless: str = ""
    log_level: str = ""
    switches: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    words: frozenset[str] = frozenset()
    failures: tuple[KnownFailure, ...] = ()
    libraries: tuple[str, ...] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)

    def command(self, program: str) -> tuple[str, ...]:
        """Start one of its programs.

        Raises:
            ConfigError: it has none of that name.
        """
        if program not in self.programs:
            raise ConfigError(f"{self.title} has no program for this: {program}")
        return self.programs[program]

    def logging(self, level: int) -> dict[str, str]:
        """The variable that limits what its libraries write: 0 for everything."""
        return {self.log_level: str(level)} if self.log_level else {}


@cache
def backend_named(name: str) -> Backend:
    """The backend of that name."""
    declared: Backend = pkgutil.resolve_name(BACKENDS[name])
    return declared


def backends_of(trial: Trial) -> tuple[Backend, ...]:
    """The backends that run a trial; the first one's worker leads."""
    return tuple(map(backend_named, by_backend(trial.modes)))


def default_backend() -> Backend:
    """The backend of commands that measure nothing."""
    return backend_named(DEFAULT_BACKEND)


def backends() -> tuple[Backend, ...]:
    """All backends."""
    return tuple(map(backend_named, BACKENDS))


_NUMBER = re.compile(r"true|false|[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.I)

_WORD = re.compile(r"\w[\w.,]*", re.ASCII)

NAMES_FILES = re.compile(r"dump|(?<!pro)file|_dir(?:_|$|ectory)|path|_to$|_from$|_cache_prefix")
"""Parts of names of flags that name files."""

_FOR_OTHERS = re.compile(r"extra|option|plugin|librar|command_line")
"""Parts of names of flags that pass options to another program, or load one."""


def is_harmless(name: str, value: Any) -> bool:
    """True for a flag that somebody else's file may set: it names no file and starts nothing.

    Its value is a number, true or false, or for some flags a word. A text could be LLVM's or an
    assembler's options, which write files and start programs.
    """
    if not re.fullmatch(r"[a-z]\w*", name, re.ASCII) or NAMES_FILES.search(name):
        return False
    if any(name in backend.words for backend in backends()):
        return isinstance(value, str) and _WORD.fullmatch(value) is not None
    if _FOR_OTHERS.search(name):
        return False
    return isinstance(value, bool | int | float | str) and bool(_NUMBER.fullmatch(str(value)))


def flag_names(value: str) -> set[str]:
    """The names of the flags in a variable that holds some, such as `XLA_FLAGS`."""
    return {word.lstrip("-").partition("=")[0] for word in value.split()}
