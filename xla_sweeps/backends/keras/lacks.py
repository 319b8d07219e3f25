"""What an engine cannot do, with the reason; the errors that refuse it say so."""

from __future__ import annotations

from collections.abc import Mapping

from xla_sweeps.schema.modes import Scenario
from xla_sweeps.schema.trial import Precision

BESIDE_TENSORFLOW: Mapping[str, str] = {
    Scenario.DETECT: "the detectors decode their boxes in TensorFlow",
    Scenario.FIT: "its input pipeline is TensorFlow's tf.data",
    Precision.MIXED_FLOAT16: "its loss scaling is not supported",
}
"""Of JAX and PyTorch: scenarios, and precisions of a training. TensorFlow lacks none of them."""
