"""Measure one trial: runner, child process, monitor, timing loop, correctness check."""
