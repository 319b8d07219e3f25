"""Run TensorFlow's profiler, and read its events.

Uses the protobuf of TensorFlow's own package, tried on 2.21.0. The library for it, xprof 2.24,
brings 35 packages along (cloud clients, a web server, a database).
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

_PS = 1e-12


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the profiler: an operation, or a step of the runtime."""

    name: str
    start_s: float
    end_s: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def length_s(self) -> float:
        """Seconds that it took."""
        return self.end_s - self.start_s


@contextlib.contextmanager
def recorded(*, at_most_s: float | None = None) -> Iterator[Any]:
    """Run the profiler; the `XSpace` is filled at the end.

    Args:
        at_most_s: end the profiler after so long.
    """
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

    space = XSpace()
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
        space.ParseFromString(file.read_bytes())


def _stop() -> None:
    with contextlib.suppress(tf.errors.UnavailableError):  # it was stopped before
        tf.profiler.experimental.stop()


def program(space: Any, function: str) -> Any:
    """The optimized program that ran of a function, an `HloModuleProto`.

    Raises:
        ValueError: the profiler has none.
    """
    from tensorflow.compiler.xla.service.hlo_pb2 import HloProto

    for plane in space.planes:
        if plane.name == "/host:metadata":
            for metadata in plane.event_metadata.values():
                for stat in metadata.stats if f"{function}_" in metadata.name else ():
                    if stat.bytes_value:
                        return HloProto.FromString(stat.bytes_value).hlo_module
    raise ValueError(f"the profiler has no program of {function}")


def events(space: Any) -> Iterator[Event]:
    """The profiler's events, one thread after the other."""
    lines = [(plane, line) for plane in space.planes for line in plane.lines if line.events]
    begin_ns = min((line.timestamp_ns for _, line in lines), default=0)
    for plane, line in lines:
        names = {number: metadata.name for number, metadata in plane.stat_metadata.items()}
        for event in line.events:
            start_s = ((line.timestamp_ns - begin_ns) * 1000 + event.offset_ps) * _PS
            yield Event(
                name=plane.event_metadata[event.metadata_id].name,
                start_s=start_s,
                end_s=start_s + event.duration_ps * _PS,
                facts={names[stat.metadata_id]: _value(stat, names) for stat in event.stats},
            )


def _value(stat: Any, names: Mapping[int, str]) -> Any:
    kind = stat.WhichOneof("value")
    return names[stat.ref_value] if kind == "ref_value" else getattr(stat, kind)
