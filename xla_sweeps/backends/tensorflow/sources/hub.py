"""TensorFlow Hub: published SavedModels by their handles, or copies with random weights.

A copy is built once. `python -m xla_sweeps.backends.tensorflow.sources.hub NAME` builds one, in a
process of its own, so that the memory that building takes does not stay in a measuring process.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import packaging.version
import tensorflow as tf

from xla_sweeps.backends.keras.sources import LoadedModel, not_loaded
from xla_sweeps.backends.tensorflow.sources import saved_model
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.trial import ModelSpec
from xla_sweeps.system.environment import is_installed, replica_folder
from xla_sweeps.system.process import python_command


def load(spec: ModelSpec) -> LoadedModel:
    """Load the model that `weights` names: a copy, the published model, or another SavedModel."""
    handle = spec.recipe["handle"]
    if spec.weights == "random":
        loaded = _load(str(ensure(spec.name)), spec)
        return replace(loaded, replica_of=handle)
    return _load(handle if spec.weights == "imagenet" else spec.weights, spec)


def _load(handle: str, spec: ModelSpec) -> LoadedModel:
    try:
        saved = _library().load(handle)
    except Exception as error:
        raise not_loaded(spec, handle, error, check="the network or TFHUB_CACHE_DIR") from error
    return saved_model.adapt(saved, spec, where=handle)


def _library() -> Any:
    """TensorFlow Hub, which takes one function of pkg_resources; setuptools 81 has none."""
    lacks = not is_installed("pkg_resources")
    if lacks:
        stand_in: Any = SimpleNamespace(parse_version=packaging.version.parse)
        sys.modules["pkg_resources"] = stand_in
    import tensorflow_hub

    if lacks:
        del sys.modules["pkg_resources"]
    return tensorflow_hub


def ensure(name: str) -> Path:
    """The folder of a model's copy, which another process builds if it does not exist yet.

    Raises:
        XlaSweepsError: it cannot be built.
    """
    place = replica_folder(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # if two processes need it, one builds it
        if not (place / "saved_model.pb").is_file():
            done = subprocess.run(
                python_command(__name__, name), stdin=subprocess.DEVNULL, check=False
            )
            if done.returncode:
                raise XlaSweepsError(
                    f"the copy of {name} with random weights could not be built "
                    f"(exit code {done.returncode})"
                )
    return place


def make(name: str) -> None:
    """Build a model's architecture with random weights and save it atomically."""
    import keras

    from xla_sweeps.backends.tensorflow import hub_architectures

    keras.utils.set_random_seed(0)
    model = hub_architectures.build(name)
    module = tf.Module()
    module.model = model  # so that its variables are saved
    signature = tf.TensorSpec((None, *model.inputs[0].shape[1:]), tf.float32, name="images")
    module.__call__ = tf.function(
        lambda images: model(images, training=False), input_signature=[signature]
    )
    place = replica_folder(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{name}.") as workshop:
        tf.saved_model.save(module, f"{workshop}/model")
        shutil.rmtree(place, ignore_errors=True)
        Path(workshop, "model").rename(place)


if __name__ == "__main__":
    make(sys.argv[1])
