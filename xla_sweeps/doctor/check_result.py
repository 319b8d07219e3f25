"""A check of `doctor --full`: its figure beside what was expected. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

import msgspec

from xla_sweeps.analysis import stats

TOLERANCE = 0.01

EXPECTED_RATIO = f"1 ± {TOLERANCE:g}"

TELLING = 0.05
"""Largest half-width of an interval that tells something of a ratio that is to be 1."""


class Verdict(StrEnum):
    """Result of a check."""

    OK = "ok"
    BAD = "bad"
    IMPOSSIBLE = "not possible here"


class Checked(msgspec.Struct, frozen=True):
    """One check.

    Attributes:
        figure: what was measured, with its unit; or why nothing was.
        expected: what a machine shows on which figures can be trusted.
    """

    name: str
    figure: str
    expected: str
    verdict: Verdict


def check_of(name: str, figure: str, expected: str, *, ok: bool) -> Checked:
    """A check that was possible."""
    return Checked(name, figure, expected, Verdict.OK if ok else Verdict.BAD)


def impossible(name: str, reason: str, expected: str) -> Checked:
    """A check that this machine does not allow."""
    return Checked(name, reason, expected, Verdict.IMPOSSIBLE)


def judged_interval(name: str, log_ratio: stats.Interval) -> Checked:
    """Compare a ratio with 1, given its logarithm: bad where its whole interval is beyond 1 %."""
    middle, low, high = map(math.exp, (log_ratio.estimate, log_ratio.low, log_ratio.high))
    figure = f"{middle:.4f} (95 %: {low:.4f} to {high:.4f})"
    differs = low > 1 + TOLERANCE or high < 1 - TOLERANCE
    if not differs and (high - low) / 2 > TELLING:
        return impossible(name, f"too noisy: {figure}", EXPECTED_RATIO)
    return check_of(name, figure, EXPECTED_RATIO, ok=not differs)


Answer = TypeVar("Answer")


def answers_of(output: bytes, kind: type[Answer]) -> Iterator[Answer]:
    """Answers of a program, a JSON line each; lines that are a library's are skipped."""
    for line in output.splitlines():
        try:
            yield msgspec.json.decode(line, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
