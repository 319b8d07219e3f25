"""The stored chart of a report: speedups sorted, with intervals, of the table `comparison`. Pure.

W&B's own bar plots cannot sort or show intervals. Its client neither changes nor deletes a stored
chart, so that another specification is another name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from xla_sweeps.analysis.overview import answers
from xla_sweeps.report.labels import distinctions, short_devices
from xla_sweeps.report.wandb_report import text
from xla_sweeps.schema.modes import headline_of
from xla_sweeps.schema.row import ComparisonRow

TITLE = "Speedups of XLA with intervals (xla-sweeps)"

BAR = "bar"
"""Column of the table with the name of a row's bar."""

FIELDS = {
    name: name for name in (BAR, "scenario", "speedup", "speedup_low", "speedup_high", "verdict")
}
"""The table's column of each field of the chart."""

BAR_PX = 14

COLOURS = {
    "faster": "#0072B2",
    "slower": "#b34700",
    "equivalent": "#808790",
    "ambiguous": "#ab9200",
}

_SPEEDUP = {"field": "${field:speedup}", "type": "quantitative", "title": "speedup (log scale)"}

SPEC: dict[str, Any] = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "title": "${string:title}",
    "data": {"name": "wandb"},
    "transform": [
        {"filter": "datum['${field:scenario}'] === '${string:scenario}' && datum['${field:bar}']"}
    ],
    "height": {"step": BAR_PX},
    "encoding": {
        "y": {
            "field": "${field:bar}",
            "type": "nominal",
            "title": None,
            "axis": {"labelLimit": 400},
            "sort": {"field": "${field:speedup}", "op": "max", "order": "descending"},
        }
    },
    "layer": [
        {
            "mark": {"type": "bar", "tooltip": {"content": "data"}},
            "encoding": {
                "x": {**_SPEEDUP, "scale": {"type": "log", "base": 2}},
                "x2": {"datum": 1},
                "color": {
                    "field": "${field:verdict}",
                    "type": "nominal",
                    "scale": {"domain": [*COLOURS], "range": [*COLOURS.values()]},
                },
            },
        },
        {
            "mark": "rule",
            "encoding": {
                "x": {**_SPEEDUP, "field": "${field:speedup_low}"},
                "x2": {"field": "${field:speedup_high}"},
            },
        },
        {
            "mark": {"type": "rule", "strokeDash": [4, 4]},
            "encoding": {"x": {"datum": 1}, "y": None},
        },
    ],
}
"""Vega-Lite with W&B's placeholders for columns and texts."""

NAME = f"xla-sweeps-speedups-{hashlib.sha256(json.dumps(SPEC).encode()).hexdigest()[:12]}"


def strings(scenario: str) -> dict[str, str]:
    """The texts of the chart of one scenario."""
    baseline, candidate = headline_of(scenario)
    return {"scenario": scenario, "title": f"{candidate} over {baseline}, scenario={scenario}"}


def bars(rows: Sequence[ComparisonRow]) -> list[str]:
    """The name of each row's bar: model, device, and what else tells it from other bars.

    "" for a row without one: each question has the bar of its answer.
    """
    pairs = [
        row
        for group in text.scenarios(answers(rows)).values()
        for row in text.headline_pairs(group)
        if row.speedup.value is not None
    ]
    devices = short_devices(row.trial.device for row in pairs)
    apart = distinctions(pairs, ("scenario", "model", "device"))
    names = {
        id(row): " · ".join(filter(None, (row.trial.model, devices[row.trial.device], other)))
        for row, other in zip(pairs, apart, strict=True)
    }
    return [names.get(id(row), "") for row in rows]
