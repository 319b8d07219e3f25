"""One trial: runner, measuring process seen from outside, monitor, timing loop, agreement."""
