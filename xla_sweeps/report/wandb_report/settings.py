"""The settings that pairs were measured in: only pairs of one setting are averaged. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.row import ComparisonRow, value_of


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Setting:
    """Where and how pairs were measured; the fields are columns."""

    device: str
    resolution_px: int
    batch_size: int
    precision: str
    scenario: str
    batches: int
    keras: str
    optimizer: str
    data: str
    runtime: str

    def __str__(self) -> str:
        pixels = f"{self.resolution_px} px" if self.resolution_px else "no images"
        return ", ".join([self.device, pixels, f"batch {self.batch_size}", self.other])

    @property
    def other(self) -> str:
        """What is beside device, resolution and batch size, where it is not the usual."""
        parts = [
            self.precision,
            self.scenario if self.scenario != Scenario.CALL else "",
            f"{self.batches} batches a call" if self.batches > 1 else "",
            f"Keras {self.keras}" if self.keras else "",
            self.optimizer,
            self.data,
            self.runtime,
        ]
        return ", ".join(filter(None, parts))


Pairs = list[ComparisonRow]


def by_setting(pairs: Sequence[ComparisonRow]) -> dict[Setting, Pairs]:
    """The pairs of each setting, in the settings' order."""
    found: dict[Setting, Pairs] = {}
    names = [field.name for field in fields(Setting)]
    for row in pairs:
        found.setdefault(Setting(**{name: value_of(row, name) for name in names}), []).append(row)
    return dict(sorted(found.items()))


def commonest(pairs: Sequence[ComparisonRow]) -> dict[Setting, Pairs]:
    """Of each device the setting with the most pairs; the device with the most pairs first."""
    sizes = Counter(row.trial.device for row in pairs)
    best: dict[str, tuple[Setting, Pairs]] = {}
    for setting, rows in by_setting(pairs).items():
        if len(rows) > len(best.get(setting.device, (setting, []))[1]):
            best[setting.device] = setting, rows
    return dict(sorted(best.values(), key=lambda item: -sizes[item[0].device]))
