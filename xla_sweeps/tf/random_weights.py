"""Replicas of published TensorFlow Hub models: SavedModels of their architectures with random weights, made once.

Run as a program it makes one: `python -m xla_sweeps.tf.random_weights NAME`; in a process of its
    own, so that what building takes does not stay in a measuring process's memory.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.system.environment import replica_folder

SEED = 0


def is_made(name: str) -> bool:
    """Whether a model's replica is there, whole."""
    return (replica_folder(name) / "saved_model.pb").is_file()


def ensure(name: str) -> Path:
    """The folder of a model's replica, which is made in another process where it is not there yet.

    Raises:
        XlaSweepsError: it cannot be made.
    """
    place = replica_folder(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two that want it, one makes it
        if not is_made(name):
            done = subprocess.run(
                [sys.executable, "-m", __name__, name], stdin=subprocess.DEVNULL, check=False
            )
            if done.returncode or not is_made(name):
                raise XlaSweepsError(
                    f"the replica of {name} could not be made (exit code {done.returncode})"
                )
    return place


def make(name: str) -> Path:
    """Build a model's architecture with random weights and save it, all at once or not at all."""
    import keras
    import tensorflow as tf

    from xla_sweeps.tf import hub_architectures

    keras.utils.set_random_seed(SEED)
    model = hub_architectures.build(name)
    module = tf.Module()
    module.model = model  # its variables are saved with it
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
    return place


if __name__ == "__main__":
    make(sys.argv[1])
