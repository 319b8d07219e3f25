"""Consoles for results and progress."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import tempfile
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from xla_sweeps.errors import BUG_CODE, StoreError, XlaSweepsError
from xla_sweeps.report.figures import duration
from xla_sweeps.system.text import displayable, redact

_Group = TypeVar("_Group")

COLOURS = {
    "faster": "green",
    "slower": "red",
    "equivalent": "bright_black",
    "ambiguous": "yellow",
    "failed": "magenta",
    "not_measured": "yellow",
    "none": "default",
}

_LIMITS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    *(errno.EMFILE, errno.ENFILE),
)
"""Errors of a disk, of rights and of limits, which are no defects."""

PLAIN_WIDTH = 120
"""Columns of sentences that do not go to a terminal."""

PLAIN: Mapping[str, Any] = {"highlight": False, "emoji": False, "markup": False}
"""What a console must not make of texts from outside."""

UNBOUNDED = 10_000
WRAPPED_WIDTH = 16
FOLDED_WIDTH = 10
BUG_LINE_CHARACTERS = 300
LINE_CHARACTERS = 1000


def results_console() -> Console:
    """Standard output, for results only."""
    return _console(sys.stdout)


def print_table(*tables: Table) -> None:
    """Print the first table that fits, or else the last, which wraps texts and cuts no number."""
    console = _console(sys.stdout, plain_width=UNBOUNDED)
    unbounded = console.options.update(width=UNBOUNDED)
    for table in tables:
        wrapped = [column for column in table.columns if not column.no_wrap]
        for column in wrapped:
            column.max_width = WRAPPED_WIDTH
        needed = console.measure(table, options=unbounded).maximum
        for column in wrapped:
            column.max_width = None
        if needed <= console.width:
            break
    console.width = max(console.width, needed)
    console.print(table)


def progress_console() -> Console:
    """Standard error, for progress and warnings."""
    return _console(sys.stderr)


def _console(stream: TextIO, plain_width: int = PLAIN_WIDTH) -> Console:
    width = None if stream.isatty() else int(os.environ.get("COLUMNS") or plain_width)
    return Console(file=stream, width=width, **PLAIN)


SILENT_S = 10.0
"""Seconds between two lines on work that takes long, where there is no bar."""


class Heartbeat:
    """Tell in its own thread where the work stands, when nothing was told for long."""

    def __init__(
        self,
        tell: Callable[[], None],
        *,
        every_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._clock = tell, clock
        self._every_s = every_s or SILENT_S
        self._told = clock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def note_line(self) -> None:
        """Something was told just now."""
        self._told = self._clock()

    def left_s(self) -> float:
        """Seconds until it is time for a line; tells it if it is time now."""
        if self._clock() >= self._told + self._every_s:
            self.note_line()
            self._tell()
        return self._told + self._every_s - self._clock()

    def _run(self) -> None:
        while not self._closed.wait(max(0.0, self.left_s())):
            pass


@contextlib.contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error while the work lasts, or lines where it is no terminal."""
    from rich.markup import escape
    from rich.progress import Progress

    if ui_mode("auto") != "live":
        began, place = time.monotonic(), ""

        def advance(done: int, total: int) -> None:
            nonlocal place
            place = f"{done:,} of {total:,}" if done < total else ""

        def tell() -> None:
            so_far = place or f"{duration(time.monotonic() - began)} so far"
            say(f"{title}: {so_far}", console=progress_console())

        with Heartbeat(tell):
            yield advance
        return
    with Progress(console=progress_console(), transient=True) as progress:
        task = progress.add_task(escape(displayable(title)), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def ui_mode(asked: str) -> str:
    """`live`, `plain` or `quiet`; `auto` is live on a terminal that can redraw, outside CI."""
    if asked != "auto":
        return asked
    dumb = os.environ.get("TERM", "dumb") == "dumb" or os.environ.get("CI")
    return "live" if sys.stderr.isatty() and not dumb else "plain"


def complain(error: Exception, *, results_dir: Path | None = None) -> int:
    """Print an error as one line of bounded length on standard error; returns the exit code."""
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error):
        error = StoreError(f"{error.strerror}: set TMPDIR to a writable folder, or see `ulimit -f`")
    if not isinstance(error, XlaSweepsError):
        if not (limit := _limit_of_machine(error)):
            return _report_bug(error, results_dir)
        error = StoreError(limit)
    line = displayable(redact(str(error)))
    if len(line) > LINE_CHARACTERS:
        line = f"{line[: LINE_CHARACTERS // 2]} … {line[-LINE_CHARACTERS // 2 :]}"
    say(f"xla-sweeps: {line}", "red", console=progress_console())
    return error.exit_code


def _limit_of_machine(error: Exception) -> str:
    """The limit of the machine or of the user's rights that an error tells of; "" for others."""
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return f"{error}: too many processes; end some, or see `ulimit -u`"
    if not isinstance(error, OSError) or error.errno not in _LIMITS:
        return ""
    place = f"'{error.filename}': " if error.filename else ""
    return f"{place}{error.strerror}"


