"""Loaded libraries are those that the process maps, not those that are installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from programs import run_program

SHOW = (
    "import json; from xla_sweeps.backends.tensorflow.libraries import loaded_libraries; "
    "print(json.dumps(loaded_libraries()))"
)


def test_a_loaded_library_tells_its_version_else_its_file(tmp_path: Path) -> None:
    source, cudnn = tmp_path / "cudnn.c", tmp_path / "libcudnn.so.9"
    source.write_text("#include <stddef.h>\nsize_t cudnnGetVersion(void) { return 91002; }\n")
    try:
        run_program("cc", "-shared", "-fPIC", "-o", cudnn, source)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    allocator = tmp_path / "libtcmalloc_minimal.so.4.5.9"
    allocator.write_bytes(cudnn.read_bytes())
    preloaded = {"LD_PRELOAD": f"{cudnn}:{allocator}"}
    done = run_program(sys.executable, "-c", SHOW, more=preloaded)
    libraries = json.loads(done.stdout)
    assert libraries["cudnn"] == "91002"
    assert libraries["tcmalloc_minimal"] == allocator.name
    assert "cublas" not in libraries, "what is installed need not be loaded"
