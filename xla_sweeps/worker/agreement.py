"""Check, before timing, that a mode computes what eager execution computes. Pure, numpy only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from xla_sweeps.schema.measurement import OWN_INPUT, Agreement, Failure, Phase, Status
from xla_sweeps.schema.trial import Precision

TOLERANCE = {Precision.FLOAT32: 1e-4, Precision.MIXED_FLOAT16: 1e-2, Precision.MIXED_BFLOAT16: 2e-2}
"""A difference from eager that passes, relative to the largest absolute eager output.

In half precision only where there is no float64 reference: an error of 1 % would hide in it.
"""

ROUNDING = {Precision.MIXED_FLOAT16: 1e-3, Precision.MIXED_BFLOAT16: 8e-3}
"""The same in half precision where there is one: about one rounding."""

USUAL_ERROR = 1e-5
"""Eager's error in float32, relative to the largest output, that most models stay below."""

GPU_TOLERANCE = 5e-4
"""The same for float32 on a GPU.

There each mode may choose other algorithms for a convolution or a product. Winograd's and split-K's
lose digits that eager's own kernel keeps, and are no error. TF32's error of 1e-3 still fails.
"""

REFERENCE_FACTOR = 2.0
"""A mode's error against float64 may be this many times eager's own (as in TorchDynamo's check)."""

NUDGE = {Precision.FLOAT32: 1e-6, Precision.MIXED_FLOAT16: 1e-3, Precision.MIXED_BFLOAT16: 8e-3}
"""Relative change of the inputs, about as small as rounding."""

AMPLIFIED = 100
"""Number of tolerances of eager's own error against float64 above which it excuses no mode's."""

NUDGES = 3
"""Changes of each input by which it is seen how far rounding moves eager's outputs."""

SMALL_PART = 0.05
"""A sample or a channel is compared with its own largest output, or this share of all's largest."""

WHOLE = 0.25
"""A difference of integers, such as classes or tokens, from which on they are others."""

_HAS_CHANNELS = 3
"""Axes of an output of samples, positions and channels, these last or, as in PyTorch, second."""

SMALLEST_OUTPUT = 1e-30
"""Outputs below this, in absolute value, are too small to compare."""

SILENT = (
    "eager's output is constant, vanishes or is nowhere finite, so any output would agree with it"
)

RANGE_HINT = "give inputs of the range that the model expects: low and high in input_spec"

SILENT_HINT = f"{RANGE_HINT}; where it returns a choice (argmax), measure the scores before it"

_DIFFER = "two eager runs on the same input differ, so no mode can be verified"

_DRAWS = "a call draws random numbers, and this mode draws other ones than eager execution"

_NO_RANDOM_NUMBERS = (
    "measure it without random numbers (as of training=True in a call) and without what Python "
    "keeps from call to call"
)

Outputs = Sequence[np.ndarray]


class Judged(Protocol):
    """A model of which it is known whether two eager runs agree, if only from the same seeds."""

    deterministic: bool
    draws: bool


@dataclass(frozen=True, slots=True)
class Move:
    """Distance by which rounding moves one output of eager execution, in its unit.

    Attributes:
        rms: root mean square over a sample, of the sample and the change that moves it most.
        largest: the largest of any number.
    """

    rms: float = 0.0
    largest: float = 0.0


def moves_of(eager: Outputs, nudged: Iterable[Outputs]) -> list[Move]:
    """Moves of each output on an input that is changed by rounding."""
    return worst_moves(map(partial(_moves_once, eager), nudged))


def worst_moves(moves: Iterable[Sequence[Move]]) -> list[Move]:
    """The furthest of each output, of moves on several inputs.

    An input may be one on which rounding happens to move the outputs little.
    """
    return [
        Move(max(move.rms for move in heads), max(move.largest for move in heads))
        for heads in zip(*moves, strict=True)
    ]


def _moves_once(eager: Outputs, nudged: Outputs) -> list[Move]:
    with np.errstate(invalid="ignore"):  # infinity less infinity
        moved = [given - plain for given, plain in zip(nudged, eager, strict=True)]
    heads = [np.where(np.isfinite(head), head, 0.0) for head in moved]
    return [Move(float(_rms_of_samples(head).max(initial=0.0)), scale_of(head)) for head in heads]


