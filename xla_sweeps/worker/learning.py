"""Check, before timing, that a mode trains as eager execution does. Pure, numpy only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.trial import Precision
from xla_sweeps.worker.agreement import (
    RANGE_HINT,
    REFERENCE_FACTOR,
    TOLERANCE,
    USUAL_ERROR,
)

STEPS = 5  # steps of the loss curve

SPREAD_FACTOR = 3
"""A mode may differ from eager by this many times what a nudge of the inputs makes."""

OWN_SHARE = 0.1
"""Eager's steps on equal inputs may differ by this share of what a nudge of the inputs makes.

More would be the model's own random numbers, or the device's, in the bounds of every mode.
"""

DRAWS = 8  # losses with dropout, each with other random numbers, that are drawn first

MOST_DRAWS = 128  # losses that are drawn before they count as unlike eager's

UNLIKE = 0.4
"""Distance of two distributions of losses from which on they are unlike.

Losses without dropout, all of one value, are at a distance of at least 0.5 from losses with it. Of
equal distributions with `MOST_DRAWS` losses each, one pair in 10^8 is that far apart.
"""

MEANINGFUL = 0.5  # share of all updates above which their bound shows nothing

NEGLIGIBLE = 0.01
"""A variable whose update differs by less than this many tolerances of all updates passes.

A bias in front of batch normalization has a gradient of nothing but rounding.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSteps:
    """First training steps of a mode, always from the same state.

    Attributes:
        updates: what the first step adds to each variable of the model, with a learning rate so
            high that rounding loses nothing: for SGD the gradients, times a constant.
        curve: losses of the first `STEPS` steps with the trial's learning rate.
    """

    loss: float
    updates: tuple[np.ndarray, ...]
    curve: tuple[float, ...] = ()

    @property
    def size(self) -> float:
        """Norm of all updates together."""
        return math.hypot(*_norms(self.updates))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Change of eager execution's first steps when its inputs change by rounding.

    The norm of each update's change, and the largest change of a loss of the curve.
    """

    loss: float
    updates: tuple[float, ...]
    curve: float

    @property
    def size(self) -> float:
        """Norm of all together; NaN, which bounds nothing, where one is, whatever the others."""
        return math.nan if any(map(math.isnan, self.updates)) else math.hypot(*self.updates)


def spread_of(eager: FirstSteps, nudged: Sequence[FirstSteps]) -> Spread:
    """The largest differences between eager's first steps and those on changed inputs."""
    return Spread(
        loss=max(abs(steps.loss - eager.loss) for steps in nudged),
        updates=tuple(
            max(column) for column in zip(*(_apart(steps, eager) for steps in nudged), strict=True)
        ),
        curve=max(_furthest(steps.curve, eager.curve)[1] for steps in nudged if steps.curve),
    )


def deterministic(
    first: FirstSteps, again: FirstSteps, spread: Spread, *, precision: Precision
) -> bool:
    """True if two runs of the first step on equal inputs differ by rounding only.

    By no more than a mode's tolerance, or by much less than what rounding-sized changes of the
    inputs make: devices that add in any order round differently each time. Also where the first
    run is not finite, which verifies no mode, random numbers or not.
    """
    tolerance = TOLERANCE[precision]
    return not _finite(first) or _is_near(first, again, spread, tolerance, OWN_SHARE)


def is_plausible(reference: FirstSteps, eager: FirstSteps, spread: Spread) -> bool:
    """True if eager's first step is no further from float64's than rounding of inputs moves it."""
    return _is_near(eager, reference, spread, USUAL_ERROR, SPREAD_FACTOR)


def _is_near(
    one: FirstSteps, other: FirstSteps, spread: Spread, tolerance: float, factor: float
) -> bool:
    """True if two first steps differ by a tolerance, or by a factor of the spread, at most."""
    loss_bound = max(tolerance * abs(one.loss), factor * spread.loss)
    bound = max(tolerance * one.size, factor * spread.size)
    return abs(one.loss - other.loss) <= loss_bound and math.hypot(*_apart(one, other)) <= bound


def rounding_of(steps: FirstSteps, eager: FirstSteps, spread: Spread) -> float:
    """Difference of a mode's losses from eager's that is rounding, where both draw alike."""
    apart = max(abs(steps.loss - eager.loss), spread.loss)
    return max(TOLERANCE[Precision.FLOAT32] * abs(eager.loss), SPREAD_FACTOR * apart)


def distance(losses: Sequence[float], others: Sequence[float], *, rounding: float) -> float:
    """Largest difference between the shares of two samples that lie below a value, 0 to 1.

    The statistic of the Kolmogorov-Smirnov test, but a sample may be shifted by up to `rounding`.
    Values that are not finite make it 1.
    """
    if not all(map(math.isfinite, (*losses, *others))):
        return 1.0
    return max(_excess(losses, others, rounding), _excess(others, losses, rounding))


def _excess(lower: Sequence[float], upper: Sequence[float], shift: float) -> float:
    """Largest excess of the share of `lower` at or below a value, once it is moved by `shift`."""
    moved, fixed = np.sort(lower) + shift, np.sort(upper)
    below = np.arange(1, len(moved) + 1) / len(moved)
    other = np.searchsorted(fixed, moved, side="right") / len(fixed)
    return float(max(0.0, np.max(below - other)))


def random_reason(losses: Sequence[float], eager: Sequence[float], *, rounding: float) -> str:
    """Reason why a mode's losses with dropout are unlike eager's; "" where they are alike."""
    apart = distance(losses, eager, rounding=rounding)
    if apart < UNLIKE:
        return ""
    return (
        f"its losses are {_range(losses)} over {len(losses)} draws of random numbers, eager's "
        f"{_range(eager)} (distance of the distributions: {apart:.2f}, allowed: {UNLIKE:.2f})"
    )


