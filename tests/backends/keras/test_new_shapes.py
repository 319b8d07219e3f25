"""Inputs of another size, and models whose layers are called on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from factories import TRIAL

from xla_sweeps.schema.trial import InputSpec

pytestmark = [pytest.mark.tf, pytest.mark.slow]


@pytest.mark.parametrize(
    ("shape", "resized"),
    [
        ((224, 224, 3), (96, 96, 3)),
        ((3, 224, 224), (3, 96, 96)),
        ((240, 320, 3), (96, 96, 3)),
        ((3, 240, 320), (3, 96, 96)),
        ((8, 224, 224, 3), (8, 96, 96, 3)),
        ((128,), (96,)),
        ((128, 16), (96, 16)),
        ((), ()),
    ],
)
def test_a_size_is_that_of_an_image_or_of_a_sequence(
    shape: tuple[int, ...], resized: tuple[int, ...]
) -> None:
    from xla_sweeps.backends.keras.new_shapes import resize

    assert resize([InputSpec(shape=shape)], 96) == [InputSpec(shape=resized)]


def test_beside_an_image_other_inputs_keep_their_sizes() -> None:
    from xla_sweeps.backends.keras.new_shapes import resize

    given = [InputSpec(shape=shape) for shape in ((224, 224, 3), (10,), ())]
    assert [each.shape for each in resize(given, 96)] == [(96, 96, 3), (10,), ()]


def test_inputs_by_name_are_paired_by_their_names() -> None:
    import numpy as np
    from keras import Input, Model, layers

    from xla_sweeps.backends.keras.building import BuiltModel
    from xla_sweeps.backends.keras.new_shapes import free_sizes
    from xla_sweeps.backends.keras.sources import LoadedModel

    inputs = {"tokens": Input((16, 2), name="tokens"), "marks": Input((16, 5), name="marks")}
    both = layers.Concatenate()([inputs["tokens"], inputs["marks"]])
    model = Model(inputs, layers.GlobalMaxPooling1D()(both))
    specs = (InputSpec(shape=(16, 2), name="tokens"), InputSpec(shape=(16, 5), name="marks"))
    loaded = LoadedModel.of_keras(
        model, specs, pack=lambda batch: dict(zip(("tokens", "marks"), batch, strict=True))
    )
    built = BuiltModel(loaded=loaded, call=loaded.forward)
    free = free_sizes(built, TRIAL, narrowed=lambda outputs: outputs)
    batch = (np.ones((2, 9, 2), "float32"), np.zeros((2, 9, 5), "float32"))
    assert np.asarray(free.call(batch)).tolist() == [[1.0] * 2 + [0.0] * 5] * 2


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_made_up_names_pair_no_inputs(library: str) -> None:
    import importlib

    import numpy as np

    from xla_sweeps.backends.keras.building import BuiltModel
    from xla_sweeps.backends.keras.new_shapes import free_sizes
    from xla_sweeps.backends.keras.sources import LoadedModel

    keras: Any = importlib.import_module(library)
    inputs = [keras.Input((16, 2), name="input_1"), keras.Input((16, 5), name="input_2")]
    both = keras.layers.Concatenate()(inputs)
    model = keras.Model(inputs, keras.layers.GlobalMaxPooling1D()(both))
    specs = (InputSpec(shape=(16, 2), name="input_2"), InputSpec(shape=(16, 5), name="input_3"))
    loaded = LoadedModel.of_keras(model, specs, pack=list)
    built = BuiltModel(loaded=loaded, call=loaded.forward)
    free = free_sizes(built, TRIAL, narrowed=lambda outputs: outputs)
    assert free is not built
    batch = (np.ones((2, 9, 2), "float32"), np.zeros((2, 9, 5), "float32"))
    assert np.asarray(free.call(batch)).tolist() == [[1.0] * 2 + [0.0] * 5] * 2


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
@pytest.mark.parametrize("kind", ["functional", "sequential"])
def test_the_layers_of_a_model_are_called_on_free_sizes_with_the_same_weights(
    library: str, kind: str
) -> None:
    import importlib

    import numpy as np

    from xla_sweeps.backends.keras.building import BuiltModel
    from xla_sweeps.backends.keras.new_shapes import free_sizes
    from xla_sweeps.backends.keras.sources import LoadedModel

    keras: Any = importlib.import_module(library)
    layers = [
        keras.layers.Conv2D(4, 3),
        keras.layers.BatchNormalization(),
        keras.layers.GlobalAveragePooling2D(),
    ]
    if kind == "sequential":
        model = keras.Sequential([keras.Input((8, 8, 3)), *layers])
    else:
        inputs = values = keras.Input((8, 8, 3))
        for layer in layers:
            values = layer(values)
        model = keras.Model(inputs, values)
    loaded = LoadedModel.of_keras(model, (InputSpec(shape=(8, 8, 3)),))
    built = BuiltModel(loaded=loaded, call=loaded.forward)
    trial = replace(TRIAL, shapes=("8", "12"))
    free = free_sizes(built, trial, narrowed=lambda outputs: outputs)
    batch = np.random.default_rng(0).random((2, 8, 8, 3), "float32")
    assert np.array_equal(free.call(batch), built.call(batch))
    assert free.call(np.zeros((2, 12, 12, 3), "float32")).shape == (2, 4)
    assert [id(one) for one in free.loaded.variables] == [id(one) for one in loaded.variables]
    if kind == "functional":
        with pytest.raises(Exception, match=r"expected shape|incompatible"):
            built.call(np.zeros((2, 12, 12, 3), "float32"))
