"""Two sets of results to compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from factories import make_record

from xla_sweeps.analysis.interval import Prior
from xla_sweeps.analysis.matching import FIGURES, ComparedTrial, Side, compared_trial
from xla_sweeps.analysis.pool import ACROSS, Pool
from xla_sweeps.analysis.summary import summarize
from xla_sweeps.schema.record import Record


def side(
    *groups: Sequence[Record],
    title: str = "A",
    floor: float = 0.01,
    floor_across: float = 0.01,
    anchors: bool = True,
) -> Side:
    """Results of trials whose processes hardly differ, on a machine that is as fast each day."""
    alike = {name: Prior(1e-6) for name in ("speedup", "call")}
    floors = {("speedup", "", False): floor, (ACROSS, "", False): floor_across}
    pool = Pool(common=alike, floors=floors)
    records = {group[0].trial_id: list(group) for group in groups}
    return Side(
        title=title,
        trials=[_compared(group, pool) for group in records.values()],
        pools=dict.fromkeys([*records, "anchor"], pool),
        anchors={"anchor": trial({"graph": 0.05}, processes=4, noise=0.001)} if anchors else {},
    )


def _compared(group: list[Record], pool: Pool) -> ComparedTrial:
    summary = summarize(group, pool=pool)
    rows = summary.comparisons
    return msgspec.structs.replace(
        compared_trial(group, summary),
        figures=tuple(one for one in summary.figures if one.name in FIGURES),
        floor=rows[0].speedup.floor if rows else math.nan,
        floor_across=rows[0].speedup.floor_across if rows else math.nan,
        flags=rows[0].flags if rows else (),
    )


def trial(
    call_s: Mapping[str, float],
    *,
    processes: int = 3,
    asked: str = "q1",
    seed: int = 0,
    noise: float = 0.002,
    **changes: Any,
) -> list[Record]:
    """The records of one trial."""
    return [
        make_record(
            call_s,
            noise=noise,
            seed=seed + number,
            replicate=number,
            request_id=asked,
            **{"trial_id": f"{seed:016x}", **changes},
        )
        for number in range(processes)
    ]