def _report_bug(error: Exception, results_dir: Path | None) -> int:
    """Print an error of our own as one line, with the file that holds its traceback."""
    text = redact("".join(traceback.format_exception(error)))
    line = displayable(redact(f"{type(error).__name__}: {error}"))[:BUG_LINE_CHARACTERS]
    logs = results_dir / "logs" if results_dir else None
    place = "its traceback could not be written"
    for folder in [logs, None] if logs and not logs.is_symlink() else [None]:
        with contextlib.suppress(OSError):
            descriptor, name = tempfile.mkstemp(prefix="xla-sweeps-", suffix=".txt", dir=folder)
            with open(descriptor, "w", encoding="utf-8", errors="replace") as handle:  # noqa: PTH123
                handle.write(text)
            place = f"please report it, with {name}"
            break
    text = f"xla-sweeps: a defect of xla_sweeps itself: {line}; {place}"
    say(text, "red", console=progress_console())
    return BUG_CODE


def warn(*messages: str, console: Console | None = None) -> None:
    """Print each warning as one line on standard error, or on that console."""
    console = console or progress_console()
    for message in messages:
        say(f"warning: {displayable(redact(message))}", "yellow", console=console)


def say(text: str, style: str = "", *, console: Console | None = None) -> None:
    """Print lines, which a terminal wraps, on standard output or that console."""
    console = console or results_console()
    lines = map(displayable, text.split("\n"))
    console.print(Text("\n".join(lines), style=style), soft_wrap=True)


def empty_table(
    *headings: str, right: Collection[str] = (), wrapped: Collection[str] = (), gap: int = 1
) -> Table:
    """A table without rows; columns may be aligned right, and some wrap where there is no room."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, gap, 0, 0))
    for heading in headings:
        table.add_column(
            heading,
            justify="right" if heading in right else "left",
            no_wrap=heading not in wrapped,
            overflow="fold",
        )
    return table


def print_grouped(
    groups: Sequence[Sequence[str]],
    rows: Sequence[Sequence[Sequence[str | Text]]],
    *,
    right: Collection[str],
    folded: Collection[str] = (),
) -> None:
    """Print rows in columns; where they do not fit, those of a group are stacked in one column.

    Headings and cells come in groups. There the first column, of names, is folded, and so are those
    of the `folded` headings; no other.
    """
    wide = empty_table(*(heading for group in groups for heading in group), right=right)
    for row in rows:
        wide.add_row(*(cell for cells in row for cell in cells))
    columns = [
        [len(cell) for cells in column for cell in cells]
        for column in zip(groups, *rows, strict=True)
    ]
    widths = list(map(max, columns))
    names = [place for place, group in enumerate(groups) if not place or {*group} & {*folded}]
    excess = sum(widths) + 2 * len(widths) - results_console().width
    while excess > 0 and widths[widest := max(names, key=widths.__getitem__)] > FOLDED_WIDTH:
        widths[widest] -= 1
        excess -= 1
    stacked = ["\n".join(group) for group in groups]
    ends = [heading for heading in stacked if heading.partition("\n")[0] in right]
    narrow = empty_table(*stacked, right=ends)
    for row in rows:
        lines = [
            [fold(str(cell), widths[place]) for cell in cells] if place in names else cells
            for place, cells in enumerate(row)
        ]
        narrow.add_row(*(Text("\n").join(map(Text.assemble, cells)) for cells in lines))
    print_table(wide, narrow)


def fold(text: str, width: int) -> str:
    """Lines of this width, broken at blanks and commas; a longer word at "_" and "-"."""
    parts = rf"[^_-]{{1,{width - 1}}}[_-]|[^_-]{{1,{width}}}|."
    words = [
        part
        for word in re.findall(r"\s+|[^\s,]+,?|,", text)
        for part in (re.findall(parts, word) if len(word) > width else [word])
    ]
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) > width and not word.isspace():
            lines.append("")
        lines[-1] += word if lines[-1] else word.lstrip()
    return "\n".join(line.rstrip() for line in lines)


def paragraph(
    text: str, style: str = "", *, indent: int = 2, console: Console | None = None
) -> None:
    """Print a text in lines that fit, the later ones indented, on standard output.

    On another console, in one line where that is no terminal.
    """
    screen = console or results_console()
    width = UNBOUNDED if console and not console.is_terminal else max(40, screen.width)
    lines = textwrap.wrap(displayable(text), width=width, subsequent_indent=" " * indent)
    say("\n".join(lines), style, console=screen)


def scenario_groups(groups: Mapping[str, _Group]) -> Iterator[_Group]:
    """The groups of rows by scenario, each below its name where there are several."""
    for scenario, group in groups.items():
        if len(groups) > 1:
            say(f"scenario={displayable(scenario)}", "bold")
        yield group
