"""Run TensorFlow's profiler (tried on 2.21.0)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import tensorflow as tf

from xla_sweeps.backends.keras import xplane


@contextlib.contextmanager
def record_profile(*, at_most_s: float = threading.TIMEOUT_MAX) -> Iterator[xplane.Space]:
    """Run the profiler for at most so long; the `Space` is filled at the end."""

    @contextlib.contextmanager
    def profiler(folder: str) -> Iterator[None]:
        tf.profiler.experimental.start(folder)
        early = threading.Timer(at_most_s, _stop)
        early.start()
        try:
            yield
        finally:
            early.cancel()
            _stop()

    with xplane.record_profile(profiler) as space:
        yield space


def _stop() -> None:
    with contextlib.suppress(tf.errors.UnavailableError):  # it was stopped before
        tf.profiler.experimental.stop()
