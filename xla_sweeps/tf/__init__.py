"""The measuring process: the only TensorFlow.

Nothing imports it; it is entered by starting `tf.worker`.
"""
