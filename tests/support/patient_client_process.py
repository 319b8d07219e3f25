"""The process that runs the W&B client, which has long to close a run after its parent's end."""

from __future__ import annotations

from xla_sweeps.report.wandb import client_process

if __name__ == "__main__":
    client_process.ORPHAN_GRACE_S = 120.0
    client_process.serve(client_process.Session())