def compare(
    outputs: Outputs,
    eager: Outputs,
    reference: Outputs | None = None,
    *,
    precision: Precision,
    classes: bool,
    moves: Sequence[Move] = (),
    gpu: bool = False,
    may_refer: bool = False,
) -> Agreement:
    """Compare a mode's outputs with eager's, and both with a float64 reference where there is one.

    Shapes are checked first, then that NaN and infinities are in eager's places; the other values
    are compared. Outputs that show nothing, because eager's are constant, vanishingly small or
    nowhere finite, do not count; without others the comparison is refused. A mode agrees if it is
    close to eager, or as far from it on every sample, and from float64, as rounding explains:
    eager's own error against float64, and what a change of its inputs by rounding makes of its
    outputs (`moves`, one a head). And it must predict the same classes, except where eager itself
    cannot tell two classes apart. Where rounding takes eager so far that a constant or random
    numbers would be as close, a mode that is not close to eager is refused.

    Outputs are one array per head, shape (batch, ...), of the reference for the first images only.
    With `classes` the last axis is classes, so that the largest logit is a prediction. A reference
    that is not there yet, but may be, is asked for where half precision hides an error
    (`may_refer`).
    """
    tolerance = TOLERANCE[precision]
    if reference or may_refer:
        tolerance = ROUNDING.get(precision, tolerance)
    if gpu:
        tolerance = max(tolerance, GPU_TOLERANCE)
    if unlike := other_shapes(outputs, eager):
        return unlike
    references = [*(reference or ()), *[None] * len(eager)][: len(eager)]
    head_moves = moves or [Move()] * len(eager)
    heads = [
        _compare_head(output, wanted, exact, move, tolerance, classes=classes)
        for output, wanted, exact, move in zip(outputs, eager, references, head_moves, strict=True)
    ]
    return worst(filter(None, heads)) if any(heads) else refuse(SILENT)


def are_plausible(
    references: Iterable[Outputs], eager: Iterable[Outputs], precision: Precision
) -> bool:
    """Tell if eager's outputs are a usual rounding away from float64 ones of the first samples.

    Both are given on each of some inputs.
    """
    return all(
        exact.shape[1:] == wanted.shape[1:]
        and _rmse(wanted[: len(exact)], exact)
        <= ROUNDING.get(precision, USUAL_ERROR) * max(scale_of(exact), SMALLEST_OUTPUT)
        for pair in zip(references, eager, strict=True)
        for exact, wanted in zip(*pair, strict=True)
    )


def shows_nothing(outputs: Outputs) -> bool:
    """True if any output would agree with these: constant, vanishing or nowhere finite."""
    return all(_is_silent(output) for output in outputs)


def is_no_further(later: Agreement, proved: Agreement) -> bool:
    """True if a mode is as close to eager as on inputs where that was proved to be rounding.

    Where a model amplifies rounding, eager's own error on other inputs may be small by chance.
    """
    if not proved.ok or later.rmse_rel is None or proved.rmse_rel is None:
        return False
    same_classes = later.top1_match in (None, 1.0, proved.top1_match)
    return same_classes and later.rmse_rel <= proved.rmse_rel


def worst(agreements: Iterable[Agreement]) -> Agreement:
    """One that is not ok, if there is one; among those the one that differs most."""
    return min(agreements, key=lambda one: (one.ok, -(one.rmse_rel or 0.0)))


def settles_nothing(agreement: Agreement) -> bool:
    """True if eager's output was such that any would agree with it."""
    return agreement.reason.endswith(SILENT)


def judge(agreement: Agreement, model: Judged, is_reference: bool) -> tuple[Status, Failure | None]:
    """The status of a mode, or of the eager execution that is its reference, and its failure."""
    if agreement.ok or (is_reference and model.deterministic and agreement.refused):
        return Status.OK, None
    failure = partial(Failure, phase=Phase.VERIFY)
    if is_reference or not model.deterministic:
        message = _DRAWS if model.draws and not is_reference else _DIFFER
        return Status.NONDETERMINISTIC, failure(
            kind="nondeterministic", message=message, hint=_NO_RANDOM_NUMBERS
        )
    if agreement.refused:
        hint = SILENT_HINT * settles_nothing(agreement)
        return Status.UNVERIFIABLE, failure(
            kind="unverifiable", message=agreement.reason, hint=hint
        )
    return Status.WRONG_RESULT, failure(kind="disagreement", message=agreement.reason)


def on_input(agreement: Agreement, position: int, *, own: bool) -> Agreement:
    """The agreement, whose reason says on which input; `own` if one of them is the user's."""
    if not agreement.reason:
        return agreement
    name = "your batch" if own and position == OWN_INPUT else f"input {position + 1}"
    return replace(agreement, reason=f"on {name}: {agreement.reason}")


def deterministic(first: Outputs, second: Outputs) -> bool:
    """True if two runs on the same input agree to within rounding."""
    return all(
        one.shape == other.shape
        and bool(np.allclose(one, other, rtol=1e-5, atol=1e-6 * scale_of(one), equal_nan=True))
        for one, other in zip(first, second, strict=True)
    )


