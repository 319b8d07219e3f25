"""The measuring process, the only code that imports TensorFlow.

No other package imports this one; it is entered by starting `worker`.
"""
