"""The answer in words: one sentence a verdict, and what to do about it. Pure."""

from __future__ import annotations

from xla_sweeps.measure.agreement import REFUSED
from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.row import IMPORTED, ComparisonRow, Verdict
from xla_sweeps.schema.trial import ExecutionMode, is_aa_pair, mode_of

NAMES = {
    ExecutionMode.EAGER: "eager execution",
    ExecutionMode.DEFAULT: "the default (jit_compile=None)",
    ExecutionMode.GRAPH: "graph",
    ExecutionMode.XLA: "XLA",
    ExecutionMode.AUTOCLUSTER: "auto-clustering",
}

SWITCH = {
    ExecutionMode.XLA: "jit_compile=True",
    ExecutionMode.GRAPH: "tf.function(jit_compile=False)",
    ExecutionMode.DEFAULT: "tf.function without jit_compile",
    ExecutionMode.AUTOCLUSTER: 'tf.config.optimizer.set_jit("autoclustering")',
    ExecutionMode.EAGER: "eager execution",
}

FLAG_TEXTS: dict[str, str] = {
    Flag.NOT_CONVERGED: "the interval was still wider than asked for when rounds or time ran out",
    Flag.WARMUP_NOT_STATIONARY: "speed was still moving when warm-up ended",
    Flag.HOST_BOUND: "the device waits for the host",
    Flag.CONTAINS_XLA: "the model compiles parts of itself with XLA in every mode (grouped convolutions of Keras do), "
    "so the other modes contain XLA too",
    Flag.NO_REFERENCE: "no float64 reference could be computed; the modes were compared with eager alone",
    Flag.RECOMPILES: "new input values make the mode compile again",
    Flag.EAGER_IS_GRAPH: "the model is a saved graph: its eager calls run that graph, so they compare with no other "
    "model's eager execution",
    Flag.DRIFT: "the anchor trials before and after differ by more than 2 %: the machine changed its speed meanwhile",
    Flag.TOOK_TURNS: "devices side by side disturbed each other, so only one measured at a time",
    Flag.CUT_SHORT: "the measuring process ended early; the rounds it had finished are kept",
    IMPORTED: "published by others: single measurements without an interval, timed one mode after the other",
    Status.CONTAMINATED: "the machine was busy with other things in more than a fifth of the rounds",
}


def answer(row: ComparisonRow) -> str:
    """One sentence with the figure, its interval and how sure it is, and one of advice."""
    if row.origin == IMPORTED:
        return _imported(row)
    if row.verdict is Verdict.FAILED:
        return _failed(row)
    if is_aa_pair(row.baseline, row.candidate):
        return _aa(row)
    candidate, baseline = name_of(row.candidate), name_of(row.baseline)
    match row.verdict:
        case Verdict.FASTER:
            text = f"{candidate} is {row.speedup:.2f}× faster than {baseline} ({_sure(row)}); {_pays_back(row)}"
        case Verdict.SLOWER:
            slowdown = 1 / row.speedup if row.speedup else float("nan")
            text = (
                f"{candidate} is {slowdown:.2f}× slower than {baseline} ({_sure(row)}). "
                f"Keep {SWITCH[mode_of(row.baseline)]} for this model on this device."
            )
        case Verdict.EQUIVALENT:
            text = (
                f"{candidate} and {baseline} are equally fast to within {row.floor:.1%} ({_sure(row)}). "
                f"Choose by compile time and memory, not by speed."
            )
        case _:
            text = (
                f"{candidate} against {baseline} is undecided: {row.speedup:.2f}× ({_sure(row)}), and differences up "
                f"to {row.floor:.1%} do not count. {_buy_more(row)}"
            )
    return _capitalized(text) + _caveats(row)


def name_of(label: str) -> str:
    """A mode's name for a person; a second copy says so."""
    name = NAMES[mode_of(label)]
    return f"a second copy of {name}" if "_" in label else name


def explain_flag(flag: str) -> str:
    """A flag in words; what stands behind its colon, a mode or a reason, is kept."""
    word, _, rest = flag.partition(":")
    text = FLAG_TEXTS.get(word, word)
    return f"{text} ({rest.strip()})" if rest else text


def _sure(row: ComparisonRow) -> str:
    """The interval in the direction that the sentence speaks, and how many processes stand behind it."""
    low, high = row.speedup_low, row.speedup_high
    if low is None or high is None:
        interval = "no interval"
    elif row.verdict is Verdict.SLOWER:
        interval = f"95 % {1 / high:.2f}–{1 / low:.2f}"
    else:
        digits = 2 if row.verdict is Verdict.FASTER else 3
        interval = f"95 % {low:.{digits}f}–{high:.{digits}f}"
    processes = "1 process" if row.replicates == 1 else f"{row.replicates} processes"
    return f"{interval}, {processes}{': preliminary' if row.preliminary else ''}"


