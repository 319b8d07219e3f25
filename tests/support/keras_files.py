"""Files that look like Keras's, made without it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any


def write_keras_file(path: Path, weights: bytes = b"weights", *, config: Any = None) -> None:
    """Write a file as `model.save` does, with a configuration of its layers."""
    with zipfile.ZipFile(path, "w") as archive:  # of one date, so that equal content is equal
        archive.writestr(zipfile.ZipInfo("config.json"), json.dumps(config or {}))
        archive.writestr(zipfile.ZipInfo("model.weights.h5"), weights)


def input_layer(name: str, *sizes: int | None, dtype: str = "float32") -> dict[str, Any]:
    """An input in such a configuration."""
    config = {"name": name, "batch_shape": [None, *sizes], "dtype": dtype}
    return {"class_name": "InputLayer", "module": "keras.layers", "config": config}


def layer(name: str, module: str) -> dict[str, Any]:
    """A layer in such a configuration."""
    return {"class_name": name, "module": module, "config": {}}
