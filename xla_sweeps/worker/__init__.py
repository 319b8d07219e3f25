"""The measuring process, whatever the framework: a small server that does what its parent asks."""