def other_shapes(outputs: Outputs, eager: Outputs) -> Agreement | None:
    """The verdict where the outputs' shapes, or kinds of numbers, are not eager's; else None."""
    sides = (outputs, eager)
    shapes = [[array.shape for array in heads] for heads in sides]
    kinds = [[_KINDS.get(array.dtype.type, "float") for array in heads] for heads in sides]
    for name, (given, wanted) in (("shapes", shapes), ("types", kinds)):
        if given != wanted:
            reason = f"the outputs' {name} differ: {given} instead of {wanted}"
            return Agreement(rmse_rel=None, top1_match=None, ok=False, reason=reason)
    return None


_WIDEST = {"b": np.int8, "i": np.int64, "u": np.int64}

_KINDS = {np.int8: "bool", np.int64: "int", np.float64: "float"}  # what `widen_head` makes


def widen_head(head: np.ndarray) -> np.ndarray:
    """A head in the widest type of its kind: bool as int8, integers as int64, others as float64."""
    return head.astype(_WIDEST.get(head.dtype.kind, np.float64))


def _compare_head(
    output: np.ndarray,
    eager: np.ndarray,
    reference: np.ndarray | None,
    move: Move,
    tolerance: float,
    *,
    classes: bool,
) -> Agreement | None:
    """The agreement of one output; None where it is eager's and shows nothing."""
    if reference is not None and reference.shape[1:] != eager.shape[1:]:
        reference = None
    if (answer := _not_finite_elsewhere(output, eager, reference)) is not None:
        return answer
    silent, finite = _is_silent(eager), np.isfinite(eager)
    output, eager = np.where(finite, output, 0.0), np.where(finite, eager, 0.0)
    scale = scale_of(eager)
    if scale < SMALLEST_OUTPUT:
        vanishes = scale_of(output) < SMALLEST_OUTPUT
        return None if vanishes else refuse("eager's output vanishes, and this mode's does not")
    apart = np.abs(output - eager)
    reason, allowed = _find_difference(apart, eager, scale, tolerance)
    if silent and not reason:
        return None
    rmse_rel = _rmse(output, eager) / scale
    agreement = Agreement(
        rmse_rel=rmse_rel, top1_match=None, ok=not reason, reason=reason, allowed=allowed
    )
    margin = max(tolerance * scale, move.largest)
    spread = float(eager.std()) / scale if eager.size > 1 else 1.0  # its distance from 0
    if reference is not None:
        reference = np.where(finite[: len(reference)], reference, 0.0)
        size, images = scale_of(reference), len(reference)
        spread = float(reference.std()) / size if reference.size > 1 else spread
        agreement = replace(
            agreement,
            rmse_ref_rel=_rmse(output[:images], reference) / size,
            eager_rmse_ref_rel=_rmse(eager[:images], reference) / size,
        )
        margin = max(margin, float(np.abs(eager[:images] - reference).max()))
    matches, clear_mismatch = _top1(output, eager, margin) if classes else (None, False)
    agreement = replace(agreement, top1_match=matches)
    if reason:
        bound = min(AMPLIFIED * tolerance, spread / REFERENCE_FACTOR)
        sizes = _rms_of_samples(apart) / scale
        agreement = _judge_by_rounding(agreement, sizes, move.rms / scale, bound)
    if agreement.ok and clear_mismatch and matches is not None:
        reason = f"the predicted class differs in {1 - matches:.0%} of the images"
        agreement = replace(agreement, ok=False, reason=reason)
    return agreement


def _find_difference(
    apart: np.ndarray, eager: np.ndarray, scale: float, tolerance: float
) -> tuple[str, float]:
    """Difference of outputs that are so far `apart` from eager's, in words; "" where close.

    Also the root mean square, of the largest output, from which on such a difference counts.
    """
    others = int((apart > WHOLE).sum())
    if others and not (eager % 1).any():
        return f"{others} of {eager.size} integers differ from eager's", 0.0
    furthest = _furthest(apart, np.abs(eager), scale)
    if furthest <= tolerance:
        return "", tolerance
    reason = (
        f"outputs differ from eager's by up to {furthest:.1e} of the largest output "
        f"of a sample or channel (allowed: {tolerance:.0e})"
    )
    return reason, tolerance / furthest * float(np.sqrt(np.mean(np.square(apart)))) / scale