def _pays_back(row: ComparisonRow) -> str:
    if row.compile_s_extra is None or row.break_even_calls is None:
        return f"use {SWITCH[mode_of(row.candidate)]}."
    if row.break_even_calls <= 1:
        return "getting ready costs no more time."
    return f"its {row.compile_s_extra:.1f} s of compiling pay back after {_count(row.break_even_calls)} calls."


def _buy_more(row: ComparisonRow) -> str:
    """What would narrow the interval: more processes where they differ more than rounds within one do."""
    if row.within_percent and row.between_percent and row.between_percent > 2 * row.within_percent:
        return (
            f"Processes differ by {row.between_percent:.1f}%, rounds within one by {row.within_percent:.1f}%: more "
            "processes narrow it (effort.replicates=8)."
        )
    return "Measure longer: effort=standard, on a quiet machine (`xla-sweeps doctor`)."


def _aa(row: ComparisonRow) -> str:
    low, high = row.speedup_low or 0.0, row.speedup_high or float("inf")
    apart = abs((row.speedup or 1.0) - 1)
    mode = name_of(row.baseline)
    text = f"A/A: two copies of {mode} measure {row.speedup:.4f}× ({_sure(row)}), {apart:.1%} apart"
    if low <= 1 <= high or row.verdict in (Verdict.EQUIVALENT, Verdict.AMBIGUOUS):
        return f"{text}, as copies should."
    return f"{text}, though they are the same: this machine adds differences of that size. Run `xla-sweeps doctor`."


def _imported(row: ComparisonRow) -> str:
    """A published figure; how sure it is cannot be said, so neither is which mode to choose."""
    candidate, baseline = name_of(row.candidate), name_of(row.baseline)
    rates = [
        f"{name} ran at {rate:.4g} samples/s"
        for name, rate in (
            (baseline, row.baseline_throughput_samples_per_s),
            (candidate, row.throughput_samples_per_s),
        )
        if rate is not None
    ]
    if row.speedup is None:
        text = f"published, not measured here: {' and '.join(rates)}; there is nothing to compare it with."
    else:
        times, word = (row.speedup, "faster") if row.speedup >= 1 else (1 / row.speedup, "slower")
        text = (
            f"published, not measured here: {candidate} {times:.2f}× {word} than {baseline}, from single measurements, "
            "so how sure it is cannot be said."
        )
    if row.note:
        text += f" Mind: {row.note}."
    return _capitalized(text) + (f" To measure it here: {row.command}" if row.command else "")


def _failed(row: ComparisonRow) -> str:
    candidate, baseline = name_of(row.candidate), name_of(row.baseline)
    failed = name_of(row.failed_mode or row.candidate)
    reason = row.failure_message or f"status {row.status}"
    match row.status:
        case Status.WRONG_RESULT:
            text = f"{failed} computes something else than eager execution, so its speed means nothing: {reason}."
            if reason.startswith(REFUSED):
                text = f"no mode can be checked, so no speedup is given: {reason.removeprefix(REFUSED).strip()}."
        case Status.NONDETERMINISTIC:
            text = f"no mode can be checked, because the model itself is not repeatable: {reason}."
        case Status.MODE_NOT_EFFECTIVE:
            text = f"{failed} was asked for but not in force, so there is no number: {reason}."
        case Status.RETRACED:
            text = f"a mode was traced again while it was measured, so its speed is withheld: {reason}."
        case Status.UNSUPPORTED_OP | Status.DYNAMIC_SHAPE:
            text = f"{failed} cannot run this model: {reason}. Keep {SWITCH[mode_of(row.baseline)]}, or see the hint."
        case Status.OOM_GPU | Status.OOM_HOST:
            text = f"{candidate} against {baseline} ran out of memory: {reason}. Try batch_size=1 or a smaller resolution."
        case Status.TIMEOUT:
            text = f"{candidate} against {baseline} took too long: {reason}."
        case Status.INTERRUPTED:
            text = f"{candidate} against {baseline} was stopped before there was enough to compare; run it again to go on."
        case _:
            text = f"{candidate} against {baseline} could not be measured: {reason}."
    return _capitalized(text)


def _caveats(row: ComparisonRow) -> str:
    text = ""
    if row.status is Status.CONTAMINATED:
        raw = f" (all rounds: {row.speedup_raw:.3f}×)" if row.speedup_raw else ""
        text += f" The machine was not quiet, so measure again before you rely on it{raw}."
    if row.host_bound:
        text += " The device waits for the host here: a larger batch_size would tell more about the device."
    if row.eager_is_graph and ExecutionMode.EAGER in (
        mode_of(row.baseline),
        mode_of(row.candidate),
    ):
        text += " Eager calls of a saved model run its graph."
    if Flag.CONTAINS_XLA in row.flags and mode_of(row.baseline) is not ExecutionMode.XLA:
        text += f" Mind that {name_of(row.baseline)} contains XLA already: the model compiles parts of itself."
    return text


def _count(number: float) -> str:
    """A count with two digits that mean something: 5,400."""
    if number < 100:
        return f"{number:.0f}"
    step = 10 ** (len(f"{number:.0f}") - 2)
    return f"{round(number / step) * step:,.0f}"


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]
