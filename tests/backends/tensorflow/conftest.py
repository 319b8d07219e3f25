"""Variables that TensorFlow reads once, for every test of this folder.

Here, because the first module that computes something settles it for the rest of the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import SUPPORT

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ["TF_XLA_FLAGS"] = "--tf_xla_cpu_global_jit"  # once: given twice it has no effect


@pytest.fixture
def cleared() -> Iterator[None]:
    """Forgets the models of a test after it."""
    import keras

    yield
    keras.backend.clear_session()


@pytest.fixture
def in_support(monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is that of the models of tests, which are imported from there too."""
    monkeypatch.chdir(SUPPORT)
    monkeypatch.syspath_prepend(str(SUPPORT))


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, cleared: None
) -> None:
    """The current folder is a new one that has the `FILES` of the test's module."""
    monkeypatch.chdir(tmp_path)
    for name, text in request.module.FILES.items():
        (tmp_path / name).write_text(text)
