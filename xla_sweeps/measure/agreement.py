"""Do two outputs agree? The correctness gate that stands before any timing. Pure, numpy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.trial import Precision

TOLERANCE = {Precision.FLOAT32: 1e-4, Precision.MIXED_FLOAT16: 1e-2, Precision.MIXED_BFLOAT16: 2e-2}
"""Largest difference from eager, relative to the largest absolute eager output, that passes by itself."""

REFERENCE_FACTOR = {
    Precision.FLOAT32: 2.0,
    Precision.MIXED_FLOAT16: 3.0,
    Precision.MIXED_BFLOAT16: 3.0,
}
"""How many times eager's own error against float64 a mode may have (as TorchDynamo's accuracy check does)."""

SMALLEST_OUTPUT = 1e-30

REFUSED = "refused:"
"""How a reason begins where the check itself cannot be made."""

BOX_TOLERANCE = {
    Precision.FLOAT32: 1e-3,
    Precision.MIXED_FLOAT16: 2e-2,
    Precision.MIXED_BFLOAT16: 5e-2,
}
"""How far a box's corners may move, relative to the largest coordinate, and a confidence, to count as the same."""

BOXES_FOUND = 0.95
"""Share of eager's boxes that a mode must find.

Not all: where two boxes' confidences or overlaps are equal to within
rounding, suppression keeps the one or the other."""

SLACK = 0.05
"""How many fewer a mode may find than eager itself does on inputs that differ by rounding."""

FEWEST_FOUND = 0.5

Outputs = Sequence[np.ndarray]


def compare(
    outputs: Outputs,
    eager: Outputs,
    reference: Outputs | None = None,
    *,
    precision: Precision,
    classes: bool,
) -> Agreement:
    """Compare a mode's outputs with eager's, and both with a float64 reference where there is one.

    Shapes first, then finiteness; an eager output that is constant or vanishingly small refuses the
    check, since everything would pass it. A mode agrees if it is close to eager, or as close to
    float64 as eager is; and if it finds the same classes, except between classes that eager itself
    cannot tell apart.

    Args:
        outputs: of the mode, one array a head, shape (batch, ...).
        eager: of eager execution, likewise.
        reference: in float64, likewise, for the first images of the batch.
        precision: of the model; sets the tolerances.
        classes: whether the last axis is classes, so that the largest logit means something.
    """
    if [item.shape for item in outputs] != [item.shape for item in eager]:
        shapes = f"{[item.shape for item in outputs]} instead of {[item.shape for item in eager]}"
        return Agreement(
            rmse_rel=None, top1_match=None, ok=False, reason=f"the outputs' shapes differ: {shapes}"
        )
    heads = [
        _compare_head(
            output,
            eager[index],
            reference[index] if reference else None,
            precision,
            classes=classes,
        )
        for index, output in enumerate(outputs)
    ]
    return min(heads, key=lambda head: (head.ok, -(head.rmse_rel or 0.0)))


def compare_detections(
    outputs: Outputs, eager: Outputs, nudged: Outputs, *, precision: Precision
) -> Agreement:
    """Compare what a detector finds, box by box, in whatever order.

    Which boxes are left after suppression hangs on ties that rounding decides, the more so with
    random weights; how much, eager itself shows on inputs changed by no more than rounding.

    Args:
        outputs: of the mode: boxes (batch, n, 4), confidences (batch, n), classes (batch, n), how
            many count (batch).
        eager: of eager execution, likewise.
        nudged: of eager execution on the same inputs changed by rounding, likewise.
        precision: of the model; sets the tolerance.
    """
    if [item.shape for item in outputs] != [item.shape for item in eager]:
        shapes = f"{[item.shape for item in outputs]} instead of {[item.shape for item in eager]}"
        return Agreement(
            rmse_rel=None, top1_match=None, ok=False, reason=f"the outputs' shapes differ: {shapes}"
        )
    if not eager[3].sum():
        return _refused("eager finds no box, so any mode that finds none would agree with it")
    share, moved = _found(outputs, eager, BOX_TOLERANCE[precision])
    by_itself, _ = _found(nudged, eager, BOX_TOLERANCE[precision])
    wanted = max(FEWEST_FOUND, min(BOXES_FOUND, by_itself - SLACK))
    reason = (
        ""
        if share >= wanted
        else f"it finds {share:.0%} of eager's boxes (at least {wanted:.0%} wanted)"
    )
    return Agreement(rmse_rel=moved, top1_match=None, ok=not reason, reason=reason)


