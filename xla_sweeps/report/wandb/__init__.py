"""Weights & Biases: runs of trials."""
