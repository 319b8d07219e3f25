"""Measure what XLA buys a Keras vision model, on your hardware, with statistics that hold up."""

__version__ = "0.1.0"
