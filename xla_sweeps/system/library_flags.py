"""The flags that the installed TensorFlow takes, as it lists them itself.

TensorFlow aborts at a flag that it does not know, so a process of its own is asked. The answer is
kept for each version of TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec

from xla_sweeps.errors import ConfigError
from xla_sweeps.system import environment
from xla_sweeps.system.devices import Device
from xla_sweeps.system.files import read_regular, replace_whole

KINDS = {"bool": "bool", "int32": "int", "int64": "int", "float": "float", "string": "str"}
"""Types as TensorFlow lists them, and as we call them."""

LIMIT_S = 300.0

_LINE = re.compile(rf"^\t--(\w+)=.*?\t({'|'.join(KINDS)})\t", re.M)

_HOST = Device(kind="cpu", index=0, name="")


class Flags(msgspec.Struct):
    """Flags of one variable, `XLA_FLAGS` or `TF_XLA_FLAGS`.

    Attributes:
        kinds: `bool`, `int`, `float` or `str` by flag; TensorFlow's list may be cut off at its end.
        accepted: `name=value` of others that TensorFlow took.
    """

    kinds: dict[str, str]
    accepted: list[str] = []


@cache
def known(variable: str) -> Flags:
    """The flags of a variable.

    Raises:
        ConfigError: TensorFlow does not list them.
    """
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(read_regular(_place(variable)), type=Flags)
    _, text = _ask(variable, "--help")
    kinds = {name: KINDS[kind] for name, kind in _LINE.findall(text)}
    if not kinds:
        raise ConfigError(
            f"TensorFlow does not list its flags; set {variable} in the environment instead"
        )
    flags = Flags(kinds)
    _keep(variable, flags)
    return flags


def accepts(variable: str, name: str, value: str) -> bool:
    """True if TensorFlow takes a flag that its list does not name, with this value.

    Raises:
        ConfigError: it does not start with it, for another reason than that it does not know it.
    """
    flags, word = known(variable), f"{name}={value}"
    if word not in flags.accepted:
        code, text = _ask(variable, f"--{word}")
        if code and "Unknown flag" in text:
            return False
        if code:
            raise ConfigError(
                f"TensorFlow does not start with {variable}=--{word} (exit code {code}); "
                "leave it out"
            )
        flags.accepted.append(word)
        _keep(variable, flags)
    return True


def _ask(variable: str, value: str) -> tuple[int, str]:
    """Exit code and messages of a process that reads the flags."""
    extra = {"TF_CPP_MIN_LOG_LEVEL": "2", variable: value}
    child = environment.child_environment({}, device=_HOST, extra=extra)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "xla_sweeps.backends.tensorflow.flags"],
            env={**kept, **child},
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"TensorFlow did not list its flags within {LIMIT_S:g} s") from error
    return done.returncode, done.stderr.decode(errors="replace")


def _place(variable: str) -> Path:
    version = environment.versions().get("tensorflow", "")
    return environment.cache_dir() / "flags" / f"{version}-{variable}.json"


def _keep(variable: str, flags: Flags) -> None:
    with contextlib.suppress(OSError):
        replace_whole(_place(variable), msgspec.json.encode(flags))
