"""TensorFlow: the measuring process and other programs of it, the only code that imports it.

No other package imports this one: `schema.backend` finds its `declaration`, which loads nothing of
TensorFlow, and whoever needs a program of it starts that as a process.
"""
