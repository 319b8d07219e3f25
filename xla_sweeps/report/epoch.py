"""Sentences on an epoch of `fit`: the cost of its input and of its last, smaller batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from xla_sweeps.report import advice
from xla_sweeps.schema.modes import Mode, mode_of
from xla_sweeps.schema.row import ModeSummary, TrialSummary

_M = Mode

_STEP = {_M.FIT_XLA: _M.XLA, _M.FIT_GRAPH: _M.GRAPH}
"""The mode that runs the step alone, by mode of `fit`; the first measured one is described."""


def epoch_notes(summary: TrialSummary) -> list[str]:
    """Sentences on a trial of `scenario=fit`; none of others."""
    modes = {mode.label: mode for mode in summary.modes}
    unit = advice.throughput_unit(summary.model.task, summary.model.resolution_px)
    return [*_input_note(modes, unit), *_last_batch_note(summary)]


def _input_note(modes: Mapping[str, ModeSummary], unit: str) -> list[str]:
    """Throughput of an epoch, of its input alone and of its steps alone."""
    rates = {label: mode.columns.throughput_samples_per_s for label, mode in modes.items()}
    for label in _STEP:
        whole, pipeline, step = (rates.get(name) for name in (label, _M.INPUT, _STEP[label]))
        share = modes[label].columns.input_share if label in modes else None
        if not (whole and pipeline and step and share):
            continue
        slower = "input" if pipeline < step else "step"
        return [
            f"{mode_of(label).called} trains on {whole:.4g} {unit}. Its input pipeline alone gives "
            f"{pipeline:.4g} ({share:.0%} of an epoch's time), its step alone {step:.4g}: the "
            f"{slower} sets the pace."
        ]
    return []


def _last_batch_note(summary: TrialSummary) -> list[str]:
    """Compile time of each mode for the last batch."""
    seconds = {mode.label: mode.columns.last_batch_compile_s for mode in summary.modes}
    times = ", ".join(
        f"{label} {value:.1f} s" for label, value in seconds.items() if value is not None
    )
    if not times:
        return []
    return [
        f"The last batch of an epoch has {summary.samples % summary.batch_size} of "
        f"{summary.batch_size} samples. Compiling for its size takes: {times}. "
        "drop_remainder=true leaves it out."
    ]
