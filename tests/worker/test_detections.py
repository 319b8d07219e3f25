"""The correctness check of a detector's boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xla_sweeps.schema.measurement import Agreement
from xla_sweeps.schema.trial import Precision
from xla_sweeps.worker.detections import compare_detections


def detections(
    order: list[int], *, moved: float = 0.0, classes: list[int] | None = None
) -> list[np.ndarray]:
    """One image's boxes in some order: boxes, confidences, classes, count."""
    boxes = (
        np.array([[10.0 * index, 5, 10.0 * index + 8, 20] for index in range(40)])[order] + moved
    )
    confidences = np.linspace(0.9, 0.5, 40)[order]
    labels = np.array(classes if classes is not None else [index % 3 for index in range(40)])[order]
    return [boxes[None], confidences[None], labels[None], np.array([len(order)])]


def boxes_compared(
    outputs: list[np.ndarray], eager: list[np.ndarray], nudged: list[np.ndarray] | None = None
) -> Agreement:
    return compare_detections(
        outputs, eager, eager if nudged is None else nudged, precision=Precision.FLOAT32
    )


def test_boxes_agree_in_whatever_order() -> None:
    order = list(range(40))
    result = boxes_compared(detections(order[::-1]), detections(order))
    assert result.ok
    assert result.rmse_rel == 0


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({"moved": 5.0}, "0%"),
        ({"classes": [9] * 40}, "0%"),
        ({"classes": [*range(4), *([1] * 36)]}, ""),
    ],
)
def test_boxes_elsewhere_or_of_other_classes_do_not_match(
    changes: dict[str, Any], share: str
) -> None:
    order = list(range(40))
    result = boxes_compared(detections(order, **changes), detections(order))
    assert not result.ok
    assert f"it finds {share}" in result.reason


def test_one_box_in_forty_may_differ() -> None:
    eager = detections(list(range(40)))
    close, far = ([output.copy() for output in eager] for _ in range(2))
    close[0][0, 7] += 30
    far[0][0, 7:11] += 3000
    assert boxes_compared(close, eager, eager).ok
    assert not boxes_compared(far, eager, eager).ok


def test_two_empty_detections_agree() -> None:
    none, some = detections([]), detections([0, 1])
    refused = boxes_compared(none, none, none)
    assert refused.refused
    padded = [*some[:3], np.array([0])]
    assert not boxes_compared(padded, some, some).ok
    shapes = boxes_compared(none, some, some)
    assert "shapes differ" in shapes.reason


def test_a_mode_may_miss_a_box_that_eager_misses_too_on_inputs_that_differ_by_rounding() -> None:
    eager = detections(list(range(40)))
    far, further = ([output.copy() for output in eager] for _ in range(2))
    far[0][0, :6] += 3000
    further[0][0, :12] += 3000
    assert not boxes_compared(far, eager, eager).ok
    assert boxes_compared(far, eager, far).ok
    assert not boxes_compared(further, eager, far).ok