def deterministic(first: Outputs, second: Outputs) -> bool:
    """Whether two runs on the same input agree to within rounding."""
    return all(
        one.shape == other.shape
        and bool(np.allclose(one, other, rtol=1e-5, atol=1e-6 * _scale(one), equal_nan=True))
        for one, other in zip(first, second, strict=True)
    )


def _compare_head(
    output: np.ndarray,
    eager: np.ndarray,
    reference: np.ndarray | None,
    precision: Precision,
    *,
    classes: bool,
) -> Agreement:
    scale = _scale(eager)
    if not np.isfinite(eager).all():
        return _refused("eager's own output is not finite")
    if scale < SMALLEST_OUTPUT or float(np.ptp(eager)) <= 1e-6 * scale:
        return _refused("eager's output is constant or vanishes, so any output would agree with it")
    if not np.isfinite(output).all():
        count = int((~np.isfinite(output)).sum())
        return Agreement(
            rmse_rel=None,
            top1_match=None,
            ok=False,
            reason=f"{count} of {output.size} outputs are not finite",
        )
    difference = _rmse(output, eager) / scale
    matches, clear_mismatch = (
        _top1(output, eager, TOLERANCE[precision] * scale) if classes else (None, False)
    )
    error = eager_error = None
    if reference is not None and reference.shape[1:] == eager.shape[1:]:
        images = len(reference)
        error, eager_error = (
            _rmse(values[:images], reference) / _scale(reference) for values in (output, eager)
        )
    tolerance, factor = TOLERANCE[precision], REFERENCE_FACTOR[precision]
    close = float(np.abs(output - eager).max()) <= tolerance * scale
    as_good = error is not None and eager_error is not None and error <= factor * eager_error
    reason = ""
    if not close and not as_good:
        reason = f"outputs differ from eager's by {difference:.1e} of the largest (allowed: {tolerance:.0e})"
        if error is not None:
            reason += f"; error against float64 {error:.1e}, eager's own {eager_error:.1e}"
    elif clear_mismatch and matches is not None:
        reason = f"the largest logit is another class in {1 - matches:.0%} of the images"
    return Agreement(
        rmse_rel=difference,
        top1_match=matches,
        ok=not reason,
        reason=reason,
        rmse_ref_rel=error,
        eager_rmse_ref_rel=eager_error,
    )


def _top1(output: np.ndarray, eager: np.ndarray, margin: float) -> tuple[float, bool]:
    """Share of images with the same largest class, and whether one differs that eager tells apart clearly."""
    rows, expected = output.reshape(-1, output.shape[-1]), eager.reshape(-1, eager.shape[-1])
    found, wanted = rows.argmax(axis=1), expected.argmax(axis=1)
    index = np.arange(len(expected))
    lead = expected[index, wanted] - expected[index, found]
    return float((found == wanted).mean()), bool((lead > 2 * margin).any())


def _refused(reason: str) -> Agreement:
    return Agreement(rmse_rel=None, top1_match=None, ok=False, reason=f"{REFUSED} {reason}")


def _found(outputs: Outputs, eager: Outputs, tolerance: float) -> tuple[float, float | None]:
    """Share of eager's boxes that are there too, and how far those moved, relative to the largest coordinate."""
    counts = [(int(wanted), int(found)) for wanted, found in zip(eager[3], outputs[3], strict=True)]
    scale = _scale(eager[0])
    nearest = np.concatenate(
        [
            _same_boxes(outputs, eager, image, pair, tolerance, scale)
            for image, pair in enumerate(counts)
        ]
    )
    found = nearest[np.isfinite(nearest)]
    moved = float(np.sqrt(np.mean(np.square(found)))) if len(found) else None
    return len(found) / sum(max(pair) for pair in counts), moved


def _same_boxes(
    output: Outputs,
    eager: Outputs,
    image: int,
    sizes: tuple[int, int],
    tolerance: float,
    scale: float,
) -> np.ndarray:
    """For each of eager's boxes in an image, the distance to the nearest that counts as the same.

    Inf where none.
    """
    (boxes, confidences, classes), (others, other_confidences, other_classes) = (
        [np.asarray(item[image][:size]) for item in found[:3]]
        for found, size in ((eager, sizes[0]), (output, sizes[1]))
    )
    if not sizes[1]:
        return np.full(sizes[0], np.inf)
    distance = np.abs(boxes[:, None] - others[None]).max(axis=-1) / scale
    unlike = classes[:, None] != other_classes[None]
    unlike |= np.abs(confidences[:, None] - other_confidences[None]) > tolerance
    distance = np.where(unlike | (distance > tolerance), np.inf, distance)
    return np.asarray(distance.min(axis=1))


def _rmse(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(one - other))))


def _scale(values: np.ndarray) -> float:
    return float(np.abs(values).max(initial=0.0))
