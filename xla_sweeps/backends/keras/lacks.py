"""Precisions in which an engine cannot train, with the reason; of scenarios: `SCENARIOS`."""

from __future__ import annotations

from collections.abc import Mapping

from xla_sweeps.schema.trial import Precision

BESIDE_TENSORFLOW: Mapping[str, str] = {
    Precision.MIXED_FLOAT16: "its loss scaling is not supported",
}
"""Of JAX and PyTorch; TensorFlow lacks none."""
