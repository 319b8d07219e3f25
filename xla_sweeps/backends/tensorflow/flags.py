"""Have TensorFlow read its flags: it aborts at an unknown one, and lists them all at --help."""

from __future__ import annotations

import tensorflow as tf

if __name__ == "__main__":
    tf.function(lambda number: number + 1.0, jit_compile=True)(tf.constant(1.0))
