"""Loaded libraries are those that the process maps, not those that are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = (
    "import json; from xla_sweeps.backends.tensorflow.libraries import loaded_libraries as found; "
)


@pytest.fixture
def cudnn(tmp_path: Path) -> Path:
    """A library with the name and the function of cuDNN."""
    source, library = tmp_path / "cudnn.c", tmp_path / "libcudnn.so.9"
    source.write_text("#include <stddef.h>\nsize_t cudnnGetVersion(void) { return 91002; }\n")
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    return library


def shown(preload: str) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", SHOW + "print(json.dumps(found()))"],
        env={**os.environ, "LD_PRELOAD": preload},
        capture_output=True,
        check=True,
        text=True,
    )
    libraries: dict[str, str] = json.loads(done.stdout)
    return libraries


def test_a_library_that_is_loaded_tells_its_own_version(cudnn: Path) -> None:
    assert shown(str(cudnn))["cudnn"] == "91002"
    assert "cudnn" not in shown("")


def test_one_that_cannot_be_asked_is_known_by_its_file(cudnn: Path, tmp_path: Path) -> None:
    allocator = cudnn.rename(tmp_path / "libtcmalloc_minimal.so.4.5.9")
    assert shown(str(allocator))["tcmalloc_minimal"] == "libtcmalloc_minimal.so.4.5.9"
