"""Import the user's own code, in the trial's float type."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import keras

from xla_sweeps.config.own_imports import dots_of, folder_above
from xla_sweeps.errors import ConfigError
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker.lines import users_line

_TOO_LATE = re.compile("cannot be modified after (being )?initiali")
"""Errors of TensorFlow for settings that a process makes before it computes."""

_BY_OPTIONS = (
    "; TensorFlow has started by then: use the options threads.intra, threads.inter, device"
)

_FOR_SCRIPTS = (
    "; what only a script does, such as reading the command line, belongs below "
    "if __name__ == '__main__'"
)

ENDS = (Exception, SystemExit)
"""Ways in which the user's code may end without a result."""


def import_named(name: str, where: str) -> Any:
    """The module of this name, or of this file; a float type that it sets counts.

    Raises:
        ConfigError: it cannot be imported.
    """
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    try:
        module = _import(name)
    except MemoryError:
        raise
    except ENDS as error:
        more = _FOR_SCRIPTS if isinstance(error, SystemExit) else ""
        reason = f"{name} cannot be imported: {describe_error(error)}{more}"
        raise ConfigError(f"{where}: {reason}") from error
    if {floatx, policy.name} != {"float32"}:  # of the trial, which comes before the file's
        keras.config.set_floatx(floatx)
    elif keras.config.floatx() != floatx and keras.config.dtype_policy() is policy:
        # Keras takes the type for its policy until it was asked for one, as it was here.
        keras.config.set_dtype_policy(keras.config.floatx())
    return module


def describe_error(error: BaseException) -> str:
    """The error of the user's code, with its line."""
    line = users_line(error)
    text = f"{type(error).__name__}: {error_line(error)}"
    if isinstance(error, SystemExit):
        text = f"it calls sys.exit({error.code!r})"
    elif _TOO_LATE.search(text):
        text = f"{text.rstrip('.')}{_BY_OPTIONS}"
    return text + (f" ({line})" if line else "")


def _import(name: str) -> Any:
    """The module of this name, or of a file, whose neighbours it finds as if it were run.

    It also finds what lies above its packages, and in the current folder if it lies below it, as
    in a repository of which a person has typed the path of a file.
    """
    if not name.endswith(".py"):
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    file = Path(name).expanduser().resolve()
    dots = dots_of(file)
    root = folder_above(file, dots)
    sys.path.insert(0, str(file.parent))
    sys.path += [str(folder) for folder in (root, Path.cwd()) if file.is_relative_to(folder)]
    if dots:
        sys.path.insert(0, str(root))
        return importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))
    specification = importlib.util.spec_from_file_location(file.stem, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[file.stem] = module
    specification.loader.exec_module(module)
    return module
