"""TensorFlow's declaration with other programs in place of its own, such as a scripted worker."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import faults  # noqa: F401  (which it may be made to have)
from paths import SUPPORT

from xla_sweeps.schema import backend
from xla_sweeps.schema.backend import Backend, default_backend

FAKE_WORKER = (sys.executable, str(SUPPORT / "fake_worker.py"))

BACKEND: Backend
"""The backend that `use` has declared."""


def scripted(*script: str) -> Backend:
    """A backend whose worker follows a script of `fake_worker.py`."""
    return started_by(*FAKE_WORKER, *script)


def started_by(*worker: str) -> Backend:
    """A backend whose worker is another command."""
    return replace(default_backend(), programs={"worker": worker})


def use(declared: Backend) -> None:
    """Have this process take it for TensorFlow, from now on."""
    global BACKEND
    BACKEND = declared
    backend.BACKENDS["tensorflow"] = f"{Path(__file__).stem}:BACKEND"
    backend.backend_named.cache_clear()
