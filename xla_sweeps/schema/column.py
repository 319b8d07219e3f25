"""Declaration of a column: its meaning, and its part in the question that a row answers."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from enum import StrEnum
from typing import Any


class Part(StrEnum):
    """Parts of a question: which model, in which setting, and what is compared with what."""

    MODEL = "model"
    SETTING = "setting"
    SIDES = "sides"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The mark of a column of the question: rows that agree in all of them answer the same one.

    Overview, labels, page, report and `compare` read it.

    Attributes:
        title: heading of its filter on the page; "" for a filter of another kind.
        words: how a value is written where no heading stands beside it: `batch {}`.
        usual: the value that goes without saying in a name.
        blank: what an empty value means, as a choice of the filter.
    """

    part: Part = Part.SETTING
    title: str = ""
    words: str = "{}"
    usual: str = ""
    blank: str = ""
    many: str = ""

    def write(self, value: Any) -> str:
        """A value in words; "" for an empty one, and for a setting that is off."""
        return self.words.format(value) if value != "" and value is not False else ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of comparison rows: declared once, by a field of a part of `ComparisonRow`.

    Attributes:
        path: of attributes, from the row: `speedup.low`.
        kind: str, bool, int or float; texts are never missing, and of the numbers only those that
            identify a trial never are.
        on_page: whether the page shows it.
        asked: its part in the question; None if rows that differ in it may answer the same one.
        figure: name of the figure that it shows and that bounds it in the next two columns, or "".
    """

    name: str
    path: str
    kind: type
    unit: str
    meaning: str
    on_page: bool
    asked: Asked | None
    figure: str = ""


OF_BEFORE = "of the column before"
"""In place of the unit of a bound."""


def as_column(
    meaning: str,
    *,
    unit: str = "",
    on_page: bool = False,
    asked: Asked | None = None,
    name: str = "",
    figure: str = "",
    default: Any = MISSING,
) -> Any:
    """A field that is a column, with what `Column` says of it."""
    facts = {"meaning": meaning, "unit": unit, "on_page": on_page, "asked": asked, "figure": figure}
    return field(default=default, metadata={**facts, "name": name})


def as_number(
    meaning: str, *, unit: str, on_page: bool = False, name: str = "", figure: str = ""
) -> Any:
    """A number that may be missing; with a `figure`, the next two fields are its bounds."""
    return as_column(meaning, unit=unit, on_page=on_page, name=name, figure=figure, default=None)


def as_bound(which: str, *, on_page: bool = False, name: str = "") -> Any:
    """The `lower` or the `upper` bound of the column before, in its unit."""
    meaning = f"{which} bound of its 95 % interval"
    return as_column(meaning, unit=OF_BEFORE, on_page=on_page, name=name, default=None)
