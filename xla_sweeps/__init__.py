"""Measure what XLA buys a Keras vision model, on your hardware, with statistics that hold up."""

from __future__ import annotations

__version__ = "0.1.0"
