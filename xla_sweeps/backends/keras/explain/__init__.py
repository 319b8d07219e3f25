"""Explanation of a Keras model whatever runs it."""
