"""Inputs of another size, and models whose layers are called on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tf_keras
from factories import TRIAL

from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.new_shapes import free_sizes, resize
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.schema.trial import InputSpec

pytestmark = [pytest.mark.tf, pytest.mark.slow]


@pytest.mark.parametrize(
    ("shapes", "resized"),
    [
        ([(224, 224, 3)], [(96, 96, 3)]),
        ([(3, 224, 224)], [(3, 96, 96)]),
        ([(240, 320, 3)], [(96, 96, 3)]),
        ([(3, 240, 320)], [(3, 96, 96)]),
        ([(8, 224, 224, 3)], [(8, 96, 96, 3)]),
        ([(128,)], [(96,)]),
        ([(128, 16)], [(96, 16)]),
        ([()], [()]),
        ([(224, 224, 3), (10,), ()], [(96, 96, 3), (10,), ()]),
    ],
)
def test_a_size_is_that_of_an_image_or_else_of_a_sequence(
    shapes: list[tuple[int, ...]], resized: list[tuple[int, ...]]
) -> None:
    given = [InputSpec(shape=shape) for shape in shapes]
    assert resize(given, 96) == [InputSpec(shape=shape) for shape in resized]


def freed(model: Any, specs: Sequence[InputSpec], **changes: Any) -> tuple[BuiltModel, BuiltModel]:
    """The model as it was built, and on free sizes."""
    loaded = LoadedModel.of_keras(model, tuple(specs), **changes)
    built = BuiltModel(loaded=loaded, call=loaded.forward)
    trial = replace(TRIAL, shapes=("8", "12"))
    return built, free_sizes(built, trial, narrowed=lambda outputs: outputs)


def by_name(batch: Any) -> dict[str, Any]:
    return dict(zip(("tokens", "marks"), batch, strict=True))


@pytest.mark.parametrize(("library", "made_up"), [(keras, False), (keras, True), (tf_keras, True)])
def test_inputs_are_paired_by_names_that_were_not_made_up(library: Any, made_up: bool) -> None:
    own, named = ("tokens", "marks"), ("tokens", "marks")
    if made_up:
        own, named = ("input_1", "input_2"), ("input_2", "input_3")
    inputs = [library.Input((16, size), name=name) for size, name in zip((2, 5), own, strict=True)]
    pack: Any = list if made_up else by_name
    both = library.layers.Concatenate()(inputs)
    model = library.Model(pack(inputs), library.layers.GlobalMaxPooling1D()(both))
    sizes = zip((2, 5), named, strict=True)
    specs = [InputSpec(shape=(16, size), name=name) for size, name in sizes]
    built, free = freed(model, specs, pack=pack)
    assert free is not built
    batch = (np.ones((2, 9, 2), "float32"), np.zeros((2, 9, 5), "float32"))
    assert np.asarray(free.call(batch)).tolist() == [[1.0] * 2 + [0.0] * 5] * 2


@pytest.mark.parametrize("library", [keras, tf_keras])
@pytest.mark.parametrize("kind", ["functional", "sequential"])
def test_layers_are_called_on_free_sizes_with_the_same_weights(library: Any, kind: str) -> None:
    layers = [
        library.layers.Conv2D(4, 3),
        library.layers.BatchNormalization(),
        library.layers.GlobalAveragePooling2D(),
    ]
    if kind == "sequential":
        model = library.Sequential([library.Input((8, 8, 3)), *layers])
    else:
        inputs = values = library.Input((8, 8, 3))
        for layer in layers:
            values = layer(values)
        model = library.Model(inputs, values)
    built, free = freed(model, [InputSpec(shape=(8, 8, 3))])
    batch = np.random.default_rng(0).random((2, 8, 8, 3), "float32")
    assert np.array_equal(free.call(batch), built.call(batch))
    larger = np.zeros((2, 12, 12, 3), "float32")
    assert free.call(larger).shape == (2, 4)
    weights = ([id(each) for each in one.loaded.variables] for one in (free, built))
    assert next(weights) == next(weights)
    if kind == "functional":
        with pytest.raises(Exception, match=r"expected shape|incompatible"):
            built.call(larger)
