"""Refusals and silent traps of XLA, found in a model itself."""
