"""Equality of two trainings, on plain numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.trial import Precision
from xla_sweeps.worker.agreement import RANGE_HINT
from xla_sweeps.worker.learning import (
    DRAWS,
    MOST_DRAWS,
    FirstSteps,
    Spread,
    compare_steps,
    deterministic,
    distance,
    is_plausible,
    random_reason,
    rounding_of,
    spread_of,
)

RNG = np.random.default_rng(0)

KERNEL, BIAS = (RNG.normal(size=shape).astype(np.float32) for shape in ((20, 30), (30,)))

EAGER = FirstSteps(loss=2.0, updates=(KERNEL, 0.1 * BIAS), curve=(2.0, 1.9, 1.8))

STILL = Spread(loss=0.0, updates=(0.0, 0.0), curve=0.0)


def changed(relative: float, *, variable: int = 0) -> FirstSteps:
    """Eager's first steps, one update changed at random by so much of its size."""
    updates = list(EAGER.updates)
    noise = RNG.normal(size=updates[variable].shape)
    scale = np.linalg.norm(updates[variable]) / np.linalg.norm(noise)
    updates[variable] = updates[variable] + relative * scale * noise
    return replace(EAGER, updates=tuple(updates))


def compared(
    steps: FirstSteps,
    spread: Spread = STILL,
    reference: FirstSteps | None = None,
    *,
    eager: FirstSteps = EAGER,
) -> Agreement:
    return compare_steps(
        steps, eager, spread, reference, names=("kernel", "bias"), precision=Precision.FLOAT32
    )


def test_a_float64_reference_is_doubted_that_is_further_from_eager_than_rounding_moves_it() -> None:
    assert is_plausible(changed(1e-6), EAGER, STILL)
    assert not is_plausible(changed(1e-3), EAGER, STILL)
    assert not is_plausible(replace(EAGER, loss=2.002), EAGER, STILL)
    assert is_plausible(changed(1e-3), EAGER, spread_of(EAGER, [changed(1e-3)]))


@pytest.mark.parametrize("variable", [0, 1])
@pytest.mark.parametrize(("relative", "ok"), [(5e-5, True), (2e-4, False)])
def test_each_variable_counts_by_its_own_size(variable: int, relative: float, ok: bool) -> None:
    result = compared(changed(relative, variable=variable))
    assert result.ok is ok
    name = ("kernel", "bias")[variable]
    assert result.reason == "" or f"changes {name} otherwise" in result.reason


def test_a_mode_may_differ_as_eager_itself_does_on_inputs_changed_by_rounding() -> None:
    spread = spread_of(EAGER, [changed(1e-3), replace(changed(2e-3), curve=())])
    assert spread.updates[0] == pytest.approx(2e-3 * float(np.linalg.norm(KERNEL)), rel=1e-3)
    assert compared(changed(5e-3), spread).ok
    assert not compared(changed(7e-3), spread).ok
    assert not compared(changed(5e-3, variable=1), spread).ok


def test_a_mode_may_be_as_far_from_float64_as_eager_is() -> None:
    exact = changed(1e-3)
    opposite = [2 * a - b for a, b in zip(exact.updates, EAGER.updates, strict=True)]
    steps = replace(exact, updates=tuple(opposite))
    assert not compared(steps).ok
    assert compared(steps, STILL, exact).ok
    assert not compared(changed(4e-3), STILL, exact).ok


def test_rounding_alone_is_no_gradient() -> None:
    noise = replace(EAGER, updates=(KERNEL, 1e-7 * BIAS))
    other = replace(EAGER, updates=(KERNEL, -1e-7 * BIAS))
    assert compared(other, eager=noise).ok


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        (replace(EAGER, loss=2.001), "the loss of the first step is 2.001, eager's 2 "),
        (replace(EAGER, curve=(2.0, 1.9, 1.81)), "the loss of step 3 is 1.81, eager's 1.8 "),
        (replace(EAGER, curve=(2.0, 1.9, math.nan)), "not finite"),
        (replace(EAGER, updates=(KERNEL * np.inf, BIAS)), "not finite"),
        (replace(EAGER, updates=(0 * KERNEL, 0 * BIAS)), "changes kernel otherwise"),
    ],
)
def test_what_does_not_train_as_eager_is_told_how(steps: FirstSteps, says: str) -> None:
    result = compared(steps)
    assert not result.ok
    assert says in result.reason


def test_where_eager_itself_says_nothing_no_mode_is_verified() -> None:
    wild = Spread(loss=0.0, updates=(float(np.linalg.norm(KERNEL)), 0.0), curve=0.0)
    assert "amplifies rounding" in compared(EAGER, wild).reason
    assert compared(EAGER, wild, EAGER).ok  # float64 tells
    assert not compared(changed(0.5), wild, EAGER).ok
    nothing = replace(EAGER, updates=(0 * KERNEL, 0 * BIAS))
    result = compared(nothing, eager=nothing)
    assert result.refused
    assert result.reason.startswith("eager's first step changes no variable")
    assert result.reason.endswith(RANGE_HINT)
    assert not compared(EAGER, eager=replace(EAGER, loss=math.inf)).ok


