"""A check of `doctor --full`: its figure beside what was expected. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

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
    REPORTED = "not judged"


class Checked(msgspec.Struct, frozen=True):
    """One check.

    Attributes:
        name: what was checked.
        figure: what was measured, with its unit; or why nothing was.
        expected: what a machine shows on which figures can be trusted.
        verdict: how both compare.
    """

    name: str
    figure: str
    expected: str
    verdict: Verdict


def judged(name: str, figure: str, expected: str, *, ok: bool) -> Checked:
    """A check that was possible."""
    return Checked(name, figure, expected, Verdict.OK if ok else Verdict.BAD)


def impossible(name: str, reason: str, expected: str) -> Checked:
    """A check that this machine does not allow."""
    return Checked(name, reason, expected, Verdict.IMPOSSIBLE)


def reported(name: str, figure: str, expected: str) -> Checked:
    """A figure that is shown beside what was expected, and not judged."""
    return Checked(name, figure, expected, Verdict.REPORTED)


def judged_ratio(name: str, log_ratios: Sequence[float]) -> Checked:
    """Compare a ratio with 1, of two ways to measure one thing in one process.

    Args:
        name: what was checked.
        log_ratios: of pairs.
    """
    if len(log_ratios) < stats.MIN_PAIRS:
        return impossible(name, f"only {len(log_ratios)} pairs", EXPECTED_RATIO)
    return judged_interval(name, stats.signed_rank_interval(log_ratios))


def judged_interval(name: str, log_ratio: stats.Interval) -> Checked:
    """Compare a ratio with 1: bad where its whole 95 % interval lies beyond the tolerance.

    Args:
        name: what was checked.
        log_ratio: the logarithm of the ratio.
    """
    low, high, figure = math.exp(log_ratio.low), math.exp(log_ratio.high), ratio_words(log_ratio)
    differs = low > 1 + TOLERANCE or high < 1 - TOLERANCE
    if not differs and (high - low) / 2 > TELLING:
        return impossible(name, f"too noisy: {figure}", EXPECTED_RATIO)
    return judged(name, figure, EXPECTED_RATIO, ok=not differs)


def ratio_words(log_ratio: stats.Interval) -> str:
    """A ratio with its interval, from its logarithm."""
    middle, low, high = map(math.exp, (log_ratio.estimate, log_ratio.low, log_ratio.high))
    return f"{middle:.4f} (95 %: {low:.4f} to {high:.4f})"
