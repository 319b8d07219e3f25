"""The roofline model: the least time of a call on a device, and what a mode achieves of it. Pure.

Attainable FLOP/s are the smaller of the peak FLOP/s, and the peak B/s times the FLOP done for each
byte moved. For a known amount of work that is a least time: the larger of FLOP / (FLOP/s) and
B / (B/s). Williams, Waterman and Patterson (2009), Roofline: an insightful visual performance model
for multicore architectures, Communications of the ACM 52(4), 65-76, doi:10.1145/1498765.1498785.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xla_sweeps.schema.explanation import Achieved, Peak, Roofline, Side, Work

DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
"""TensorFlow's name of each type of XLA that has a peak."""

FLOP_PER_MAC = 2

COPY, READ = "copy", "read"


def matmul(dtype: str) -> str:
    """The name of a type's peak."""
    return f"matmul {dtype}"


def roofline(work: Work, peaks: Sequence[Peak], calls: Mapping[str, float]) -> Roofline:
    """The bound of some work, and each mode's share of it, by the seconds of a call."""
    per_s = {peak.name: peak.per_s for peak in peaks}
    names = {kind: matmul(DTYPES.get(kind, kind)) for kind in work.macs_by_type}
    memory_s = work.total_bytes / max(per_s[name] for name in (COPY, READ) if name in per_s)
    compute_s = bound_s = side = None
    missing = dict[str, str]()
    if without := [name for name in names.values() if name not in per_s]:
        missing["compute_s"] = f"no peak of {', '.join(without)}"
    else:  # each type at its own peak
        flop = {kind: FLOP_PER_MAC * count for kind, count in work.macs_by_type.items()}
        compute_s = sum(flop[kind] / per_s[name] for kind, name in names.items())
        bound_s = max(compute_s, memory_s)
        side = Side.COMPUTE if compute_s >= memory_s else Side.MEMORY
    return Roofline(
        work=work,
        peaks=tuple(peaks),
        compute_s=compute_s,
        memory_s=memory_s,
        bound_s=bound_s,
        side=side,
        modes=tuple(
            _compare_with_bound(mode, call_s, work, bound_s) for mode, call_s in calls.items()
        ),
        missing=missing,
    )


def _compare_with_bound(mode: str, call_s: float, work: Work, bound_s: float | None) -> Achieved:
    share = None if bound_s is None else bound_s / call_s
    return Achieved(
        mode=mode,
        call_s=call_s,
        bytes_per_s=work.total_bytes / call_s,
        flop_per_s=FLOP_PER_MAC * work.macs / call_s,
        share=share,
        gain=None if share is None else max(1.0, 1 / share),
    )
