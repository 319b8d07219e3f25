"""Keras on PyTorch: the measuring process, the only code that imports torch; no TensorFlow."""
