"""Check the options of the framework itself: its flags, its threads, its libraries.

XLA aborts at a flag that it does not know, so a process of its own is asked. Its list is kept for
each version of the framework. What is refused is a `ConfigError` with what to do instead.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from xla_sweeps.config import values
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.schema.backend import (
    NAMES_FILES,
    Backend,
    backends,
    default_backend,
    flag_names,
    is_harmless,
)
from xla_sweeps.schema.trial import ModelSpec, Runtime, as_typed
from xla_sweeps.system import environment, programs
from xla_sweeps.system.devices import Device
from xla_sweeps.system.files import read_regular, replace_whole

_NAME = re.compile(r"[a-z][a-z0-9_]*")

_TEXT = re.compile(r"[\w.,:=+-]+", re.ASCII)
"""A value of a flag that is a text: it neither ends the flag nor leaves the folder."""

KINDS = {"bool": "bool", "int32": "int", "int64": "int", "float": "float", "string": "str"}
"""Types by their name in XLA's list."""

_LINE = re.compile(rf"^\t--(\w+)=.*?\t({'|'.join(KINDS)})\t", re.M)

_HOST = Device(kind="cpu", index=0, name="")


def check_backend(backend: Backend, spec: ModelSpec) -> None:
    """Refuse a backend that is not installed, or that cannot run the model."""
    library = spec.recipe.get("library", spec.library)
    environment.require(backend, library)
    kind = "a SavedModel" if spec.recipe.get("kind") == "saved_model" else f"built by {library}"
    if backend.libraries and (library not in backend.libraries or kind == "a SavedModel"):
        raise ConfigError(
            f"backend={backend.name}: {spec.name} from source={spec.source} is {kind}, which runs "
            f"on {default_backend().title} only; leave backend out, or choose a model of "
            "Keras 3 (`xla-sweeps models`)"
        )


def check_runtime(
    document: Mapping[str, Any], environ: Mapping[str, str], backend: Backend
) -> Runtime:
    """The options of the framework itself; each flag has a value of its type.

    None may be set by the environment too (`environ`, which the measuring process gets).
    """
    asked = {"onednn": document["onednn"]}
    if document["threads"] is not None:
        asked |= values.read_nested(document, "threads")
    for key, value in asked.items():
        if value is not None and (variable := _variable(backend.switches, key, backend)) in environ:
            raise ConfigError(f"{key}={value}: {variable} is set too; unset it")
    intra, inter = (
        values.optional(values.integer, asked, key, at_least=1, at_most=4096)
        for key in ("threads.intra", "threads.inter")
    )
    return Runtime(
        xla_flags=_flags("xla_flags", document["xla_flags"], environ, backend),
        tf_xla_flags=_flags("tf_xla_flags", document["tf_xla_flags"], environ, backend),
        intra_threads=intra,
        inter_threads=inter,
        onednn=values.optional(values.boolean, document, "onednn"),
    )


def flag_options() -> set[str]:
    """The options that hold flags of a backend."""
    return {option for backend in backends() for option in backend.flags}


def check_flags(flags: Any, *, where: str) -> None:
    """Refuse flags of a file or a server that could write files or start programs."""
    if flags is None:
        return
    if not isinstance(flags, Mapping):
        raise ConfigError(f"{where}={flags}: write NAME: VALUE below it")
    for name, value in flags.items():
        if NAMES_FILES.search(str(name)):
            raise ConfigError(f"{where}.{name}={value}: a trial's flags name no files; remove it")
        if value is not None and not is_harmless(str(name), value):
            raise ConfigError(
                f"{where}.{name}={value}: only your own command line may set this flag, as it may "
                "write files or start programs: remove it here and add it there"
            )


def _variable(variables: Mapping[str, str], option: str, backend: Backend) -> str:
    """The variable that an option is passed in; some frameworks lack the option."""
    if option not in variables:
        raise ConfigError(f"{option}: {backend.title} has no such option; leave it out")
    return variables[option]


def _flags(option: str, given: Any, environ: Mapping[str, str], backend: Backend) -> dict[str, Any]:
    """The flags of one option, each with a value of its type."""
    if given is None or given == {}:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{option}={given}: write {option}.NAME=VALUE")
    variable = _variable(backend.flags, option, backend)
    flags = {}
    for word, value in given.items():
        name = str(word)  # YAML reads `nan` as a number
        key = f"{option}.{name}"
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{key}={value}: expected a flag's name: small letters, digits and _")
        if NAMES_FILES.search(name):
            raise ConfigError(f"{key}={value}: a trial's flags name no files; remove it")
        if name in flag_names(environ.get(variable, "")):
            raise ConfigError(f"{key}={value}: {variable} sets it too; unset it there")
        flags[name] = _typed_value(option, name, value, backend)
    return dict(sorted(flags.items()))


def _typed_value(option: str, name: str, value: Any, backend: Backend) -> Any:
    """The value in the flag's own type; XLA itself is asked about what it does not list."""
    variable, key = backend.flags[option], f"{option}.{name}"
    flags = listed_flags(backend, variable)
    if name in flags:
        return _value(key, value, flags[name])
    text = str(_value(key, value, "str"))
    if not accepts(backend, variable, name, text):
        raise unknown_name(f"flag in {option}", f"{name}={text}", flags)
    return value


def _value(key: str, value: Any, kind: str) -> Any | int | float | str:
    """A flag's value in its own type: `bool`, `int`, `float` or `str`."""
    one = {key: value}
    if kind == "bool":
        return values.boolean(one, key)
    if kind == "int":
        return values.integer(one, key, at_least=-(2**63), at_most=2**63 - 1)
    if kind == "float":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not abs(value) <= sys.float_info.max:
            raise ConfigError(f"{key}={value}: expected a finite number")
        return float(value)
    text = as_typed(value)
    if not isinstance(value, str | int | float) or not _TEXT.fullmatch(text):
        raise ConfigError(f"{key}={value}: expected letters, digits and _ . , : = + -")
    return text


@cache
def listed_flags(backend: Backend, variable: str) -> dict[str, str]:
    """`bool`, `int`, `float` or `str` by flag of a variable; the list may be cut off at its end."""
    version = environment.versions().get(backend.name, "")
    place = environment.cache_dir() / "flags" / f"{version}-{variable}.json"
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(read_regular(place), type=dict[str, str])
    _, text = _ask(backend, variable, "--help")
    kinds = {name: KINDS[kind] for name, kind in _LINE.findall(text)}
    if not kinds:
        raise ConfigError(
            f"{backend.title} does not list its flags; set {variable} in the environment instead"
        )
    with contextlib.suppress(OSError):
        replace_whole(place, msgspec.json.encode(kinds))
    return kinds


@cache
def accepts(backend: Backend, variable: str, name: str, value: str) -> bool:
    """True if a framework takes a flag that its list does not name, with this value."""
    code, text = _ask(backend, variable, f"--{name}={value}")
    if code and "Unknown flag" not in text:
        raise ConfigError(
            f"{backend.title} does not start with {variable}=--{name}={value} (exit code {code}); "
            "remove it"
        )
    return not code


def _ask(backend: Backend, variable: str, value: str) -> tuple[int, str]:
    """Exit code and messages of a process that reads the flags."""
    extra = {**backend.logging(2), variable: value}
    child = environment.child_environment({}, device=_HOST, backend=backend, extra=extra)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    done = programs.run(backend, "flags", environment={**kept, **child})
    if done.code is None:
        raise ConfigError(f"{backend.title} did not list its flags within {done.limit_s:g} s")
    return done.code, done.log
