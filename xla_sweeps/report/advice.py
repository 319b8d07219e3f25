"""The answer in words: a sentence for each verdict, and what to do about it. Pure."""

from __future__ import annotations

from xla_sweeps.schema.columns import IMPORTED, Verdict
from xla_sweeps.schema.measurement import UNFINISHED, Flag, Status
from xla_sweeps.schema.modes import (
    Execution,
    Mode,
    facts_of,
    headline_of,
    is_aa_pair,
    mode_of,
    parse,
)
from xla_sweeps.schema.row import ComparisonRow
from xla_sweeps.schema.trial import EXAMPLE

SYMBOLS = {
    "faster": "▲",
    "slower": "▼",
    "equivalent": "■",
    "ambiguous": "◆",
    "failed": "✕",
    "none": "○",
}
"""Shown before a verdict's word, which is the one that `--where verdict=…` takes."""

PRELIMINARY = "* fewer than 3 replicates: preliminary"
"""What the mark `*` means, wherever it is shown."""

CONTAMINATED = "~ contaminated by other load on the machine: measure it again"
"""What the mark `~` means, wherever it is shown."""

SAME = 0.005
"""Two figures that differ by less say the same."""

UNFINISHED_SYMBOL = "‖"
"""Shown where a measurement was stopped before its end: nothing failed."""

FLAG_TEXTS: dict[str, str] = {
    Flag.NOT_CONVERGED: "rounds or time ran out before the interval was as narrow as required",
    Flag.WARMUP_NOT_STATIONARY: "the speed was still changing when warm-up ended",
    Flag.HOST_BOUND: "the device waits for the host",
    Flag.SUSTAINED_DIFFERS: "alone and for long, a mode runs at another speed than in turns with "
    "the others, because of power or heat; see speedup_sustained",
    Flag.CONTAINS_XLA: "parts of the model are compiled by XLA in every mode (such as Keras's "
    "grouped convolutions), so the other modes contain XLA too",
    Flag.NO_REFERENCE: "there is no float64 reference, so the modes were compared with eager only",
    Flag.RECOMPILES: "new input values make the mode compile again",
    Flag.OUTPUTS_ELSEWHERE: "some outputs are not on the device, so a part of the model may run on "
    "the CPU",
    Flag.RANDOM_LAYERS: "the model has dropout or the like: XLA draws other random numbers "
    "than the other modes, so losses differ; it was off while the modes were checked",
    Flag.EAGER_IS_GRAPH: "the model is a saved graph, which its eager calls run, so they cannot be "
    "compared with another model's eager execution",
    Flag.DRIFT: "the anchor trials before and after differ by more than 2 %: the machine's speed "
    "changed between them",
    Flag.TOOK_TURNS: "devices slowed each other down, so only one measured at a time",
    Flag.CLOCK_DIFFERS: "the measuring process's clock ran at another speed than the machine's",
    Flag.POWER_LIMITED: "the power limit held the GPU's clock down: a mode that runs alone for "
    "longer may be slower",
    Flag.NO_GPU_TELEMETRY: "the driver does not say whether heat or power slowed the GPU",
    Flag.CUT_SHORT: "the measuring process ended early; its finished rounds are kept",
    Flag.BUILD_CHANGED: "earlier replicates are left out: they measured another model or other "
    "libraries under the same name",
    IMPORTED: "published by others: single measurements without an interval, one mode after the "
    "other",
    Status.CONTAMINATED: "more than a fifth of the rounds were contaminated by other load on the "
    "machine",
}


def answer(row: ComparisonRow) -> str:
    """A sentence with the speedup, its interval and the replicates, and a sentence of advice."""
    if row.provenance.origin == IMPORTED:
        return _imported(row)
    if row.speedup.verdict is Verdict.FAILED:
        return _failed(row)
    if row.speedup.verdict is Verdict.NONE:
        return _alone(row)
    if is_aa_pair(row.baseline.mode, row.candidate.mode):
        return _aa(row)
    candidate, baseline = name_of(row.candidate.mode), name_of(row.baseline.mode)
    method = f"model.{mode_of(row.candidate.mode).entry} "
    other = baseline.removeprefix(method) if candidate.startswith(method) else baseline
    match row.speedup.verdict:
        case Verdict.FASTER:
            text = (
                f"{candidate} is {row.speedup.value:.2f}× faster than {other} ({_sure(row)}); "
                f"{_pays_back(row)}"
            )
        case Verdict.SLOWER:
            slowdown = 1 / row.speedup.value if row.speedup.value else float("nan")
            text = (
                f"{candidate} is {slowdown:.2f}× slower than {other} ({_sure(row)}). "
                f"Keep {mode_of(row.baseline.mode).switch} for this model on this device."
            )
        case Verdict.EQUIVALENT:
            text = (
                f"{candidate} and {baseline} are equally fast to within {row.speedup.floor:.1%} "
                f"({_sure(row)}). Choose by compile time and memory, not by speed."
            )
        case _:
            text = (
                f"{candidate} against {baseline} is ambiguous: {row.speedup.value:.2f}× "
                f"({_sure(row)}); differences up to {row.speedup.floor:.1%} do not count. "
                f"{_measure_more(row)}"
            )
    return _capitalized(text) + _caveats(row)


