"""Keras models in whatever backend runs them: sources, building, random weights.

Keras is loaded here, and no engine: the package works with each value of KERAS_BACKEND.
"""
