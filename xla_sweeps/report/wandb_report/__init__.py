"""A Weights & Biases report, workspace and summary run."""