def test_two_runs_are_the_same_within_the_tolerance() -> None:
    assert deterministic(EAGER, changed(5e-5), STILL, precision=Precision.FLOAT32)
    assert not deterministic(EAGER, changed(5e-4), STILL, precision=Precision.FLOAT32)
    other_loss = replace(EAGER, loss=2.1)
    assert not deterministic(EAGER, other_loss, STILL, precision=Precision.FLOAT32)
    overflowing = replace(STILL, updates=(math.inf, math.nan))  # says nothing, excuses nothing
    assert not deterministic(EAGER, changed(5e-4), overflowing, precision=Precision.FLOAT32)


@pytest.mark.parametrize(
    "steps", [replace(EAGER, loss=math.nan), replace(EAGER, updates=(KERNEL * np.nan, BIAS))]
)
def test_steps_that_are_not_finite_are_refused_and_not_said_to_differ(steps: FirstSteps) -> None:
    assert deterministic(steps, steps, STILL, precision=Precision.FLOAT32)
    assert not deterministic(EAGER, steps, STILL, precision=Precision.FLOAT32)
    assert compared(steps, eager=steps).reason.startswith("eager's own loss or gradients are not")


def test_what_rounding_makes_of_equal_runs_may_be_amplified_as_rounding_of_the_inputs_is() -> None:
    amplifying = spread_of(EAGER, [changed(2e-2)])
    assert deterministic(EAGER, changed(1e-3), amplifying, precision=Precision.FLOAT32)
    assert not deterministic(EAGER, changed(4e-3), amplifying, precision=Precision.FLOAT32)


@pytest.mark.parametrize("noise", [0.05, 0.01])
def test_the_models_own_random_numbers_are_not_rounding(noise: float) -> None:
    again, nudged = changed(noise), [changed(noise), changed(noise)]
    spread = spread_of(EAGER, nudged)
    assert compared(changed(noise), spread).ok, "the spread alone accepts it"
    assert not deterministic(EAGER, again, spread, precision=Precision.FLOAT32)


ROUNDING = 1e-4


def drawn(count: int, *, spread: float = 0.05, mean: float = 2.0) -> list[float]:
    return list(RNG.normal(mean, spread, count))


def is_unlike(losses: list[float], eager: list[float]) -> bool:
    """The verdict of as many draws as there are at most, of which fewer may do."""
    draws = DRAWS
    while draws <= MOST_DRAWS:
        if not random_reason(losses[:draws], eager[:draws], rounding=ROUNDING):
            return False
        draws *= 2
    return True


@pytest.mark.parametrize("constant", [1.9, 1.99, 2.0, 2.03])
def test_losses_without_dropout_are_unlike_those_with_it(constant: float) -> None:
    assert is_unlike([constant] * MOST_DRAWS, drawn(MOST_DRAWS))


def test_losses_with_twice_the_dropout_or_without_its_scale_are_unlike_eagers() -> None:
    assert is_unlike(drawn(MOST_DRAWS, mean=2.1), drawn(MOST_DRAWS))
    assert is_unlike([math.nan] * MOST_DRAWS, drawn(MOST_DRAWS))


def test_losses_with_other_random_numbers_are_alike() -> None:
    rare = [RNG.choice([2.0, 3.0], MOST_DRAWS, p=[0.9, 0.1]) for _ in range(2000)]
    pairs = zip(rare[::2], rare[1::2], strict=True)
    assert not any(is_unlike(list(one), list(other)) for one, other in pairs)
    for _ in range(1000):
        assert not is_unlike(drawn(MOST_DRAWS), drawn(MOST_DRAWS))


def test_rounding_is_no_other_distribution() -> None:
    narrow = drawn(MOST_DRAWS, spread=1e-6)
    assert distance(narrow, [loss + 0.9 * ROUNDING for loss in narrow], rounding=ROUNDING) == 0
    assert distance(narrow, [loss + 2 * ROUNDING for loss in narrow], rounding=ROUNDING) == 1
    assert not is_unlike([2.0] * MOST_DRAWS, narrow)


def test_the_reason_names_both_ranges_and_the_distance() -> None:
    reason = random_reason([2.0] * 4, [1.9, 2.1, 2.2, 2.3], rounding=ROUNDING)
    assert reason == (
        "its losses are 2 to 2 over 4 draws of random numbers, eager's 1.9 to 2.3 "
        "(distance of the distributions: 0.75, allowed: 0.40)"
    )


def test_a_losses_rounding_is_what_changed_inputs_or_the_mode_itself_make() -> None:
    assert rounding_of(EAGER, EAGER, STILL) == pytest.approx(2e-4)
    assert rounding_of(replace(EAGER, loss=2.001), EAGER, STILL) == pytest.approx(3e-3)
    assert rounding_of(EAGER, EAGER, replace(STILL, loss=0.01)) == pytest.approx(0.03)
