"""Write a Weights & Biases report, workspace and summary run."""
