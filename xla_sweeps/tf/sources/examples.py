"""Models that show one thing each, built here."""

from __future__ import annotations

import keras

from xla_sweeps.errors import unknown_name
from xla_sweeps.schema.trial import InputSpec, ModelSpec
from xla_sweeps.tf.sources.loaded import LoadedModel


def load(spec: ModelSpec) -> LoadedModel:
    """Build an example for matrices of the spec's resolution.

    Raises:
        ConfigError: there is no such example.
    """
    name = spec.recipe["constructor"]
    if name not in _EXAMPLES:
        raise unknown_name("example", name, _EXAMPLES)
    side = spec.inputs[0].shape[0]
    model = _EXAMPLES[name](side)
    return LoadedModel(
        forward=lambda batch: model(list(batch), training=False),
        inputs=tuple(
            InputSpec(shape=(side, side), high=1.0, name=item.name) for item in model.inputs
        ),
        variables=model.variables,
        keras_model=model,
    )


def _sum_of_products(side: int) -> keras.Model:
    """For each sample, the sum of x + y * z over three matrices of that side.

    A multiplication, an addition and a sum: one after the other they move 7 arrays, fused only the
    3 inputs. The example is that of TensorFlow's introduction to XLA.
    """
    x, y, z = (keras.Input((side, side), name=name) for name in "xyz")
    return keras.Model([x, y, z], keras.ops.sum(x + y * z, axis=(1, 2)))


_EXAMPLES = {"sum_of_products": _sum_of_products}
