"""The correctness check: what agrees, what does not, and what cannot be judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.trial import Precision
from xla_sweeps.worker import agreement
from xla_sweeps.worker.agreement import compare, deterministic

RNG = np.random.default_rng(0)

REFERENCE = RNG.normal(size=(4, 1000))


def noise() -> np.ndarray:
    return RNG.normal(size=REFERENCE.shape)


EAGER = REFERENCE + 1e-6 * noise()


def gate(
    output: np.ndarray,
    *,
    eager: np.ndarray = EAGER,
    reference: np.ndarray | None = REFERENCE,
    **changes: Any,
) -> Agreement:
    arguments = {"precision": Precision.FLOAT32, "classes": True, **changes}
    return compare([output], [eager], None if reference is None else [reference], **arguments)


def test_what_was_proved_to_be_rounding_is_no_error_on_other_inputs() -> None:
    proved = Agreement(rmse_rel=2.2e-4, top1_match=1.0, ok=True)
    later = Agreement(rmse_rel=1.6e-4, top1_match=1.0, ok=False, reason="outputs differ")
    assert agreement.is_no_further(later, proved)
    for changes in ({"rmse_rel": 3e-4}, {"rmse_rel": None}, {"top1_match": 0.5}):
        assert not agreement.is_no_further(replace(later, **changes), proved)
    assert not agreement.is_no_further(later, replace(proved, ok=False))
    assert not agreement.is_no_further(later, replace(proved, rmse_rel=1e-7))


def test_rounding_differences_agree() -> None:
    result = gate(REFERENCE + 1e-6 * noise())
    assert result.ok
    assert result.rmse_rel == pytest.approx(1.4e-6 / np.abs(EAGER).max(), rel=0.1)
    assert result.top1_match == 1.0
    assert result.reason == ""


def test_a_difference_past_the_tolerance_is_reported_with_its_size() -> None:
    result = gate(EAGER + 1e-2)
    assert not result.ok
    assert result.reason.startswith("outputs differ from eager's by ")
    assert "error against float64" in result.reason


def test_a_mode_as_close_to_float64_as_eager_is_agrees_however_far_from_eager() -> None:
    poor_eager, output = (REFERENCE + size * noise() for size in (1e-3, 1.5e-3))
    assert gate(output, eager=poor_eager).ok
    assert not gate(output, eager=poor_eager, reference=None).ok


@pytest.mark.parametrize("precision", list(Precision))
def test_the_error_allowed_is_a_multiple_of_eagers_own(precision: Precision) -> None:
    error = 0.02 * noise()
    for times, expected in ((1.9, True), (2.2, False)):
        output, eager = REFERENCE - times * error, REFERENCE + error
        assert gate(output, eager=eager, precision=precision, classes=False).ok is expected


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize(
    "output",
    [np.zeros_like(REFERENCE), np.random.default_rng(1).normal(size=REFERENCE.shape)],
    ids=["zeros", "random numbers"],
)
def test_where_eager_itself_is_far_off_nothing_but_eagers_own_outputs_agrees(
    output: np.ndarray, precision: Precision
) -> None:
    eager = REFERENCE + noise()  # 0.2 of the largest output
    result = gate(output, eager=eager, precision=precision, classes=False)
    assert not result.ok
    assert result.refused
    assert result.reason.startswith("the model amplifies rounding: eager's own error")
    assert result.eager_rmse_ref_rel == pytest.approx(0.25, abs=0.06)
    assert gate(eager, eager=eager, precision=precision, classes=False).ok


def test_an_error_in_a_sample_without_a_reference_is_found() -> None:
    output = REFERENCE + 1e-6 * noise()
    assert gate(output, reference=REFERENCE[:2], classes=False).ok
    output[3] *= 1.001
    result = gate(output, reference=REFERENCE[:2], classes=False)
    assert not result.ok
    assert not result.refused
    assert "; sample 4 by " in result.reason


@pytest.mark.parametrize("reference", [REFERENCE, REFERENCE[:2], None])
@pytest.mark.parametrize(
    ("times", "ok", "refused"), [(2.5, True, False), (4, False, False), (3e4, False, True)]
)
def test_a_difference_is_rounding_if_rounding_of_the_inputs_makes_as_much(
    times: float, ok: bool, refused: bool, reference: np.ndarray | None
) -> None:
    moved = 5e-4
    moves = agreement.moves_of([EAGER], [[EAGER + moved], [EAGER - moved / 2]])
    if refused:  # rounding makes of the outputs what it wants
        moves = agreement.worst_moves([moves, agreement.moves_of([EAGER], [[EAGER + 1]])])
    result = gate(EAGER + times * moved, reference=reference, moves=moves, classes=False)
    if reference is not None and ok:
        assert not result.ok
        result = gate(EAGER + 1.9 * moved, reference=reference, moves=moves, classes=False)
    assert (result.ok, result.refused) == (ok, refused), result.reason
    assert (
        result.reason.startswith("the model amplifies rounding: it moves eager's outputs by")
        is refused
    )
    if not refused:
        scale = np.abs(EAGER).max()
        assert result.allowed == pytest.approx(3 * moved / scale, rel=1e-3)


def test_a_class_that_rounding_of_the_inputs_changes_may_differ() -> None:
    eager = np.array([[1.0, 1.0005, 0.0, -1.0]])
    output = eager[:, [1, 0, 2, 3]]
    assert "the predicted class differs" not in gate(output, eager=eager, reference=None).reason
    moves = agreement.moves_of([eager], [[output]])
    assert gate(output, eager=eager, reference=None, moves=moves).ok
    assert not gate(eager[:, [2, 1, 0, 3]], eager=eager, reference=None, moves=moves).ok


def test_what_is_not_finite_moves_nothing() -> None:
    odd = np.array([[np.nan, np.inf, 1.0]])
    (move,) = agreement.moves_of([odd], [[odd + 1e-3]])
    assert move.largest == pytest.approx(1e-3)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("share", [1e-2, 0.0])
def test_an_error_of_a_percent_in_scores_does_not_hide_beside_boxes_in_pixels(
    share: float, moved: bool
) -> None:
    boxes, scores = 640 * RNG.random((2, 50, 4)), RNG.random((2, 50, 3))
    eager = np.concatenate([boxes, scores], axis=-1)
    output = np.concatenate([boxes, scores * (1 + share)], axis=-1)
    if moved:
        eager, output = np.moveaxis(eager, -1, 1), np.moveaxis(output, -1, 1)
    result = gate(output * (1 + 1e-7), eager=eager, reference=None, classes=False)
    assert result.ok is (share == 0)
    if share:
        assert "differ from eager's by up to 3" in result.reason
        assert result.rmse_rel is not None
        assert result.allowed is not None
        assert result.rmse_rel / result.allowed == pytest.approx(3.1e-4 / 1e-4, rel=0.1)


def test_an_error_of_a_percent_in_a_sample_does_not_hide_beside_a_larger_one() -> None:
    eager = REFERENCE * np.array([[1000], [1], [1000], [1000]])
    output = eager.copy()
    output[1] *= 1.01
    assert not gate(output, eager=eager, reference=None, classes=False).ok
    assert gate(eager * (1 + 1e-6), eager=eager, reference=None, classes=False).ok


def test_a_reference_that_is_more_than_a_rounding_away_from_eager_is_not_plausible() -> None:
    def plausible(reference: np.ndarray, precision: Precision = Precision.FLOAT32) -> bool:
        return agreement.are_plausible([[reference[:2]]], [[EAGER]], precision)

    assert plausible(REFERENCE)
    assert not plausible(REFERENCE * 1.001)
    assert not plausible(REFERENCE[:, :10])
    assert plausible(REFERENCE * 1.001, Precision.MIXED_FLOAT16)
    assert agreement.are_plausible([[np.zeros((2, 3))]], [[np.zeros((4, 3))]], Precision.FLOAT32)


def test_another_token_is_no_rounding() -> None:
    tokens = np.array([[17.0, 49_999, 3, 20]])
    other = tokens + np.array([[0, 0, 0, 1]])
    result = gate(other, eager=tokens, reference=None, classes=False)
    assert result.reason == "1 of 4 integers differ from eager's"
    assert result.allowed == 0
    assert gate(tokens + 1e-3, eager=tokens, reference=None, classes=False).ok


def test_another_shape_is_found_before_any_value_is_compared() -> None:
    result = gate(EAGER[:, :10])
    assert not result.ok
    assert result.reason == "the outputs' shapes differ: [(4, 10)] instead of [(4, 1000)]"


def test_equal_values_of_another_kind_of_number_do_not_agree() -> None:
    kinds = (np.bool_, np.uint8, np.float16)
    heads = [agreement.widen_head(np.array([[1, 0]]).astype(kind)) for kind in kinds]
    for head in heads:
        for eager in heads:
            result = gate(head, eager=eager, reference=None, classes=False)
            assert result.ok is (head is eager)
    other = gate(heads[0], eager=heads[1], reference=None, classes=False)
    assert other.reason == "the outputs' types differ: ['bool'] instead of ['int']"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_outputs_that_are_not_finite_do_not_agree(bad: float) -> None:
    output = EAGER.copy()
    output[1, 2] = bad
    result = gate(output)
    assert not result.ok
    assert result.reason == "1 of 4000 outputs are not finite, where eager's are"


def test_a_single_number_is_no_constant() -> None:
    eager = np.array([3.25])
    assert gate(eager * (1 + 1e-6), eager=eager, reference=None, classes=False).ok
    assert not gate(eager * 1.01, eager=eager, reference=None, classes=False).ok
    assert not gate(np.zeros(1), eager=np.zeros(1), reference=None, classes=False).ok


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("reference", [True, False])
def test_another_single_number_is_wrong_where_eagers_own_rounding_is_known(
    samples: int, reference: bool
) -> None:
    eager = np.linspace(1, 3, samples)[:, None]
    exact = eager[:1] * (1 + 1e-7) if reference else None
    moves = agreement.moves_of([eager], [[eager * (1 + 1e-6)]])
    for times, ok in ((1.5, False), (1 + 1e-6, True)):
        result = gate(times * eager, eager=eager, reference=exact, moves=moves, classes=False)
        assert (result.ok, result.refused) == (ok, False), result.reason
    far = agreement.moves_of([eager], [[eager * 1.3]])  # rounding makes of it what it wants
    assert gate(1.5 * eager, eager=eager, reference=exact, moves=far, classes=False).refused


@pytest.mark.parametrize("constant", [0.0, 0.001, 1e-40])
def test_a_constant_or_vanishing_output_refuses_the_check_instead_of_passing_it(
    constant: float,
) -> None:
    eager = np.full((4, 1000), constant)
    result = gate(eager, eager=eager, reference=None)
    assert not result.ok
    assert result.refused


def with_special(outputs: np.ndarray, special: float, count: int = 3) -> np.ndarray:
    outputs = outputs.copy()
    outputs[1, :count] = special
    return outputs


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_in_equal_places_agree_as_the_other_values_do(special: float) -> None:
    eager = with_special(EAGER, special)
    result = gate(with_special(EAGER + 1e-9, special), eager=eager, classes=False)
    assert result.ok
    assert result.rmse_rel == pytest.approx(0, abs=1e-8)
    assert deterministic([eager], [eager.copy()])
    assert not gate(with_special(EAGER + 0.01, special), eager=eager, classes=False).ok


@pytest.mark.parametrize("other", [0.0, -np.inf])
def test_a_number_where_eager_has_none_does_not_agree(other: float) -> None:
    eager, output = with_special(EAGER, np.nan), with_special(EAGER, other)
    result = gate(output, eager=eager, reference=with_special(REFERENCE, np.nan), classes=False)
    assert not result.ok
    assert not result.refused
    assert result.reason == "3 of 4000 outputs are not NaN or infinite, where eager's are"


def test_an_eager_output_that_overflows_blames_no_mode() -> None:
    result = gate(EAGER, eager=with_special(EAGER, np.inf), classes=False)
    assert result.refused
    assert result.reason == "eager's own output overflows: in float64 it is finite"


def test_what_differs_from_a_constant_or_nowhere_finite_output_is_wrong() -> None:
    for eager in (np.full((4, 1000), 0.5), np.full((4, 1000), np.nan)):
        result = gate(EAGER, eager=eager, reference=None, classes=False)
        assert (result.ok, result.refused) == (False, False)
        assert gate(eager, eager=eager, reference=None, classes=False).refused


def test_an_output_that_shows_nothing_does_not_hide_what_the_others_show() -> None:
    constant = np.ones((4, 3))

    def compared(first: np.ndarray, second: np.ndarray) -> Agreement:
        return compare(
            [first, second], [EAGER, constant], precision=Precision.FLOAT32, classes=False
        )

    assert compared(EAGER, constant).ok
    assert not compared(EAGER + 0.01, constant).ok
    assert not compared(EAGER, constant + 0.01).ok


def test_tiny_logits_are_judged_by_their_own_size() -> None:
    scaled = 1e-10
    assert gate(scaled * EAGER, eager=scaled * EAGER, reference=scaled * REFERENCE).ok
    assert not gate(scaled * (EAGER + 0.01), eager=scaled * EAGER, reference=scaled * REFERENCE).ok


def test_another_class_on_top_does_not_agree_unless_eager_cannot_tell_them_apart() -> None:
    eager = np.zeros((2, 10))
    eager[:, 3], eager[:, 7] = 1.0, 0.5
    swapped = eager.copy()
    swapped[0, 3], swapped[0, 7] = 0.5, 1.0
    result = gate(swapped, eager=eager, reference=eager + 0.4, precision=Precision.FLOAT32)
    assert not result.ok
    tie = eager.copy()
    tie[:, 7] = 1.0 - 1e-6
    other = tie.copy()
    other[0, 7] = 1.0 + 1e-6
    result = gate(other, eager=tie, reference=None)
    assert result.ok
    assert result.top1_match == 0.5


@pytest.mark.parametrize(("lead", "agrees"), [(0.12, True), (0.2, False)])
def test_eagers_error_against_float64_tells_which_classes_it_cannot_tell_apart(
    lead: float, agrees: bool
) -> None:
    reference = np.resize(np.linspace(-1, 0.5, 10), (2, 10))
    eager = reference + np.resize([0.08, -0.08], (2, 10))
    eager[:, 3], eager[:, 7] = 1.0, 1.0 - lead
    reference[:, 3], reference[:, 7] = 0.92, 1.08 - lead
    mode = reference.copy()
    mode[:, 3], mode[:, 7] = 0.95, 0.96
    result = gate(mode, eager=eager, reference=reference, precision=Precision.MIXED_BFLOAT16)
    assert (result.ok, result.top1_match) == (agrees, 0.0), result


def test_of_several_heads_the_worst_counts() -> None:
    result = compare(
        [EAGER, EAGER + 1.0], [EAGER, EAGER], precision=Precision.FLOAT32, classes=False
    )
    assert not result.ok
    assert result.rmse_rel == pytest.approx(1.0 / np.abs(EAGER).max())


def test_two_runs_are_deterministic_when_they_agree_to_rounding() -> None:
    assert deterministic([EAGER], [EAGER * (1 + 1e-7)])
    assert not deterministic([EAGER], [EAGER + 1e-3])
    assert not deterministic([EAGER], [EAGER[:2]])


def test_an_algorithm_of_a_gpu_that_loses_digits_is_no_error_and_a_wrong_result_is() -> None:
    """Winograd's error beside an eager kernel without it: far above eager's own."""
    error = np.sign(noise()) * np.abs(EAGER).max()
    assert not gate(EAGER + 3e-4 * error).ok
    assert gate(EAGER + 3e-4 * error, gpu=True).ok
    assert not gate(EAGER + 1e-3 * error, gpu=True).ok