def _furthest(apart: np.ndarray, sizes: np.ndarray, scale: float) -> float:
    """The largest difference, relative to the largest output of its sample, of its channel or all.

    In that of all, a score of 0 to 1 would hide beside a box in pixels.
    """
    furthest = float(apart.max()) / scale
    axes = {0, 1, apart.ndim - 1} if apart.ndim >= _HAS_CHANNELS else set(range(apart.ndim)[:1])
    for axis in axes:
        others = tuple(each for each in range(apart.ndim) if each != axis)
        own = np.maximum(sizes.max(axis=others), SMALL_PART * scale)
        furthest = max(furthest, float((apart.max(axis=others) / own).max()))
    return furthest


def _is_silent(eager: np.ndarray) -> bool:
    """True if any output would agree with this one of eager's."""
    finite = eager[np.isfinite(eager)]
    scale = scale_of(finite)
    constant = eager.size > 1 and float(np.ptp(finite)) <= 1e-6 * scale if finite.size else True
    return scale < SMALLEST_OUTPUT or constant


def _not_finite_elsewhere(
    output: np.ndarray, eager: np.ndarray, reference: np.ndarray | None
) -> Agreement | None:
    """The verdict where NaN and infinities are not where eager has them; None where they are."""
    finite = np.isfinite(eager)
    lost = int((~np.isfinite(output[finite])).sum())
    same = (output == eager) | (np.isnan(output) & np.isnan(eager))
    other = int((~finite & ~same).sum())
    if lost:
        reason = f"{lost} of {output.size} outputs are not finite, where eager's are"
    elif other:
        reason = f"{other} of {output.size} outputs are not NaN or infinite, where eager's are"
    else:
        return None
    if reference is not None and np.isfinite(reference[~finite[: len(reference)]]).any():
        return refuse("eager's own output overflows: in float64 it is finite")
    return Agreement(rmse_rel=None, top1_match=None, ok=False, reason=reason)


def _judge_by_rounding(
    agreement: Agreement, apart: np.ndarray, moved: float, bound: float
) -> Agreement:
    """The agreement of outputs that are not close to eager's: ok if rounding explains it.

    Relative to the largest output are how far each sample is `apart` from eager's (root mean
    square), how far rounding has `moved` eager's, and the `bound` above which
    rounding explains anything.
    """
    error, eager_error = agreement.rmse_ref_rel, agreement.eager_rmse_ref_rel
    rounding = max(moved, eager_error or 0.0)
    if not rounding:
        return agreement
    if not rounding <= bound:
        how = f"it moves eager's outputs by {moved:.1e} of the largest"
        if eager_error is not None and not eager_error <= bound:
            how = (
                f"eager's own error against float64 is {eager_error:.1e} of the largest output, "
                f"this mode's {error:.1e}"
            )
        return replace(agreement, reason=f"the model amplifies rounding: {how}", refused=True)
    allowed, allowed_apart = REFERENCE_FACTOR * rounding, (1 + REFERENCE_FACTOR) * rounding
    agreement = replace(agreement, allowed=allowed_apart)
    if error is not None and not error <= allowed:
        more = f"error against float64 {error:.1e}, allowed: {allowed:.1e}"
    elif not (furthest := apart.max()) <= allowed_apart:
        sample = f"sample {apart.argmax() + 1} by {furthest:.1e} on average"
        more = f"{sample}, allowed: {allowed_apart:.1e}"
    else:
        return replace(agreement, ok=True, reason="")
    return replace(agreement, reason=f"{agreement.reason}; {more}")


def _top1(output: np.ndarray, eager: np.ndarray, margin: float) -> tuple[float, bool]:
    """Share of images with the same prediction, and whether one clear prediction differs."""
    rows, expected = output.reshape(-1, output.shape[-1]), eager.reshape(-1, eager.shape[-1])
    predicted, wanted = rows.argmax(axis=1), expected.argmax(axis=1)
    index = np.arange(len(expected))
    lead = expected[index, wanted] - expected[index, predicted]
    return float((predicted == wanted).mean()), bool((lead > 2 * margin).any())


def refuse(reason: str) -> Agreement:
    """The comparison with what cannot be compared."""
    return Agreement(rmse_rel=None, top1_match=None, ok=False, reason=reason, refused=True)


def _rms_of_samples(apart: np.ndarray) -> np.ndarray:
    """Root mean square over each sample of a batch; of an output without a batch over all of it."""
    rows = apart.reshape(len(apart), -1) if apart.ndim and apart.size else apart.reshape(1, -1)
    return np.asarray(np.sqrt(np.mean(np.square(rows), axis=1)))


def _rmse(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(one - other))))


def scale_of(values: np.ndarray) -> float:
    """The largest absolute value that is finite."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
