"""Check, before timing, that a detector finds eager's boxes. Pure, numpy only."""

from __future__ import annotations

import numpy as np

from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.trial import Precision
from xla_sweeps.worker.agreement import Outputs, other_shapes, refuse, scale_of

BOX_TOLERANCE = {
    Precision.FLOAT32: 1e-3,
    Precision.MIXED_FLOAT16: 2e-2,
    Precision.MIXED_BFLOAT16: 5e-2,
}
"""Two boxes match if corners (relative to the largest coordinate) and confidence differ by less."""

BOXES_FOUND = 0.95
"""Share of eager's boxes that a mode must find.

Not all: where confidences or overlaps are equal to within rounding, non-max suppression may keep
either box.
"""

SLACK = 0.05
"""A mode may find this share fewer than eager itself finds on inputs that differ by rounding."""

FEWEST_FOUND = 0.5
"""Share of eager's boxes that a mode must find, however few eager itself finds again."""


def compare_detections(
    outputs: Outputs, eager: Outputs, nudged: Outputs, *, precision: Precision
) -> Agreement:
    """Compare a detector's boxes, in any order.

    Rounding decides ties in non-max suppression, especially with random weights, so boxes can
    differ without an error. Eager execution on inputs changed by rounding (`nudged`) shows how many
    do. Outputs are boxes (batch, n, 4), confidences (batch, n), classes (batch, n), and the number
    of valid boxes (batch).
    """
    if unlike := other_shapes(outputs, eager):
        return unlike
    if not eager[3].sum():
        return refuse("eager finds no box, so any mode that finds none would agree with it")
    share, moved = _match_boxes(outputs, eager, BOX_TOLERANCE[precision])
    by_itself, _ = _match_boxes(nudged, eager, BOX_TOLERANCE[precision])
    wanted = max(FEWEST_FOUND, min(BOXES_FOUND, by_itself - SLACK))
    ok = share >= wanted
    reason = "" if ok else f"it finds {share:.0%} of eager's boxes (at least {wanted:.0%} required)"
    return Agreement(rmse_rel=moved, top1_match=None, ok=ok, reason=reason)


def _match_boxes(outputs: Outputs, eager: Outputs, tolerance: float) -> tuple[float, float | None]:
    """Share of eager's boxes that the outputs have too, and how far those moved, of the largest."""
    scale, nearest = scale_of(eager[0]), list[np.ndarray]()
    for image, (wanted, given) in enumerate(zip(eager[3], outputs[3], strict=True)):
        boxes = [head[image][: int(wanted)] for head in eager[:3]]
        others = [head[image][: int(given)] for head in outputs[:3]]
        nearest.append(_measure_nearest(others, boxes, tolerance, scale))
    every = np.concatenate(nearest)
    distances = every[np.isfinite(every)]
    moved = float(np.sqrt(np.mean(np.square(distances)))) if len(distances) else None
    return len(distances) / int(np.maximum(eager[3], outputs[3]).sum()), moved


def _measure_nearest(output: Outputs, eager: Outputs, tolerance: float, scale: float) -> np.ndarray:
    """Distance of each of eager's boxes in an image to the nearest matching box, or inf."""
    boxes, confidences, classes = eager
    others, other_confidences, other_classes = output
    if not len(others):
        return np.full(len(boxes), np.inf)
    distance = np.abs(boxes[:, None] - others[None]).max(axis=-1) / scale
    unlike = classes[:, None] != other_classes[None]
    unlike |= np.abs(confidences[:, None] - other_confidences[None]) > tolerance
    distance = np.where(unlike | (distance > tolerance), np.inf, distance)
    return np.asarray(distance.min(axis=1))
