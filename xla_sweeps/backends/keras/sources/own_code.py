"""Import the user's own code, in the trial's float type."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import keras

from xla_sweeps.errors import ConfigError
from xla_sweeps.trial.failures import error_line
from xla_sweeps.worker.lines import users_line


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
    except Exception as error:
        raise ConfigError(f"{where}: {name} cannot be imported: {describe_error(error)}") from error
    if {floatx, policy.name} != {"float32"}:  # of the trial, which comes before the file's
        keras.config.set_floatx(floatx)
    elif keras.config.floatx() != floatx and keras.config.dtype_policy() is policy:
        # Keras takes the type for its policy until it was asked for one, as it was here.
        keras.config.set_dtype_policy(keras.config.floatx())
    return module


def describe_error(error: Exception) -> str:
    """The error of the user's code, with its line."""
    line = users_line(error)
    return f"{type(error).__name__}: {error_line(error)}" + (f" ({line})" if line else "")


def _import(name: str) -> Any:
    if not name.endswith(".py"):
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    file = Path(name).expanduser().resolve()
    sys.path.insert(0, str(file.parent))  # its neighbours, as if it were run
    specification = importlib.util.spec_from_file_location(file.stem, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[file.stem] = module
    specification.loader.exec_module(module)
    return module
