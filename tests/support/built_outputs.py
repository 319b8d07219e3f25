"""Print the outputs of a small model that the program builds, and no TensorFlow may be loaded.

python built_outputs.py BACKEND
"""

from __future__ import annotations

import json
import os
import sys

os.environ["KERAS_BACKEND"] = sys.argv[1]

import keras
import numpy as np

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.sources.inputs import drawn
from xla_sweeps.schema.trial import InputSpec, ModelSpec

SPEC = ModelSpec(
    name="mobilenet_v2",
    family="MobileNet",
    variant="MobileNetV2",
    task="classification",
    source="applications",
    library="keras",
    recipe={"constructor": "MobileNet", "arguments": {"alpha": 0.25, "classes": 7}},
    resolution_px=32,
    native_resolution_px=224,
    inputs=(InputSpec(shape=(32, 32, 3)),),
)

if __name__ == "__main__":
    built = building.build(SPEC, precision="float32", seed=3, narrowed=lambda outputs: outputs)
    rng = np.random.default_rng(0)
    batch, more = (keras.ops.convert_to_tensor(drawn(SPEC.inputs[0], 4, rng)) for _ in range(2))
    building.calibrate(built, more)
    print(json.dumps(np.asarray(built.call(batch)).astype(float).tolist()))
    assert (sys.argv[1] == "tensorflow") == ("tensorflow" in sys.modules)
