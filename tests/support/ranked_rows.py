"""Made-up rows for rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xla_sweeps.analysis import ranking


def line(model: str, rate: float, *, margin: float = 0.01, **changes: Any) -> dict[str, Any]:
    """A row with this throughput of XLA, half of it with graph, and intervals so wide."""
    row = {
        **dict.fromkeys(ranking.NEEDED, ""),
        "scenario": "call",
        "batch_size": 4,
        "precision": "float32",
        "batches": 1,
        "steps_per_execution": 1,
        "copies": "together",
        "resolution_px": 224,
        "device": "A100",
        "model": model,
        "family": "Family",
        "params": 1e6,
        "macs": 1e9,
        "candidate": "xla",
        "baseline": "graph",
        "origin": "measured",
        "status": "ok",
        "replicates": 3,
        **dict.fromkeys(("speedup", "speedup_low", "speedup_high")),
    }
    for prefix, value in (("", rate), ("baseline_", rate / 2)):
        row[f"{prefix}throughput_samples_per_s"] = value
        row[f"{prefix}throughput_low"] = value * (1 - margin)
        row[f"{prefix}throughput_high"] = value * (1 + margin)
    ends = {f"throughput_{end}": changes.pop(end) for end in ("low", "high") if end in changes}
    return row | ends | changes


def columns_of(lines: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The columns of rows."""
    return {name: [row[name] for row in lines] for name in ranking.NEEDED}
