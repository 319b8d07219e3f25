"""Read what a profiler of TensorFlow or JAX wrote: its `XSpace`, without either of them.

The messages are those of `xplane.proto`, tried on TensorFlow 2.21.0 and JAX 0.11.2. The library for
it, xprof 2.24, brings 35 packages along (cloud clients, a web server, a database).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from xla_sweeps.backends.keras.explain.events import Event
from xla_sweeps.backends.keras.messages import ProgramMessage, declared_pool, message_class

_PS = 1e-12

_MESSAGES = """
Space { planes = 1: Plane* }
Plane { name = 2: string, lines = 3: Line*, event_metadata = 4: EventMetadataEntry*,
  stat_metadata = 5: StatMetadataEntry* }
EventMetadataEntry { key = 1: int64, value = 2: EventMetadata }
StatMetadataEntry { key = 1: int64, value = 2: StatMetadata }
EventMetadata { name = 2: string, stats = 5: Stat* }
StatMetadata { name = 2: string }
Line { timestamp_ns = 3: int64, events = 4: Event* }
Event { metadata_id = 1: int64, offset_ps = 2: int64, duration_ps = 3: int64, stats = 4: Stat* }
Stat { metadata_id = 1: int64, double_value = 2: double, uint64_value = 3: uint64,
  int64_value = 4: int64, str_value = 5: string, bytes_value = 6: bytes, ref_value = 7: uint64 }
"""

SpaceMessage = message_class(declared_pool(_MESSAGES, syntax="proto2"), "Space")


class Space:
    """The planes that a profiler wrote: one for the host's threads, one for each GPU."""

    def __init__(self, content: bytes = b"") -> None:
        self.read(content)

    def read(self, content: bytes) -> None:
        """Take what this `XSpace` has."""
        self._planes = SpaceMessage.FromString(content).planes

    def events(self) -> Iterator[Event]:
        """All events, one thread or stream after the other."""
        lines = [(plane, line) for plane in self._planes for line in plane.lines if line.events]
        begin_ns = min((line.timestamp_ns for _, line in lines), default=0)
        for plane in self._planes:
            names = {entry.key: entry.value.name for entry in plane.stat_metadata}
            titles = {entry.key: entry.value.name for entry in plane.event_metadata}
            for line in plane.lines:
                for event in line.events:
                    start_ps = (line.timestamp_ns - begin_ns) * 1000 + event.offset_ps
                    yield Event(
                        name=titles.get(event.metadata_id, ""),
                        start_s=start_ps * _PS,
                        end_s=(start_ps + event.duration_ps) * _PS,
                        facts=dict(_value(stat, names) for stat in event.stats),
                        on_gpu=plane.name.startswith("/device:GPU:"),
                    )

    def program(self, function: str) -> Any:
        """The optimized program that ran of a function, an `HloModuleProto`; else `ValueError`."""
        for name, content in self._programs():
            if f"{function}_" in name:
                return ProgramMessage.FromString(content).hlo_module
        raise ValueError(f"the profiler has no program of {function}")

    def programs(self, names: Collection[str]) -> dict[str, Any]:
        """Some of the optimized programs of the process, `HloModuleProto`s by `name(number)`."""
        return {
            name: ProgramMessage.FromString(content).hlo_module
            for name, content in self._programs()
            if name in names
        }

    def _programs(self) -> Iterator[tuple[str, bytes]]:
        for plane in self._planes:
            for entry in plane.event_metadata if plane.name == "/host:metadata" else ():
                for stat in entry.value.stats:
                    if stat.bytes_value:
                        yield entry.value.name, stat.bytes_value


@contextmanager
def record_profile(profiler: Callable[[str], AbstractContextManager[object]]) -> Iterator[Space]:
    """Run a profiler that writes into a folder; the `Space` is filled at the end."""
    space = Space()
    with tempfile.TemporaryDirectory(prefix="xla-sweeps-") as folder:
        with profiler(folder):
            yield space
        (file,) = Path(folder).rglob("*.xplane.pb")
        space.read(file.read_bytes())


def _value(stat: Any, names: Mapping[int, str]) -> tuple[str, Any]:
    fact, value = names.get(stat.metadata_id, ""), None
    for kind, content in stat.ListFields():
        if kind.name == "ref_value":
            value = names.get(content, "")
        elif kind.name != "metadata_id":
            value = content
    return fact, value
