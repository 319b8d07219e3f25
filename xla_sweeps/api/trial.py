"""Results of `measure` and `explain`: typed, frozen values that show themselves."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from xla_sweeps.api import supervisor
from xla_sweeps.api.table import SHORT, Table
from xla_sweeps.schema.explanation import Explanation

if TYPE_CHECKING:  # loaded when the result is looked at
    from xla_sweeps.schema.measurement import Failure, Status
    from xla_sweeps.schema.row import ComparisonRow, ModeSummary, TrialSummary


@dataclass(frozen=True, repr=False)
class Trial:
    """A measured trial, over all its replicates. A failure is a value too: see `status`.

    Attributes:
        trial_id: the folder of its records.
        text: what the terminal shows.
        words: the command line's arguments.
        exit_code: of the command: 0, or 1 where a candidate could not be measured.
        records: the files written now.
        logs: of the libraries' output, one a replicate.
        document: modes and comparisons as plain data.
        warnings: lines that were shown while it was measured.
    """

    trial_id: str
    text: str
    words: tuple[str, ...]
    exit_code: int
    records: tuple[Path, ...]
    logs: tuple[Path, ...]
    document: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @cached_property
    def summary(self) -> TrialSummary:
        """Modes and comparisons, typed."""
        from xla_sweeps.schema.row import TrialSummary

        return msgspec.convert(self.document, TrialSummary)

    @property
    def rows(self) -> tuple[ComparisonRow, ...]:
        """Each candidate against each baseline, the headline first."""
        return self.summary.comparisons

    @property
    def headline(self) -> ComparisonRow | None:
        """The main comparison; None where nothing was compared."""
        return next((row for row in self.rows if row.headline), None)

    @property
    def modes(self) -> dict[str, ModeSummary]:
        """Each mode's throughput, compile time, status and failure."""
        return {mode.label: mode for mode in self.summary.modes}

    @property
    def sentence(self) -> str:
        """The answer."""
        from xla_sweeps.report import advice

        return advice.answer(self.headline) if self.headline else "Nothing was compared."

    @property
    def verdict(self) -> str:
        """`faster`, `slower`, `equivalent`, `ambiguous`, `failed` or `none`."""
        return str(self.headline.speedup.verdict) if self.headline else "none"

    @property
    def speedup(self) -> float | None:
        """Of the main comparison: above 1 the candidate is faster."""
        return self.headline.speedup.value if self.headline else None

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The speedup's 95 % interval."""
        row = self.headline
        return (row.speedup.low, row.speedup.high) if row else (None, None)

    @property
    def status(self) -> Status | None:
        """`ok`, `contaminated`, or why there is no number."""
        return self.headline.status if self.headline else None

    @property
    def failures(self) -> dict[str, Failure]:
        """What went wrong, by mode."""
        return {mode.label: mode.failure for mode in self.summary.modes if mode.failure}

    @property
    def flags(self) -> tuple[str, ...]:
        """Caveats."""
        return self.summary.flags

    @property
    def command(self) -> str:
        """The command that measures it again."""
        return shlex.join(("xla-sweeps", *self.words))

    @property
    def log(self) -> Path | None:
        """The latest replicate's log."""
        return self.logs[-1] if self.logs else None

    @property
    def table(self) -> Table:
        """The comparisons as a table, for data frames."""
        from xla_sweeps.store.table import table_of

        return Table(table_of(self.rows), SHORT)

    def plot(self, path: str | Path = "speedups.svg") -> Path:
        """Save the comparisons as a picture: `Table.plot`."""
        return self.table.plot(path)

    def explain(self) -> Explained:
        """Why: what XLA makes of the model, and where the time goes; it takes some minutes."""
        return explanation_of(self.words)

    def __bool__(self) -> bool:
        raise TypeError("a Trial is neither true nor false: use .verdict, .speedup or .status")

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        from xla_sweeps.report.terminal.notebook import trial_html

        page = trial_html(self.summary, self.sentence, self.verdict)
        return {"text/plain": self.text, "text/html": page}


class Explained(Explanation):
    """How XLA compiles a model, and why it gains or loses."""

    __slots__ = ()

    def __repr__(self) -> str:
        from xla_sweeps.report.terminal.explanation import explanation_text

        return explanation_text(self).rstrip()


def explanation_of(words: tuple[str, ...]) -> Explained:
    """The explanation of a trial with these overrides."""
    document = supervisor.document(["explain", "--format", "json", *words])
    return msgspec.convert(document, Explained)
