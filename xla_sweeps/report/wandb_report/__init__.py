"""Write a Weights & Biases report and summary run."""
