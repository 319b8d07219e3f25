"""Run TensorFlow's profiler (tried on 2.21.0)."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from xla_sweeps.backends.keras.xplane import Space


@contextlib.contextmanager
def recorded(*, at_most_s: float | None = None) -> Iterator[Space]:
    """Run the profiler; the `Space` is filled at the end."""
    space = Space()
    with tempfile.TemporaryDirectory(prefix="xla-sweeps-") as folder:
        tf.profiler.experimental.start(folder)
        early = threading.Timer(at_most_s or 0.0, _stop)
        if at_most_s is not None:
            early.start()
        try:
            yield space
        finally:
            early.cancel()
            _stop()
        (file,) = Path(folder).rglob("*.xplane.pb")
        space.read(file.read_bytes())


def _stop() -> None:
    with contextlib.suppress(tf.errors.UnavailableError):  # it was stopped before
        tf.profiler.experimental.stop()
