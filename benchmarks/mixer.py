"""A small MLP-Mixer on 64 tokens of 64 numbers, a model of one's own for `benchmarks.advise`."""

from __future__ import annotations

import keras


def build() -> keras.Model:
    """Four blocks that mix tokens, then channels."""
    inputs = x = keras.Input((64, 64))
    for _ in range(4):
        y = keras.layers.LayerNormalization()(x)
        y = keras.layers.Permute((2, 1))(y)
        y = keras.layers.Dense(128, activation="gelu")(y)
        y = keras.layers.Dense(64)(y)
        x = x + keras.layers.Permute((2, 1))(y)
        y = keras.layers.LayerNormalization()(x)
        y = keras.layers.Dense(256, activation="gelu")(y)
        x = x + keras.layers.Dense(64)(y)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(10)(x))