def symbol(row: ComparisonRow) -> str:
    """The symbol of a row's verdict."""
    if row.status in UNFINISHED:
        return UNFINISHED_SYMBOL
    return SYMBOLS[str(row.speedup.verdict)]


def marks(*, preliminary: bool, contaminated: bool) -> str:
    """The marks of a figure: `*`, `~`, both or none."""
    return "*" * preliminary + "~" * contaminated


def name_of(label: str) -> str:
    """A mode's readable name; a second copy is named as such."""
    mode, copy = parse(label)
    return mode.called if copy == 1 else f"a second copy of {mode.called}"


def throughput_unit(task: str, resolution_px: int) -> str:
    """What a model's throughput counts: images/s, clips/s, or samples/s of other inputs."""
    if task == "video":
        return "clips/s"
    return "images/s" if resolution_px and task != EXAMPLE else "samples/s"


def explain_flag(flag: str, details: str = "") -> str:
    """A flag in words, with its modes or notes."""
    text = FLAG_TEXTS.get(flag, flag)
    return f"{text} ({details})" if details else text


def _sure(row: ComparisonRow) -> str:
    """The interval, inverted for a slowdown, and the number of replicates."""
    low, high = row.speedup.low, row.speedup.high
    if low is None or high is None:
        interval = "no interval"
    elif row.speedup.verdict is Verdict.SLOWER:
        interval = f"95 % {1 / high:.2f}–{1 / low:.2f}"
    else:
        digits = 2 if row.speedup.verdict is Verdict.FASTER else 3
        interval = f"95 % {low:.{digits}f}–{high:.{digits}f}"
    replicates = (
        "1 replicate" if row.speedup.replicates == 1 else f"{row.speedup.replicates} replicates"
    )
    if row.speedup.freedom is None and low is not None:
        interval += " within one process"
    return f"{interval}, {replicates}{': preliminary' if row.speedup.preliminary else ''}"


def _pays_back(row: ComparisonRow) -> str:
    mode = mode_of(row.candidate.mode)
    use = f"use {mode.switch}"
    if row.speedup.compile_s_extra is None or row.speedup.break_even_calls is None:
        return f"{use}."
    told = f"{use}; " if mode.entry.is_keras else ""
    if row.speedup.break_even_calls <= 1:
        return f"{told}preparation takes no longer."
    return (
        f"{told}its {row.speedup.compile_s_extra:.1f} s of compilation pay back after "
        f"{_count(row.speedup.break_even_calls)} {facts_of(row.trial.scenario).call}s"
        f"{_calls_range(row)}."
    )


def _calls_range(row: ComparisonRow) -> str:
    low, high = row.speedup.break_even_low, row.speedup.break_even_high
    return "" if low is None or high is None else f" ({_count(low)}–{_count(high)})"


def _measure_more(row: ComparisonRow) -> str:
    """What would narrow the interval: more replicates if they differ more than their rounds do."""
    if (
        row.speedup.within_percent
        and row.speedup.between_percent
        and row.speedup.between_percent > 2 * row.speedup.within_percent
    ):
        return (
            f"Replicates differ by {row.speedup.between_percent:.1f}%, rounds within one by "
            f"{row.speedup.within_percent:.1f}%: more replicates narrow the interval "
            "(effort.replicates=8)."
        )
    return "Measure longer: effort=standard, on a quiet machine (`xla-sweeps doctor`)."


def _aa(row: ComparisonRow) -> str:
    low, high = row.speedup.low or 0.0, row.speedup.high or float("inf")
    apart = abs((row.speedup.value or 1.0) - 1)
    mode = name_of(row.baseline.mode)
    measured = f"{row.speedup.value:.4f}× ({_sure(row)}), {apart:.1%} apart"
    text = f"A/A: two copies of {mode} measure {measured}"
    if low <= 1 <= high or row.speedup.verdict in (Verdict.EQUIVALENT, Verdict.AMBIGUOUS):
        return f"{text}, as expected."
    return (
        f"{text}, although they are the same: this machine adds differences of that size. "
        "Run `xla-sweeps doctor`."
    )


