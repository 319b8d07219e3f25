"""The settings that pairs were measured in: only pairs of one setting are averaged. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xla_sweeps.schema.columns import Part
from xla_sweeps.schema.row import COLUMNS, ComparisonRow, value_of

_SHOWN = ("device", "resolution_px", "batch_size")
"""Columns of a setting that every table shows."""

_COLUMNS = (
    *_SHOWN,
    *(
        name
        for name, column in COLUMNS.items()
        if column.asked and column.asked.part is Part.SETTING and name not in _SHOWN
    ),
)
"""Columns of a setting, in the order in which settings are sorted."""


@dataclass(frozen=True, slots=True, order=True)
class Setting:
    """The setting in which pairs were measured: the values of its columns."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        pixels = f"{self.resolution_px} px" if self.resolution_px else "no images"
        return ", ".join([self.device, pixels, f"batch {self.batch_size}", self.other])

    @property
    def device(self) -> str:
        """The device's name."""
        return str(self.document()["device"])

    @property
    def resolution_px(self) -> int:
        """Side of the square input; 0 where the model takes something else."""
        return int(self.document()["resolution_px"])

    @property
    def batch_size(self) -> int:
        """Samples of one batch."""
        return int(self.document()["batch_size"])

    @property
    def other(self) -> str:
        """The values that no column of a table shows, without the usual ones."""
        parts = [
            asked.write(value)
            for name, value in self.document().items()
            if (asked := COLUMNS[name].asked) and name not in _SHOWN
            if name == "precision" or str(value) != asked.usual
        ]
        return ", ".join(filter(None, parts))

    def document(self) -> dict[str, Any]:
        """The values by column."""
        return dict(zip(_COLUMNS, self.values, strict=True))


Pairs = list[ComparisonRow]


def by_setting(pairs: Sequence[ComparisonRow]) -> dict[Setting, Pairs]:
    """The pairs of each setting, in the settings' order."""
    groups: dict[Setting, Pairs] = {}
    for row in pairs:
        setting = Setting(tuple(value_of(row, name) for name in _COLUMNS))
        groups.setdefault(setting, []).append(row)
    return dict(sorted(groups.items()))


def commonest(pairs: Sequence[ComparisonRow]) -> dict[Setting, Pairs]:
    """Each device's setting with the most pairs; the device with the most pairs first."""
    sizes = Counter(row.trial.device for row in pairs)
    best: dict[str, tuple[Setting, Pairs]] = {}
    for setting, rows in by_setting(pairs).items():
        if len(rows) > len(best.get(setting.device, (setting, []))[1]):
            best[setting.device] = setting, rows
    return dict(sorted(best.values(), key=lambda group: -sizes[group[0].device]))
