"""Variables that TensorFlow reads once, for every test of this folder.

Here, because the first module that computes something settles it for the rest of the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ["TF_XLA_FLAGS"] = "--tf_xla_cpu_global_jit"  # once: given twice it has no effect


@pytest.fixture
def cleared() -> Iterator[None]:
    """Forgets the models of a test after it."""
    import keras

    yield
    keras.backend.clear_session()