def _alone(row: ComparisonRow) -> str:
    """One mode without a baseline."""
    rate = row.candidate.throughput_samples_per_s or float("nan")
    unit = throughput_unit(row.trial.task, row.trial.resolution_px)
    return (
        f"{_capitalized(name_of(row.candidate.mode))} alone ran at {rate:.4g} {unit}. For a "
        f"speedup, measure a baseline too, as in modes=[{_pair_of(row)}].{_caveats(row)}"
    )


def _pair_of(row: ComparisonRow) -> str:
    return ",".join(headline_of(row.trial.scenario))


def _imported(row: ComparisonRow) -> str:
    """A published result; its uncertainty is unknown, so no mode is recommended."""
    candidate, baseline = name_of(row.candidate.mode), name_of(row.baseline.mode)
    rates = [
        f"{name} ran at {rate:.4g} samples/s"
        for name, rate in (
            (baseline, row.baseline.throughput_samples_per_s),
            (candidate, row.candidate.throughput_samples_per_s),
        )
        if rate is not None
    ]
    if row.speedup.value is None:
        text = f"published, not measured here: {' and '.join(rates)}; there is no baseline."
    else:
        times, word = (
            (row.speedup.value, "faster")
            if row.speedup.value >= 1
            else (1 / row.speedup.value, "slower")
        )
        text = (
            f"published, not measured here: {candidate} {times:.2f}× {word} than {baseline}, from "
            "single measurements, so the uncertainty is unknown."
        )
    if row.provenance.note:
        text += f" Note: {row.provenance.note}."
    return _capitalized(text) + (
        f" To measure it here: {row.provenance.command}" if row.provenance.command else ""
    )


def _failed(row: ComparisonRow) -> str:
    tried = name_of(row.candidate.mode)
    keep = "See the hint"
    if row.baseline.mode:
        tried += f" against {name_of(row.baseline.mode)}"
        keep = f"Keep {mode_of(row.baseline.mode).switch}, or see the hint"
    failed = name_of(row.failure.mode or row.candidate.mode)
    reason = row.failure.message or f"status {row.status}"
    match row.status:
        case Status.WRONG_RESULT:
            text = (
                f"{failed} does not compute what eager execution computes, so its speed is "
                f"meaningless: {reason}."
            )
            if row.failure.refusal:
                text = f"no mode can be verified, so no speedup is given: {row.failure.refusal}."
        case Status.NONDETERMINISTIC:
            text = f"no mode can be verified, because the model is not deterministic: {reason}."
        case Status.MODE_NOT_EFFECTIVE:
            text = f"{failed} was not in force, so there is no result: {reason}."
        case Status.RETRACED:
            text = (
                "a mode was traced again while it was measured, so its speed is withheld: "
                f"{reason}."
            )
        case Status.UNSUPPORTED_OP | Status.DYNAMIC_SHAPE:
            text = f"{failed} cannot run this model: {reason}. {keep}."
        case Status.OOM_GPU | Status.OOM_HOST:
            text = f"{tried} ran out of memory: {reason}. Try batch_size=1 or a smaller resolution."
        case Status.TIMEOUT:
            text = f"{tried} timed out: {reason}."
        case Status.INTERRUPTED:
            text = f"{tried} was interrupted before there was enough to compare. Rerun to resume."
        case _:
            text = f"{tried} could not be measured: {reason}."
    return _capitalized(text)


def _caveats(row: ComparisonRow) -> str:
    text = ""
    if row.status is Status.CONTAMINATED:
        value, raw = row.speedup.value, row.speedup.raw
        apart = value and raw and abs(raw / value - 1) > SAME
        also = f" (all rounds: {raw:.3f}×)" if apart else ""
        text += f" The measurement is contaminated: repeat it before you rely on it{also}."
    if row.speedup.host_bound:
        text += (
            " The device waits for the host here: a larger batch_size says more about the device."
        )
    baseline = mode_of(row.baseline.mode) if row.baseline.mode else None
    if row.trial.eager_is_graph and Mode.EAGER in (baseline, mode_of(row.candidate.mode)):
        text += " Eager calls of a saved model run its graph."
    if Flag.CONTAINS_XLA in row.flags and baseline and baseline.execution is not Execution.XLA:
        text += f" Note that {name_of(row.baseline.mode)} contains XLA too, in parts of the model."
    return text


def _count(number: float) -> str:
    """A count with two significant digits: 5,400."""
    if number < 100:
        return f"{number:.0f}"
    step = 10 ** (len(f"{number:.0f}") - 2)
    return f"{round(number / step) * step:,.0f}"


def _capitalized(text: str) -> str:
    """The text as a sentence; `model.predict` stays as it is written in code."""
    return text if text.startswith("model") else text[0].upper() + text[1:]
