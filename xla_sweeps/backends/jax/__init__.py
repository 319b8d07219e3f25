"""Keras on JAX: the measuring process, the only code that imports JAX. It loads no TensorFlow."""
