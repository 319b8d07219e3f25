"""The flags that an installed framework takes, as XLA lists them itself.

XLA aborts at a flag that it does not know, so a process of its own is asked. Its list is kept for
each version of the framework.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from functools import cache

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


@cache
def known(backend: Backend, variable: str) -> dict[str, str]:
    """`bool`, `int`, `float` or `str` by flag of a variable; the list may be cut off at its end.

    Raises:
        ConfigError: the framework does not list them.
    """
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
    """True if a framework takes a flag that its list does not name, with this value.

    Raises:
        ConfigError: it does not start with it, for another reason than that it does not know it.
    """
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
