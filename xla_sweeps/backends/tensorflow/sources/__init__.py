"""Sources of models that only TensorFlow has, and models that `api.shipping` saved."""