def _range(losses: Sequence[float]) -> str:
    return f"{min(losses):.6g} to {max(losses):.6g}"


def compare_steps(
    steps: FirstSteps,
    eager: FirstSteps,
    spread: Spread,
    reference: FirstSteps | None = None,
    *,
    names: Sequence[str],
    precision: Precision,
) -> Agreement:
    """Compare a mode's first training steps with eager's, and both with float64 where it is given.

    The loss and every variable's update must be close to eager's, or no further from it than
    `SPREAD_FACTOR` times what rounding-sized changes of the inputs make, or about as close to
    float64 as eager's. The losses of the following steps likewise, without float64. Where eager's
    own bounds would accept anything, the comparison is refused.
    """
    tolerance = TOLERANCE[precision]
    sizes, apart = _norms(eager.updates), _apart(steps, eager)
    whole = math.hypot(*sizes)
    moved = SPREAD_FACTOR * spread.size
    errors = _apart(steps, reference) if reference else None
    eager_errors = _apart(eager, reference) if reference else None

    def answer(reason: str, *, refused: bool = False) -> Agreement:
        return Agreement(
            rmse_rel=_relative(apart, whole),
            top1_match=None,
            ok=not reason,
            reason=reason,
            refused=refused,
            rmse_ref_rel=_relative(errors, whole),
            eager_rmse_ref_rel=_relative(eager_errors, whole),
            allowed=max(tolerance, moved / (whole or 1.0)),
        )

    tells = moved <= MEANINGFUL * whole
    if refusal := _refusal(eager, spread, eager_errors, whole, tells=tells):
        return answer(refusal, refused=True)
    if not _finite(steps):
        return answer("its first steps give values that are not finite")
    allowed = max(tolerance * abs(eager.loss), SPREAD_FACTOR * spread.loss)
    if reference:
        allowed = max(allowed, REFERENCE_FACTOR * abs(eager.loss - reference.loss))
    if abs(steps.loss - eager.loss) > allowed:
        return answer(
            f"the loss of the first step is {steps.loss:.6g}, eager's {eager.loss:.6g} (allowed "
            f"difference: {allowed:.1e})"
        )
    for index, name in enumerate(names):
        bound = max(
            tolerance * sizes[index],
            SPREAD_FACTOR * spread.updates[index] if tells else 0.0,
            NEGLIGIBLE * tolerance * whole,
        )
        as_good = (
            errors and eager_errors and errors[index] <= REFERENCE_FACTOR * eager_errors[index]
        )
        if apart[index] > bound and not as_good:
            return answer(
                f"the first step changes {name} otherwise than eager's: by "
                f"{apart[index] / (sizes[index] or whole):.1e} of its change (allowed: "
                f"{bound / (sizes[index] or whole):.1e})"
            )
    return answer(_curve_reason(steps, eager, spread, tolerance))


def _refusal(
    eager: FirstSteps, spread: Spread, errors: Sequence[float] | None, whole: float, *, tells: bool
) -> str:
    """Reason why eager's first steps can verify no mode, or ""."""
    if not _finite(eager):
        return "eager's own loss or gradients are not finite"
    if not whole:
        return (
            "eager's first step changes no variable, so any mode that does nothing would agree; "
            f"{RANGE_HINT}"
        )
    if tells or (errors and REFERENCE_FACTOR * math.hypot(*errors) <= MEANINGFUL * whole):
        return ""
    return (
        "the model amplifies rounding: inputs changed by that little change eager's own gradients "
        f"by {spread.size / whole:.1e} of their size"
    )


def _curve_reason(steps: FirstSteps, eager: FirstSteps, spread: Spread, tolerance: float) -> str:
    step, apart = _furthest(steps.curve, eager.curve)
    largest = max(map(abs, eager.curve), default=0.0)
    allowed = max(tolerance * largest, SPREAD_FACTOR * spread.curve)
    if apart <= allowed:
        return ""
    return (
        f"the loss of step {step + 1} is {steps.curve[step]:.6g}, eager's {eager.curve[step]:.6g} "
        f"(allowed difference: {allowed:.1e})"
    )


def _furthest(one: Sequence[float], other: Sequence[float]) -> tuple[int, float]:
    """Step in which two curves differ most, and the difference."""
    apart = [abs(a - b) for a, b in zip(one, other, strict=True)]
    worst = max(range(len(apart)), key=apart.__getitem__, default=0)
    return worst, apart[worst] if apart else 0.0


def _apart(one: FirstSteps, other: FirstSteps) -> tuple[float, ...]:
    """Norm of the difference of each update."""
    pairs = zip(one.updates, other.updates, strict=True)
    return _norms(a.astype(np.float64) - b for a, b in pairs)


def _norms(updates: Iterable[np.ndarray]) -> tuple[float, ...]:
    return tuple(float(np.linalg.norm(np.asarray(each, np.float64))) for each in updates)


def _relative(parts: Sequence[float] | None, whole: float) -> float | None:
    """Their norm as a share of the whole; None where either is missing or not finite."""
    share = math.hypot(*parts) / whole if parts is not None and whole else math.nan
    return share if math.isfinite(share) else None


def _finite(steps: FirstSteps) -> bool:
    losses = all(map(math.isfinite, (steps.loss, *steps.curve)))
    return losses and all(bool(np.isfinite(update).all()) for update in steps.updates)
