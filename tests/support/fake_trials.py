"""Forks the trials of a sweep, each with a scripted measuring process in place of TensorFlow."""

from __future__ import annotations

import fake_trial

from xla_sweeps.cli import composed

if __name__ == "__main__":
    fake_trial.use_script()
    composed.serve()
