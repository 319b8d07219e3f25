"""The libraries that this process has loaded, with the versions that they tell themselves."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

_LIBRARY = re.compile(
    r"lib(?P<name>cublas|cublasLt|cudart|cudnn|nccl|gomp|iomp5|jemalloc|mimalloc|mkl_rt|omp"
    r"|openblas|tcmalloc\w*)\.so[.\d]*"
)
"""Libraries that compute, allocate memory or start threads."""

_VERSION = {"cudnn": "cudnnGetVersion", "cublasLt": "cublasLtGetVersion"}
"""Functions without arguments that return the version as a number."""


def loaded_libraries() -> dict[str, str]:
    """Version by name; of a library without a function for it, the name of its file.

    What is installed need not be what is loaded: LD_LIBRARY_PATH and LD_PRELOAD come first.
    """
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = {Path(line.split(maxsplit=5)[5]) for line in lines if "/" in line}
    versions = {}
    for path in sorted(paths):
        library = _LIBRARY.fullmatch(path.name)
        if library:
            versions[library["name"]] = _version(path, library["name"]) or path.name
    return versions


def _version(path: Path, name: str) -> str:
    """The version that the library itself returns; "" where it cannot be asked."""
    if name not in _VERSION:
        return ""
    try:
        # Only a library that is there already: asking must load nothing.
        function = getattr(ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD), _VERSION[name])
    except (OSError, AttributeError):
        return ""
    function.restype = ctypes.c_size_t
    return str(function())
