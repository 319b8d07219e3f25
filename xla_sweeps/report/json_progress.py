"""Progress of a trial or a sweep for programs: one JSON object a line on standard output.

docs/python.md has the table of events. Nothing is written while a block is timed.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from xla_sweeps.report.terminal.progress import trial_name
from xla_sweeps.schema.row import TrialSummary
from xla_sweeps.system.text import displayable, redact
from xla_sweeps.trial.rounds import Progress


class _Json:
    """A context manager that says what a person should know now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None: ...

    def warn(self, *messages: str) -> None:
        """Something a person should know now."""
        for message in messages:
            _tell("warning", message=displayable(redact(message)))


class JsonProgress(_Json):
    """Follow one trial; `part` is its number among several, such as `2 of 5`, or ""."""

    def __init__(self, *, part: str = "") -> None:
        self._part = part

    def trial_started(self, title: str, *, replicates: int, log: Path) -> None:
        """A trial begins; the libraries' output goes to the log."""
        _tell("start", title=title, part=self._part, replicates=replicates, log=str(log))

    def stage(self, replicate: int, stage: str, mode: str | None, detail: str = "") -> None:
        """A stage begins."""
        _tell("stage", replicate=replicate, stage=stage, mode=mode, detail=detail)

    def round_done(self, replicate: int, progress: Progress) -> None:
        """A Williams design is measured."""
        _tell("rounds", replicate=replicate, **msgspec.to_builtins(progress))

    def replicate_done(self, replicate: int, status: str, message: str = "") -> None:
        """A replicate ended and is saved."""
        _tell("saved", replicate=replicate, status=status, message=message)

    def end(
        self,
        *,
        exit_code: int,
        trial_id: str,
        records: Sequence[Path],
        logs: Sequence[Path],
        summary: TrialSummary | None,
        show: Callable[[], None],
    ) -> None:
        """A trial ended; `summary` is over all its records, and `show` prints it for people."""
        _tell(
            "end",
            exit_code=exit_code,
            trial_id=trial_id,
            records=[str(path.resolve()) for path in records],
            logs=[str(path.resolve()) for path in logs],
            text=_text_of(show) if summary is not None else "",
            summary=msgspec.to_builtins(summary),
        )


class JsonSweep(_Json):
    """Follow one sweep."""

    def running(self, slot: str, what: str, log: Path) -> None:
        """A replicate starts on a slot."""
        _tell("running", slot=slot, trial=trial_name(what), log=str(log))

    def show_end(self, slot: str, what: str, outcome: str, detail: str, figure: str = "") -> None:
        """A replicate ended."""
        facts = {"outcome": outcome, "detail": displayable(detail), "figure": figure}
        _tell("ended", slot=slot, trial=trial_name(what), **facts)

    def progress(
        self,
        done: int,
        total: int,
        counts: Mapping[str, int],
        *,
        left_s: tuple[float, float] | None,
        busy: str = "",
    ) -> None:
        """The number of finished trials, by outcome too, and the time left."""
        _tell("progress", done=done, total=total, counts=counts, left_s=left_s, busy=busy)

    def end(self, *, exit_code: int, show: Callable[[], None], **facts: Any) -> None:
        """The sweep ended; `show` prints its results for people."""
        _tell("end", exit_code=exit_code, **facts, text=_text_of(show))


def _text_of(show: Callable[[], None]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        show()
    return text.getvalue().strip("\n")


def _tell(event: str, **facts: Any) -> None:
    document = msgspec.json.decode(msgspec.json.encode({"event": event, **facts}))
    with contextlib.suppress(OSError):  # a reader that left never stops a measurement
        print(json.dumps(document), flush=True)
