"""Write the page of `doctor --full`, to be pasted into an issue: plain text of 80 columns. Pure."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from xla_sweeps.doctor.check_result import Checked, Verdict

WIDTH = 80

_INDENT = 6

_MARKS = {Verdict.OK: "ok", Verdict.BAD: "bad", Verdict.IMPOSSIBLE: "--"}


def page(checks: Sequence[Checked], facts: Mapping[str, str]) -> str:
    """The page: the machine, each check with its figure and what was expected, and the count."""
    lines = ["xla-sweeps doctor --full", ""]
    start = 2 + max(map(len, facts), default=0)
    for name, value in facts.items():
        lines += _wrap(f"{name:<{start}}{value}", start)
    lines.append("")
    for check in checks:
        lines += _wrap(f"{_MARKS[check.verdict]:<{_INDENT}}{check.name}: {check.figure}")
        remark = "" if check.verdict is not Verdict.IMPOSSIBLE else f"; {check.verdict}"
        lines += _wrap(f"{'':<{_INDENT}}expected: {check.expected}{remark}")
    counts = Counter(check.verdict for check in checks)
    lines += ["", ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)]
    return "\n".join(lines) + "\n"


def _wrap(text: str, indent: int = _INDENT) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False)
