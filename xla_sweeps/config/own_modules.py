"""Tell models of Keras and PyTorch without loading either; refuse what cannot be measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xla_sweeps.errors import ConfigError


def is_keras_model(value: Any) -> bool:
    """True for an instance of the Model of Keras 3 or of tf_keras."""
    bases = type(value).__mro__
    return any(base.__name__ == "Model" and "keras" in base.__module__ for base in bases)


def is_module(value: Any) -> bool:
    """True for an instance of `torch.nn.Module`."""
    bases = type(value).__mro__
    return any(
        (base.__module__, base.__name__) == ("torch.nn.modules.module", "Module") for base in bases
    )


def require_inference(module: Any, where: str) -> None:
    """Refuse a module that is compiled already, or whose layers would train in a call.

    Raises:
        ConfigError: it says what to do.
    """
    if hasattr(module, "_orig_mod"):
        raise ConfigError(f"{where}: the module is compiled; give the one below it: {_INNER}")
    for name, part in module.named_modules():
        if hasattr(part, "_orig_mod"):
            kind = type(part._orig_mod).__name__
            raise ConfigError(f"{where}: its part {name} ({kind}) {_COMPILED}")
    if any(base.__name__ == "ScriptModule" for base in type(module).__mro__):
        raise ConfigError(
            f"{where}: the module is of torch.jit, which torch.compile does not take; give the one "
            "from which it was made"
        )
    if names := ", ".join(sorted(set(_training_layers(module)))):
        raise ConfigError(
            f"{where}: the module is in training mode, with {names}: call module.eval() first"
        )


def require_uncompiled(value: Any, where: str) -> None:
    """Refuse a function that `torch.compile` returned, and a program of `torch.export`.

    Raises:
        ConfigError: it says what to do.
    """
    is_wrapped = hasattr(value, "_torchdynamo_orig_callable") and not is_module(value)
    if is_wrapped and not getattr(value, "_torchdynamo_disable", False):
        raise ConfigError(f"{where}: the function {_COMPILED}")
    if type(value).__name__ == "ExportedProgram":
        raise ConfigError(
            f"{where}: an exported program; give the module from which it was made: the modes "
            "export it"
        )


_INNER = "module._orig_mod; the modes compile it"

_COMPILED = "is compiled; leave torch.compile to the modes, and give what is below it"


def _training_layers(module: Any) -> Iterator[str]:
    """Classes of the layers that drop values, or take the statistics of a batch, in each call."""
    for layer in module.modules():
        bases = {base.__name__ for base in type(layer).__mro__}
        rate = getattr(layer, "p" if "_DropoutNd" in bases else "dropout", 0.0)
        drops = isinstance(rate, (int, float)) and rate > 0
        if layer.training and (drops or "_BatchNorm" in bases):
            yield type(layer).__name__
