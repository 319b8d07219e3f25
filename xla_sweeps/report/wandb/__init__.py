"""Log trials as Weights & Biases runs."""
