"""The flags that an installed framework takes, as XLA lists them itself.

XLA aborts at a flag that it does not know, so a process of its own is asked. The answer is kept for
each version of the framework.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import msgspec

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.backend import Backend
from xla_sweeps.system import environment
from xla_sweeps.system.devices import Device
from xla_sweeps.system.files import read_regular, replace_whole

KINDS = {"bool": "bool", "int32": "int", "int64": "int", "float": "float", "string": "str"}
"""Types by their name in XLA's list."""

LIMIT_S = 300.0

_LINE = re.compile(rf"^\t--(\w+)=.*?\t({'|'.join(KINDS)})\t", re.M)

_HOST = Device(kind="cpu", index=0, name="")


class Flags(msgspec.Struct):
    """Flags of one variable, such as `XLA_FLAGS`.

    Attributes:
        kinds: `bool`, `int`, `float` or `str` by flag; the list may be cut off at its end.
        accepted: `name=value` of others that were taken.
    """

    kinds: dict[str, str]
    accepted: list[str] = []


@cache
def known(backend: Backend, variable: str) -> Flags:
    """The flags of a variable.

    Raises:
        ConfigError: the framework does not list them.
    """
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(read_regular(_place(backend, variable)), type=Flags)
    _, text = _ask(backend, variable, "--help")
    kinds = {name: KINDS[kind] for name, kind in _LINE.findall(text)}
    if not kinds:
        raise ConfigError(
            f"{backend.title} does not list its flags; set {variable} in the environment instead"
        )
    flags = Flags(kinds)
    _keep(backend, variable, flags)
    return flags


def accepts(backend: Backend, variable: str, name: str, value: str) -> bool:
    """True if a framework takes a flag that its list does not name, with this value.

    Raises:
        ConfigError: it does not start with it, for another reason than that it does not know it.
    """
    flags, word = known(backend, variable), f"{name}={value}"
    if word not in flags.accepted:
        code, text = _ask(backend, variable, f"--{word}")
        if code and "Unknown flag" in text:
            return False
        if code:
            raise ConfigError(
                f"{backend.title} does not start with {variable}=--{word} (exit code {code}); "
                "remove it"
            )
        flags.accepted.append(word)
        _keep(backend, variable, flags)
    return True


def _ask(backend: Backend, variable: str, value: str) -> tuple[int, str]:
    """Exit code and messages of a process that reads the flags."""
    extra = {**backend.logging(2), variable: value}
    child = environment.child_environment({}, device=_HOST, backend=backend, extra=extra)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    try:
        done = subprocess.run(
            backend.command("flags"),
            env={**kept, **child},
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{backend.title} did not list its flags within {LIMIT_S:g} s") from error
    return done.returncode, done.stderr.decode(errors="replace")


def _place(backend: Backend, variable: str) -> Path:
    version = environment.versions().get(backend.name, "")
    return environment.cache_dir() / "flags" / f"{version}-{variable}.json"


def _keep(backend: Backend, variable: str, flags: Flags) -> None:
    with contextlib.suppress(OSError):
        replace_whole(_place(backend, variable), msgspec.json.encode(flags))
