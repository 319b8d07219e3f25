"""What XLA refuses of a model, and its silent traps, found in the model itself."""
