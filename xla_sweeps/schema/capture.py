"""Programs that calls compile, and graphs that a compiler captures; frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Programs that one call compiled.

    Attributes:
        trace_s: seconds of tracing; those of lowering and of compiling besides.
    """

    call: str
    programs: int
    trace_s: float
    lower_s: float
    compile_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A place where a captured graph ends, and the framework runs Python."""

    reason: str
    times: int
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Graphs that a compiler captures of the model.

    Attributes:
        recompilations: further graphs of later calls, by the call in words.
        limit: recompilations of a function after which it is no longer compiled; None if there is
            no such limit.
        gave_up: functions that reached it.
        refusal: why the model is not captured, or "".
        place: the line of Python of the refusal as `file:line`, or "".
    """

    way: str
    graphs: int | None
    calls: int = 0
    breaks: tuple[Break, ...] = ()
    recompilations: Mapping[str, int] = field(default_factory=dict)
    limit: int | None = None
    gave_up: tuple[str, ...] = ()
    refusal: str = ""
    place: str = ""
